"""Which handle a join takes, and the row it writes (PROTOCOL Naming, Cases "A handle a row holds", Mail and
address-book verbs).

Pure: the registry comes in as it was read under its lock, the answer is written under the same lock. No
daemon of this release rules on rows, so the registry's own binding refuses: an entry bound to a row is held.
"""

from collections.abc import Mapping
from typing import Any

from filing.naming import RECLAIM, Derived, NoHandle, derive_handle, held_roots, tiers
from filing.registry import Listing
from filing.value import Value
from filing.work_state import Stamped, transition
from verbs.identity import held_by_another


class Session(Value):
    """Who joins. `host` is the box's declared name, `raw_host` the text a handle is derived of; `row` is the
    id that this process carries, None outside any row; `root` is canonical.
    """

    host: str
    raw_host: str
    row: str | None
    repo: str
    root: str


class Chosen(Value):
    """`tier` is 0 for a name that was not derived. `notices` are for a person to read."""

    handle: str
    tier: int = 0
    notices: tuple[str, ...] = ()


class NotChosen(Value):
    """Nothing may be written. `sentence` is the whole line to say."""

    sentence: str


def choose(
    agents: Mapping[str, Any], session: Session, *, pinned: str | None, remembered: str | None
) -> Chosen | NotChosen:
    """`pinned` is a name given by --name or $SOT_COMM_NAME, `remembered` one that only this session's self
    file gives. A pinned one is used as it is or refused; a remembered one is stepped past.
    """
    if pinned:
        return _as_pinned(agents.get(pinned), session, pinned)
    why_not = _why_not_again(agents.get(remembered), session) if remembered else None
    if remembered and why_not is None:
        return Chosen(remembered)
    derived = _derive(agents, session)
    if why_not is None or isinstance(derived, NotChosen):
        return derived
    stepped = (
        f"comm: @{remembered} (named by this session's self file) {why_not}; joining as @{derived.handle}"
    )
    return Chosen(derived.handle, derived.tier, (stepped, *derived.notices))


def _as_pinned(entry: Any, session: Session, handle: str) -> Chosen | NotChosen:
    holder = held_by_another(entry, session.row)
    if holder and session.row is None:
        return NotChosen(
            f"comm-join: REFUSING to join: @{handle} is held by a row (row {holder}); "
            "a session outside any row cannot join as it"
        )
    # Nothing but a person's word, or a spawner's, is behind a pinned name: a mistake must be seen at once.
    notices = []
    if holder:
        notices.append(f"comm: @{handle} was row {holder}'s; row {session.row} holds it now")
    root = _root(entry)
    if root and root != session.root:
        notices.append(
            f"comm: @{handle} was joined from {root}; this session now reads its inbox and acts as it"
        )
    return Chosen(handle, notices=tuple(notices))


def _why_not_again(entry: Any, session: Session) -> str | None:
    """Why a session does not keep the handle of its self file; None: it does."""
    if session.row is None and held_by_another(entry, None):
        return "is held by a row"
    root = _root(entry)
    return f"is another project's by now ({root})" if root and root != session.root else None


def _derive(agents: Mapping[str, Any], session: Session) -> Chosen | NotChosen:
    held = held_roots(Listing(agents)) or {}
    names = [handle for handle, _ in tiers(session.root, session.raw_host)]
    of_rows: set[str] = set()
    if session.row is None:
        of_rows = {name for name in names if held_by_another(agents.get(name), None)}
    # Under the root "", nobody's: a row's name is not this session's even where both stand in one folder.
    answer = derive_handle(RECLAIM, session.root, session.raw_host, {**held, **dict.fromkeys(of_rows, "")})
    match answer:
        case NoHandle(sentence=sentence):
            return NotChosen(sentence)
        case Derived(handle=handle, tier=tier, tier1=tier1, notice=notice):
            if tier1 in of_rows:
                notice = f"comm: @{tier1} is held by a row; a session outside any row joins as @{handle}"
            return Chosen(handle, tier, (notice,) if notice else ())


def joined_entry(old: Any, session: Session, expertise: list[str] | None, now: str) -> dict[str, Any]:
    """Return the row to write. `expertise` None keeps what stands; `now` is the stamp.

    A row that this project joined before, or one too old to say who did, keeps its facts, its first `joined`
    and what this release does not know. Another project's facts are not this session's.
    """
    kept = dict(old) if isinstance(old, dict) and _root(old) in {"", session.root} else {}
    tags = kept.get("expertise") if expertise is None else expertise
    first = kept.get("joined")
    kept |= {
        "host": session.host,
        "workspace_id": session.row or "",
        "repo": session.repo,
        "root": session.root,
        "expertise": tags if isinstance(tags, list) else [],
        "status": "idle",
        "joined": first if isinstance(first, str) and first else now,
        "last_seen": now,
    }
    stamped = transition(kept, "join", now=now)
    assert isinstance(stamped, Stamped)  # noqa: S101  # `join` takes no text, so there is none to refuse
    return stamped.entry


def _root(entry: Any) -> str:
    root = entry.get("root") if isinstance(entry, dict) else None
    return root if isinstance(root, str) else ""
