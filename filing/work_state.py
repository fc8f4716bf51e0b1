"""A row's work state: the facts it keeps, what they read as, and the ten verbs (PROTOCOL registry.json).

A registry entry keeps facts: `floor`, `dialog`, `question`, `waiting`, `done`, `note`, and `stop_at` while
the Stop hook runs. A fact is set when its member is there and not null; `done` when it is true. `state` and
`summary` are made anew from them at every write. Everything else in the entry stays as it was.

What the contract leaves open, and how it is decided here:

- `join` changes no fact: a session may join again in the middle of a turn, whose floor is real, and a floor
  that a dead session left falls at the next `prompt` or `stop`. The entry is stamped and its state made anew.
- A dialog is not pending: a `stop` clears it, since nobody can answer it once the turn has ended.
- There is no id of a turn and no `interrupted` event: a turn that ends without its `stop` reads working until
  the next one begins.
- A `dialog` whose text nobody could read is still a dialog, under fixed words: a row that waits on a person
  must read blocked.
- A text of white space only is no text, for `blocked` and `waiting`, which need one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

EVENTS: Final = ("prompt", "stop", "dialog", "resumed", "join")
DECLARATIONS: Final = ("working", "idle", "blocked", "waiting", "done")
VERBS: Final = EVENTS + DECLARATIONS
ROW_HANDLE_VERBS: Final = ("dialog", "resumed")  # what SOT_COMM_ROW_HANDLE takes
USER: Final = "user"
MACHINE: Final = "machine"

_LEGACY_KEYS: Final = ("turn_origin", "sticky", "sticky_at")
_NAMELESS_DIALOG: Final = "a dialog is open"
_COMMAND: Final = "comm-status"


@dataclass(frozen=True, slots=True)
class Reduced:
    state: str
    summary: str


@dataclass(frozen=True, slots=True, eq=False)
class Stamped:
    """The entry to write in place of the one that was read."""

    entry: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Discarded:
    """Nothing is written. `exit_code` is 0 where nobody is told, and `sentence` is "" then."""

    exit_code: int
    sentence: str


def reduced(facts: Mapping[str, Any]) -> Reduced:
    """What the facts read as, by the contract's priority."""
    note = _text(facts, "note")
    if _is_set(facts, "dialog"):
        return Reduced("blocked", _text(facts, "dialog"))
    if _is_set(facts, "question") and not _is_set(facts, "floor"):
        return Reduced("blocked", _text(facts, "question"))
    if _is_set(facts, "floor"):
        return Reduced("working", note)
    if _is_set(facts, "waiting"):
        return Reduced("waiting", _text(facts, "waiting"))
    return Reduced("done" if facts.get("done") is True else "idle", note)


def transition(
    entry: Mapping[str, Any], verb: str, text: str | None = None, *, origin: str = MACHINE, now: str
) -> Stamped | Discarded:
    """One verb on one row. `text` None: none was given, which keeps what stands; "" clears a note.

    `origin` is who starts the turn of a `prompt`; `now` the stamp (`liveness.utc_stamp`).
    """
    if verb not in VERBS:
        return _usage(f"unknown verb {verb!r} (one of {', '.join(VERBS)})")
    if origin not in {USER, MACHINE}:
        return _usage(f"the origin of a turn is {USER} or {MACHINE}, not {origin!r}")
    facts = {key: value for key, value in entry.items() if key not in _LEGACY_KEYS}
    if verb in EVENTS:
        _happened(facts, verb, text, origin)
    elif verb in {"blocked", "waiting"}:
        if not _declare_hold(facts, verb, text):
            return _usage(f"{verb} needs its text")
    else:
        _declare(facts, verb, text)
    reading = reduced(facts)
    facts |= {"state": reading.state, "summary": reading.summary, "status_at": now, "last_seen": now}
    return Stamped(facts)


def _happened(facts: dict[str, Any], verb: str, text: str | None, origin: str) -> None:
    if verb == "dialog":
        facts["dialog"] = text if text and text.strip() else _NAMELESS_DIALOG
    elif verb != "join":
        facts.pop("dialog", None)  # prompt, stop and resumed alike
    if verb == "prompt":
        facts["floor"] = origin
        if origin == USER:
            _clear(facts, "question", "done")
    if verb == "stop":
        if facts.get("floor") == USER and not _is_set(facts, "question") and not _is_set(facts, "waiting"):
            facts["done"] = True
        _clear(facts, "floor", "stop_at")


def _declare(facts: dict[str, Any], verb: str, text: str | None) -> None:
    """`working`, `idle` and `done`: nothing is open any more."""
    _clear(facts, "question", "waiting", "done")
    if verb == "done":
        facts["done"] = True
    if text is not None:
        facts["note"] = text


def _declare_hold(facts: dict[str, Any], verb: str, text: str | None) -> bool:
    """`blocked` and `waiting`. False: there is no text, neither a new one nor the one that stands.

    A new text outdates the note, so that the row never shows a line older than its latest word. `blocked`
    keeps a wait, which comes back once the question is answered; `waiting` ends a question.
    """
    key = "question" if verb == "blocked" else "waiting"
    if not (_text(facts, key) if text is None else text).strip():
        return False
    if text is not None:
        facts[key] = text
        _clear(facts, "note")
    if verb == "waiting":
        _clear(facts, "question")
    return True


def no_row(verb: str, handle: str | None) -> Discarded:
    """The session is no joined comm agent: a hook's event is none of its business, its own word is lost."""
    if verb in EVENTS:
        return Discarded(0, "")
    who = f"@{handle}" if handle else "this session"
    return Discarded(
        1, f"{_COMMAND}: no registry row for {who} -- stamp discarded; run it where comm-join was run"
    )


def registry_unreadable() -> Discarded:
    """Unreadable is never absent: every verb fails, an event too."""
    return Discarded(1, "FAILED: the registry could not be read; stamp discarded")


def row_handle_refusal(verb: str) -> Discarded | None:
    """SOT_COMM_ROW_HANDLE speaks for a row from outside it, and takes only what a screen can show."""
    if verb in ROW_HANDLE_VERBS:
        return None
    return _usage(f"SOT_COMM_ROW_HANDLE takes only {' and '.join(ROW_HANDLE_VERBS)}, not {verb!r}")


def _usage(why: str) -> Discarded:
    return Discarded(2, f"{_COMMAND}: {why} -- stamp discarded")


def _clear(facts: dict[str, Any], *keys: str) -> None:
    for key in keys:
        facts.pop(key, None)


def _is_set(facts: Mapping[str, Any], key: str) -> bool:
    return facts.get(key) is not None


def _text(facts: Mapping[str, Any], key: str) -> str:
    """A fact on one line, as a summary shows it; the fact itself stays as it was told."""
    value = facts.get(key)
    return " ".join(value.splitlines()) if isinstance(value, str) else ""
