"""`comm-status`: say what this session is doing, or see what is said of it (PROTOCOL registry.json, on work
state).

Five verbs are events that hooks send, five are the session's own word. Exit 0 written, or an event outside
any joined session; 1 FAILED, or a word with no row to keep it; 2 usage.
"""

import json
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from filing.fresh_read import error_text
from filing.liveness import utc_stamp
from filing.private_file import replace_private
from filing.registry import Listing, read_registry
from filing.registry_write import NOT_UPDATED, Document, NotWritten, update_registry
from filing.value import Value
from filing.work_state import (
    DECLARATIONS,
    EVENTS,
    MACHINE,
    USER,
    VERBS,
    Discarded,
    Stamped,
    no_row,
    reduced,
    registry_unreadable,
    row_handle_refusal,
    transition,
)
from topology.paths import comm_home
from verbs.address_book import FailedError, failed, lock_wait_s, not_utf8, not_written, registry_notes
from verbs.identity import (
    IdentityNotToldError,
    NoIdentityError,
    carried_row,
    identify,
    not_its_own,
    self_file_path,
)
from verbs.options import Options, run
from verbs.project import Project, project_here
from verbs.terminal import one_line, say

COMMAND = "comm-status"
ROW_HANDLE_VARIABLE = "SOT_COMM_ROW_HANDLE"
ORIGIN_VARIABLE = "COMM_STATUS_ORIGIN"
_DOES = f"""Writes one fact of this session's work state into the registry. Without a verb it shows the state.

declarations, the session's own word:  {"  ".join(DECLARATIONS)}
events, which hooks send:              {"  ".join(EVENTS)}

Without TEXT the line that stands is kept; "" clears it. blocked and waiting need one. An event in a session
that has not joined does nothing."""
_EXAMPLE = """examples:
  comm-status working "rebuilding backend"
  comm-status blocked "which branch?"
  comm-status waiting "for CI"
  comm-status                              what is said of this session
  comm-status --json | jq -r .state        working, idle, blocked, waiting or done

exit codes: 0 written, or shown; 1 FAILED, or there is no registry row; 2 usage
$SOT_LOCK_WAIT_SECS moves how long the registry lock is waited for (10 s)."""
_FACTS = ("floor", "dialog", "question", "waiting", "done", "note", "stop_at")


class Wish(Value):
    """What the command line asks for. `text` None: none was given."""

    verb: str
    text: str | None
    origin: str


class Session(Value):
    """Who is speaking. `handle` is None where nobody is, and `why` says why. `vouched`: a daemon speaks for
    the handle, which is not this process's own to prove. `project` is None where the working folder cannot
    be told, for the reason `lost`.
    """

    handle: str | None
    why: str
    project: Project | None
    row: str | None
    lost: str = ""
    not_told: bool = False  # there may be a handle
    vouched: bool = False


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    return run(COMMAND, lambda: _main(argv))


def _main(argv: list[str] | None) -> int:
    options = Options(COMMAND, _DOES, _EXAMPLE)
    options.add_argument("verb", nargs="?", metavar="VERB", help=f"one of {', '.join(VERBS)}")
    options.add_argument("text", nargs="*", metavar="TEXT", help="several words are joined by a space")
    options.add_argument(
        "--origin", metavar="WHO", help=f"who starts the turn of a prompt: {USER} or {MACHINE} (the default)"
    )
    options.add_argument("--json", action="store_true", dest="as_json", help="show the state as one object")
    given = options.parse_args(argv)
    try:
        if given.verb is None:
            return _show(_session(os.environ), as_json=given.as_json)
    except FailedError as error:
        return failed(str(error))
    try:
        origin = given.origin or os.environ.get(ORIGIN_VARIABLE) or MACHINE
        wish = Wish(given.verb, " ".join(given.text) if given.text else None, origin)
        code = _write(wish, os.environ)
        return _show(_session(os.environ), as_json=True) if given.as_json and code == 0 else code
    except FailedError as error:
        return failed(f"{error}; stamp discarded")


# Who speaks


def _session(env: Mapping[str, str]) -> Session:
    """Ask for the handle before the project: a hook in a session that has not joined needs no folder."""
    handle, why, lost, not_told = None, "", "", False
    try:
        handle = identify(None, env).handle
    except NoIdentityError as error:
        why, not_told = error.why, isinstance(error, IdentityNotToldError)
    project = None
    try:
        project = project_here()
    except OSError as error:
        lost = f"the working folder cannot be told: {error_text(error)}"
    return Session(handle, why, project, carried_row(env), lost, not_told)


def _row_session(verb: str, handle: str, env: Mapping[str, str]) -> Session | Discarded:
    """A daemon speaks for a row whose screen it reads, in two verbs, and nobody else does."""
    refused = row_handle_refusal(verb)
    if refused is not None:
        return refused
    if not _parent_is_the_daemon():
        return Discarded(
            1, f"{COMMAND}: {ROW_HANDLE_VARIABLE} is taken only from sotd, its parent -- stamp discarded"
        )
    session = _session(env)
    return Session(handle, "", session.project, session.row, session.lost, vouched=True)


def _parent_is_the_daemon() -> bool:
    """Only where the parent's program can be told (Linux); else nobody is taken for it."""
    if sys.platform != "linux":
        return False
    try:
        program = os.readlink(f"/proc/{os.getppid()}/exe")  # noqa: PTH115  # pathlib costs start-up time
    except OSError:
        return False
    return os.path.basename(program) == "sotd"  # noqa: PTH119  # as above


def _why_not(session: Session, agents: Mapping[str, Any], verb: str) -> Discarded | None:
    """Say what becomes of a verb in a session that has no row of its own to stamp; None: it has."""
    handle = session.handle
    if handle is None or handle not in agents:
        return no_row(verb, handle)
    if session.vouched:
        return None
    why = not_its_own(handle, agents, _project(session), session.row)
    if why is None:
        return None
    return Discarded(0, "") if verb in EVENTS else Discarded(1, f"{COMMAND}: {why} -- stamp discarded")


def _project(session: Session) -> Project:
    """Raises FailedError."""
    if session.project is None:
        raise FailedError(session.lost)
    return session.project


# One verb


def _write(wish: Wish, env: Mapping[str, str]) -> int:
    refused = _usage(wish)
    if refused is not None and wish.verb not in EVENTS:
        return _say_discarded(refused)
    spoken_for = env.get(ROW_HANDLE_VARIABLE)
    session = _row_session(wish.verb, spoken_for, env) if spoken_for else _session(env)
    if isinstance(session, Discarded):
        return _say_discarded(session)
    home = comm_home(env)
    if session.handle is None:
        if session.not_told:
            raise FailedError(session.why)
        return _say_discarded(no_row(wish.verb, None), session.why)
    # Looked at before the lock: a hook in a session that has not joined waits for nothing.
    registry = read_registry(home)
    if not isinstance(registry, Listing):
        return _say_discarded(registry_unreadable(), *registry_notes(home))
    discarded = _why_not(session, registry.agents, wish.verb)
    discarded = discarded or refused  # an event outside any joined session is silent, however it is spelled
    if discarded is not None:
        return _say_discarded(discarded)
    if not session.vouched:
        _mark_turn(home, wish.verb, env)
    stamp = Stamp(wish, session)
    answer = update_registry(home, stamp.write, lock_wait_s(env))
    if stamp.discarded is not None:
        return _say_discarded(stamp.discarded)
    if isinstance(answer, NotWritten):
        if answer.sentence == NOT_UPDATED and not stamp.judged:
            return _say_discarded(registry_unreadable(), *registry_notes(home))
        return not_written(answer)
    return 0


def _usage(wish: Wish) -> Discarded | None:
    """Say what no row could make right: it needs no session to be told."""
    if why := not_utf8(wish.text or "", "the text"):
        return Discarded(2, f"{COMMAND}: {why} -- stamp discarded")
    judged = transition({"question": "-", "waiting": "-"}, wish.verb, wish.text, origin=wish.origin, now="")
    return judged if isinstance(judged, Discarded) else None


class Stamp:
    """One verb on this session's row, judged under the registry lock."""

    def __init__(self, wish: Wish, session: Session) -> None:
        self._wish = wish
        self._session = session
        self.judged = False
        self.discarded: Discarded | None = None

    def write(self, document: Document) -> Document | None:
        self.judged = True
        agents, wish = document["agents"], self._wish
        self.discarded = _why_not(self._session, agents, wish.verb)
        if self.discarded is not None:
            return None
        entry = agents[self._session.handle]
        entry = entry if isinstance(entry, dict) else {}
        now = utc_stamp(time.time())
        match transition(entry, wish.verb, wish.text, origin=wish.origin, now=now):
            case Stamped(entry=stamped):
                agents[self._session.handle] = stamped
                return document
            case Discarded() as discarded:
                self.discarded = discarded
                return None


def _say_discarded(discarded: Discarded, *notes: str) -> int:
    if discarded.sentence:
        say(one_line(discarded.sentence), error=True)
        for note in notes:
            say(f"  {one_line(note)}", error=True)
    return discarded.exit_code


def _mark_turn(home: str, verb: str, env: Mapping[str, str]) -> None:
    """Keep `state/turn-<self slot>` while a turn runs (PROTOCOL Layout). Where it cannot be kept, the stamp
    is written all the same.
    """
    if verb not in {"prompt", "stop"}:
        return
    try:
        path = turn_path(home, self_file_path(env))
        if verb == "prompt":
            replace_private(path, f"{utc_stamp(time.time())}\n".encode())
        else:
            os.unlink(path)  # noqa: PTH108  # pathlib costs start-up time
    except (OSError, NoIdentityError):
        pass


def turn_path(home: str, self_file: str) -> str:
    """Return where a turn is marked: the self slot is the self file's name, `<host>__<row>`."""
    slot = os.path.basename(self_file).removesuffix(".txt")  # noqa: PTH119  # as above
    return os.path.join(home, "state", f"turn-{slot}")  # noqa: PTH118


# No verb


def _show(session: Session, *, as_json: bool) -> int:
    home = comm_home(os.environ)
    if session.handle is None:
        return failed(f"not joined: {session.why}; run comm-join first")
    registry = read_registry(home)
    if not isinstance(registry, Listing):
        return failed("the registry could not be read; nothing was shown", *registry_notes(home))
    why = not_its_own(session.handle, registry.agents, _project(session), session.row)
    if why is not None:
        return failed(why)
    row = registry.agents[session.handle]
    told = described(session.handle, row if isinstance(row, dict) else {})
    say(json.dumps(told) if as_json else one_line(_as_text(told)))
    return 0


def described(handle: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a row says of its session, derived anew: a client may have written over `state`."""
    reading = reduced(entry)
    return {
        "handle": handle,
        "state": reading.state,
        "summary": reading.summary,
        "status_at": entry.get("status_at"),
        "last_seen": entry.get("last_seen"),
        "facts": {fact: entry[fact] for fact in _FACTS if entry.get(fact) is not None},
    }


def _as_text(told: Mapping[str, Any]) -> str:
    summary = f": {told['summary']}" if told["summary"] else ""
    since = f" (since {told['status_at']})" if told["status_at"] else ""
    return f"@{told['handle']} is {told['state']}{summary}{since}"


if __name__ == "__main__":
    sys.exit(main())
