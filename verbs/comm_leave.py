"""`comm-leave`: take a handle out of the address book (PROTOCOL Mail and address-book verbs, Cases).

The registry row goes, under the registry lock; inbox and cursor stay. Leaving oneself also frees this
session's self file, which the join wrote: with it the session would go on acting as a handle that it gave up.
Exit 0 left, or nothing to leave; 1 FAILED or refused; 2 usage.
"""

import os
import sys
from collections.abc import Mapping
from typing import Any

from filing.fresh_read import error_text
from filing.handles import is_handle
from filing.outcome import bad_handle
from filing.registry_row import Absent, Unreadable, read_row
from filing.registry_write import NOT_UPDATED, Document, NotWritten, Unchanged, update_registry
from topology.names import HostNameError, self_host
from topology.paths import comm_home
from verbs.address_book import FailedError, failed, lock_wait_s, not_written, registry_notes
from verbs.identity import (
    IdentityNotToldError,
    NoIdentityError,
    carried_row,
    held_by_another,
    identify,
    not_its_own,
)
from verbs.options import Options, run
from verbs.project import Project, project_here
from verbs.self_slot import read_slot
from verbs.terminal import one_line, say

COMMAND = "comm-leave"
UNREADABLE = "the registry could not be read; nothing was removed"
_DOES = (
    "Takes this session out of the address book, or with --name an orphan that a dead session left there.\n"
    "Inboxes and what was read of them stay."
)
_EXAMPLE = """examples:
  comm-leave                         this session
  comm-leave --name MyRepo-old-lab   an orphan's row, and nothing else

exit codes: 0 left, or nothing to leave; 1 FAILED or refused; 2 usage
$SOT_LOCK_WAIT_SECS moves how long the registry lock is waited for (10 s)."""


class Removal:
    """Removes one row, judged under the lock. `here` is this session's project where it leaves as itself,
    None where an orphan was named, which may be any project's.

    Another workspace row's handle stays in both cases: no daemon of this release rules on whether that row
    has ended, and then the registry's binding refuses.
    """

    def __init__(self, handle: str, row: str | None, here: Project | None) -> None:
        self._handle = handle
        self._row = row
        self._here = here
        self.refusal: str | None = None

    def write(self, document: Document) -> Document | None:
        agents = document["agents"]
        if self._handle not in agents:
            return None
        self.refusal = self._judge(agents)
        if self.refusal is not None:
            return None
        del agents[self._handle]
        return document

    def _judge(self, agents: Mapping[str, Any]) -> str | None:
        if self._here is not None:
            return not_its_own(self._handle, agents, self._here, self._row)
        holder = held_by_another(agents[self._handle], self._row)
        held = f"REFUSING to remove @{self._handle}: it is held by a row (row {holder})"
        return None if holder is None else held


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    return run(COMMAND, lambda: _main(argv))


def _main(argv: list[str] | None) -> int:
    options = Options(COMMAND, _DOES, _EXAMPLE)
    options.add_argument("--name", metavar="HANDLE", help="remove this handle's row")
    given = options.parse_args(argv)
    name = None if given.name is None else given.name.removeprefix("@")
    if name is not None and not is_handle(name):
        options.error(bad_handle(name).sentence)
    try:
        return _leave(name, os.environ)
    except FailedError as error:
        return failed(f"{error}; nothing was removed")


def _leave(name: str | None, env: Mapping[str, str]) -> int:
    try:
        host = self_host(env)
    except HostNameError as error:
        raise FailedError(str(error)) from None
    slot = read_slot(env, host)
    try:
        own, why, not_told = identify(None, env).handle, "", False
    except NoIdentityError as error:
        own, why, not_told = None, error.why, isinstance(error, IdentityNotToldError)
    handle = name or own
    if handle is None:
        if slot.unreadable is not None:
            raise FailedError(f"the self file {slot.path} could not be read ({slot.unreadable})")
        if not_told:
            raise FailedError(why)
        say(one_line(f"Not joined: {why}. There is nothing to leave."))
        return 0
    home = comm_home(env)
    there = read_row(home, handle)
    if isinstance(there, Unreadable):
        return failed(UNREADABLE, *registry_notes(home))
    absent = isinstance(there, Absent)
    if not absent:
        removal = Removal(handle, carried_row(env), None if name else _project())
        answer = update_registry(home, removal.write, lock_wait_s(env), host=host)
        if removal.refusal is not None:
            say(one_line(f"{COMMAND}: {removal.refusal}; nothing was removed"), error=True)
            return 1
        if isinstance(answer, NotWritten):
            unreadable = answer.sentence == NOT_UPDATED
            return failed(UNREADABLE, *registry_notes(home)) if unreadable else not_written(answer)
        absent = isinstance(answer, Unchanged)  # another leave was first
    return _say_left(handle, slot.path if handle == own == slot.names else None, absent=absent)


def _project() -> Project:
    """Raises FailedError."""
    try:
        return project_here()
    except OSError as error:
        raise FailedError(f"the working folder cannot be told: {error_text(error)}") from None


def _say_left(handle: str, self_file: str | None, *, absent: bool) -> int:
    if self_file is not None:
        try:
            os.unlink(self_file)  # noqa: PTH108  # pathlib costs start-up time
        except FileNotFoundError:
            pass  # another leave was first
        except OSError as error:
            return failed(
                f"@{handle} has no registry row any more, but the self file {self_file} still names it and "
                f"could not be removed ({error_text(error)})"
            )
    if absent:
        say(f"@{handle} is not in the registry: there is nothing to remove.")
    else:
        say(f"@{handle} is removed from the registry; its inbox and read cursor stay.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
