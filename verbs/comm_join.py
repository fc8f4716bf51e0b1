"""`comm-join`: put this session into the address book (PROTOCOL Mail and address-book verbs, Naming, Cases).

Writes the registry row under the registry lock, then the self file. Exit 0 joined, 1 FAILED or refused, 2
usage, 3 the self file's slot belongs to another project.
"""

import json
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from filing.comm_home import PROTOCOL_VERSION, HomeNotReady, ensure_home
from filing.fresh_read import error_text
from filing.handles import is_handle
from filing.liveness import utc_stamp
from filing.outcome import bad_handle
from filing.private_file import replace_private
from filing.registry import REGISTRY_NAME
from filing.registry_write import NOT_UPDATED, Document, NotWritten, update_registry
from filing.self_file import CONFLICT_EXIT, SelfFile, self_text
from filing.value import Value
from topology.names import HostNameError, self_host
from topology.paths import comm_home
from verbs.address_book import FailedError, failed, lock_wait_s, not_utf8, not_written, registry_notes
from verbs.identity import carried_row
from verbs.joining import Chosen, NotChosen, Session, choose, joined_entry
from verbs.options import Options, run
from verbs.project import project_here, raw_host
from verbs.self_slot import SelfSlot, read_slot
from verbs.terminal import one_line, say

COMMAND = "comm-join"
NOTHING = "nothing was written"
NO_HANDLE_DERIVED = "the registry could not be read, so no handle was derived; nothing was written"
_DOES = (
    "Puts this session into the address book, under a handle made of its project folder and its box,\n"
    "so that others reach it. Joining again keeps the handle and what the row holds."
)
_EXAMPLE = """examples:
  comm-join                                        as <project>-<box>
  comm-join --expertise "files, rust-backend"      and say what it knows
  comm-join --name MyRepo-wt-rotation-lab          under a name of its own

exit codes: 0 joined; 1 FAILED or refused; 2 usage; 3 the self file names another project
$SOT_LOCK_WAIT_SECS moves how long the registry lock is waited for (10 s)."""


class Wish(Value):
    """What the command line asks for. `expertise` None keeps what the row holds."""

    pinned: str | None
    expertise: list[str] | None
    repin: bool
    as_json: bool


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    return run(COMMAND, lambda: _main(argv))


def _main(argv: list[str] | None) -> int:
    wish = _read_options(argv)
    try:
        return _join(wish, os.environ)
    except FailedError as error:
        return failed(f"{error}; {NOTHING}")


def _read_options(argv: list[str] | None) -> Wish:
    options = Options(COMMAND, _DOES, _EXAMPLE)
    options.add_argument("--name", metavar="HANDLE", help="this handle, not the derived one ($SOT_COMM_NAME)")
    options.add_argument("--expertise", metavar='"A, B"', help="what this session knows, parted by commas")
    options.add_argument(
        "--repin", action="store_true", help="take the self file's slot, though it names another project"
    )
    options.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
    given = options.parse_args(argv)
    pinned = given.name if given.name is not None else os.environ.get("SOT_COMM_NAME") or None
    if pinned is not None:
        pinned = pinned.removeprefix("@")  # no handle begins with one
        if not is_handle(pinned):
            options.error(bad_handle(pinned).sentence)
    if why := not_utf8(given.expertise or "", "--expertise"):
        options.error(why)
    return Wish(pinned, _tags(given.expertise), given.repin, given.as_json)


def _tags(text: str | None) -> list[str] | None:
    return None if text is None else [tag for part in text.split(",") if (tag := part.strip())]


def _join(wish: Wish, env: Mapping[str, str]) -> int:
    session = _session(env)
    home = comm_home(env)
    own = SelfFile("", session.repo, session.root)
    slot = read_slot(env, session.host)
    wait_s = lock_wait_s(env)
    if not wish.repin and (refused := _refuse(slot, own, NOTHING)):
        return refused
    ready = ensure_home(home)
    if isinstance(ready, HomeNotReady):
        return failed(ready.sentence)
    for warning in ready.warnings:
        say(f"WARNING: {one_line(warning)}", error=True)
    joining = Joining(session, wish, slot.remembers(own))
    answer = update_registry(home, joining.write, wait_s, host=session.host)
    match joining.choice:
        case NotChosen(sentence=sentence):
            say(one_line(sentence), error=True)
            return 1
        case Chosen() as chosen if not isinstance(answer, NotWritten):
            return _write_self(wish, env, home, session, chosen, joining)
        case _:
            assert isinstance(answer, NotWritten)  # noqa: S101  # without a choice, `write` never ran
            return _not_joined(answer, home, joining)


def _refuse(slot: SelfSlot, own: SelfFile, written: str) -> int:
    """Say why the slot is not this project's to write, and return the exit code; 0: it is."""
    if slot.unreadable is not None:
        return failed(
            f"the identity slot {slot.path} could not be read ({slot.unreadable}), so it may be another "
            f"project's: mend that, or join again with --repin; {written}"
        )
    claim = slot.claim_against(own)
    if claim is None:
        return 0
    refusal = (
        f"{COMMAND}: REFUSING to join: the identity slot {slot.path} is not this project's: {claim}. A row "
        "whose slot names another project's session reads that session's mail. If this row really is "
        f"{own.root} now, join again with --repin; {written}"
    )
    say(one_line(refusal), error=True)
    return CONFLICT_EXIT


def _session(env: Mapping[str, str]) -> Session:
    """Say who joins. Raises FailedError."""
    try:
        host = self_host(env)
        project = project_here()
    except HostNameError as error:
        raise FailedError(str(error)) from None
    except OSError as error:
        raise FailedError(f"the working folder cannot be told: {error_text(error)}") from None
    row = carried_row(env)
    of_row = "the row id in SOT_COMM_SELF_FILE" if env.get("SOT_COMM_SELF_FILE") else "SOT_WORKSPACE_ID"
    said = ((host, "this box's name (SOT_SELF_HOST)"), (project.root, "the project folder's path"))
    for text, what in (*said, (row or "", of_row)):
        if why := not_utf8(text, what):
            raise FailedError(f"{why}: {text}")
    try:
        self_text(SelfFile("", project.repo, project.root))
    except ValueError as error:
        raise FailedError(str(error)) from None
    return Session(host, raw_host() or host, row, project.repo, project.root)


class Joining:
    """Chooses the handle and makes its row, both under the registry lock: a choice made before it could be
    another join's by then.
    """

    def __init__(self, session: Session, wish: Wish, remembered: str | None) -> None:
        self._session = session
        self._wish = wish
        self._remembered = remembered
        self.choice: Chosen | NotChosen | None = None
        self.derives = not (wish.pinned or remembered)
        self.version: Any = None
        self.entry: dict[str, Any] = {}
        self.again = False

    def write(self, document: Document) -> Document | None:
        agents = document["agents"]
        self.version = document.get("protocol_version")
        self.choice = choose(agents, self._session, pinned=self._wish.pinned, remembered=self._remembered)
        if isinstance(self.choice, NotChosen):
            return None
        handle = self.choice.handle
        self.again = handle in agents
        now = utc_stamp(time.time())
        self.entry = joined_entry(agents.get(handle), self._session, self._wish.expertise, now)
        agents[handle] = self.entry
        return document


def _not_joined(answer: NotWritten, home: str, joining: Joining) -> int:
    if answer.sentence != NOT_UPDATED or joining.choice is not None:
        return not_written(answer)
    return failed(NO_HANDLE_DERIVED if joining.derives else answer.sentence, *registry_notes(home))


def _write_self(
    wish: Wish, env: Mapping[str, str], home: str, session: Session, chosen: Chosen, joining: Joining
) -> int:
    own = SelfFile(chosen.handle, session.repo, session.root)
    # Read anew: another join may have come to the slot since.
    slot = read_slot(env, session.host)
    written = f"{NOTHING} but the registry row of @{chosen.handle}"
    if not wish.repin and (refused := _refuse(slot, own, written)):
        return refused
    try:
        replace_private(slot.path, self_text(own))
    except OSError as error:
        return failed(
            f"@{chosen.handle} has its registry row, but the self file {slot.path} could not be written "
            f"({error_text(error)}), so this session does not know its handle; mend that and join again"
        )
    _say_joined(wish, home, session, chosen, joining, slot.path)
    return 0


def _say_joined(
    wish: Wish, home: str, session: Session, chosen: Chosen, joining: Joining, self_file: str
) -> None:
    registry, inbox = os.path.join(home, REGISTRY_NAME), os.path.join(home, "inbox", f"{chosen.handle}.jsonl")  # noqa: PTH118
    for notice in chosen.notices:
        say(one_line(notice), error=True)
    version = joining.version
    if version != PROTOCOL_VERSION or isinstance(version, bool):
        say(one_line(_other_version(registry, version)), error=True)
    if wish.as_json:
        told = {
            "handle": chosen.handle,
            "rejoined": joining.again,
            "tier": chosen.tier or None,
            "registry": registry,
            "inbox": inbox,
            "self_file": self_file,
            "protocol_version": version,
            "notices": list(chosen.notices),
            "row": joining.entry,
        }
        say(json.dumps(told))
        return
    where = f"row {session.row}" if session.row else "outside any row"
    again = " again" if joining.again else ""
    lines = (
        ("project", f"{session.repo}, {session.root}"),
        ("box", f"{session.host}, {where}"),
        ("reached by", f"comm-send @{chosen.handle} 'text', from any box"),
        ("inbox", f"{inbox}  (comm-poll shows it)"),
    )
    say(f"Joined{again} as @{chosen.handle}")
    for label, text in lines:
        say(f"  {label:<12}{one_line(text)}")


def _other_version(registry: str, version: Any) -> str:
    found = "no protocol_version" if version is None else f"protocol_version {json.dumps(version)}"
    return (
        f"WARNING: {registry} has {found} and this {COMMAND} speaks {PROTOCOL_VERSION}: mail between the two "
        "may be lost. One machine's comm commands are older; update them there (ShipTools.update_comm())"
    )


if __name__ == "__main__":
    sys.exit(main())
