"""`comm-poll`: show the inbox lines past the read cursor, then advance it (PROTOCOL Mail and address-book
verbs, Message frame, Delivery, "Readers have two guards").

Exit 0 shown, or nothing new; 1 FAILED; 2 usage; 75 the inbox is being written: try again; 130 interrupted.
"""

import json
import os
import sys
import time
from collections.abc import Iterable, Mapping

from filing.fresh_read import error_text
from filing.handles import is_handle
from filing.outcome import bad_handle
from filing.reader import BUSY_EXIT, READ_WAIT_S, Batch, Busy, InboxUnreadable, read_batch, save_cursor
from filing.registry import Listing, RegistryReader
from filing.registry_write import touch_last_seen
from filing.unread import ShownLine
from filing.value import Value
from topology.paths import comm_home
from verbs.address_book import FailedError, failed, registry_notes
from verbs.identity import NoIdentityError, carried_row, held_by_another, identify, not_this_rows
from verbs.options import Options
from verbs.sending import INTERRUPTED
from verbs.terminal import one_line, say, without_controls
from wire.env import LONGEST_WAIT_S, SettingError, number

COMMAND = "comm-poll"
UNREADABLE = "the registry could not be read; nothing was read"
NOTHING_NEW = "No new messages."
READ_WAIT_VARIABLE = "SOT_INBOX_READ_WAIT_SECS"
_DOES = (
    "Shows the mail that came since the last comm-poll, as [time] [from:repo] text, and marks it read.\n"
    "Nothing in a message can drive a terminal: control characters are shown as escapes such as \\x1b,\n"
    "whatever stdout is; line ends and tabs stay, and a text's further lines are indented by two spaces.\n"
    "--json gives each text exactly."
)
_EXAMPLE = """examples:
  comm-poll                              what is new
  comm-poll --peek                       the same, and it stays unread
  comm-poll --follow                     mail as it comes, until Ctrl-C
  comm-poll --json | jq -r .msg          the texts alone

exit codes: 0 shown, or nothing is new; 1 FAILED; 2 usage; 75 the inbox is being written: run it again
$SOT_INBOX_READ_WAIT_SECS moves how long a writer is waited for (3 s)."""

_TOUCH_EVERY_S = 60.0  # a follower is there to read: it stays live, as a daemon's row does


class Reader(Value):
    """Who reads, and how it is shown."""

    home: str
    handle: str
    row: str | None
    wait_s: float
    peek: bool
    as_json: bool


class OutputLostError(Exception):
    """What was read could not be shown, so the cursor stays; `error` says why."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


class BusyInboxError(Exception):
    """A writer has the inbox: try again, never a skip."""


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    try:
        return _main(argv)
    except FailedError as error:
        return failed(f"{error}; nothing was read")
    except BusyInboxError as error:
        say(str(error))
        return BUSY_EXIT
    except OutputLostError as lost:
        if not isinstance(lost.error, BrokenPipeError):  # whoever closed a pipe has seen enough
            failed(f"the messages could not be shown ({error_text(lost.error)}); they are still unread")
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


def _main(argv: list[str] | None) -> int:
    options = Options(COMMAND, _DOES, _EXAMPLE)
    how = options.add_mutually_exclusive_group()
    how.add_argument("--peek", action="store_true", help="show without marking it read")
    how.add_argument("-f", "--follow", action="store_true", help="go on showing mail as it comes")
    options.add_argument(
        "--json",
        action="store_true",
        dest="as_json",
        help="one JSON object a line; notes go to standard error",
    )
    given = options.parse_args(argv)
    reader = _reader(os.environ, peek=given.peek, as_json=given.as_json)
    registry = RegistryReader(reader.home)
    if given.follow:
        return _follow(reader, registry)
    return _poll_once(reader, registry)


def _reader(env: Mapping[str, str], *, peek: bool, as_json: bool) -> Reader:
    """Raises FailedError."""
    try:
        handle = identify(None, env).handle
    except NoIdentityError as error:
        raise FailedError(f"not joined: {error.why}; run comm-join first") from None
    if not is_handle(handle):
        raise FailedError(bad_handle(handle).sentence)
    try:
        wait_s = number(env, READ_WAIT_VARIABLE, READ_WAIT_S, least=0, most=LONGEST_WAIT_S)
    except SettingError as error:
        raise FailedError(str(error)) from None
    return Reader(comm_home(env), handle, carried_row(env), wait_s, peek, as_json)


def _poll_once(reader: Reader, registry: RegistryReader) -> int:
    code = _may_not_read(reader, registry)
    if code is not None:
        return code
    batch = _read(reader)
    _warn(reader, batch.warnings)
    shown = _show(reader, batch)
    if not shown and not reader.as_json:
        say(NOTHING_NEW)
    code = _mark_read(reader, batch)
    touch_last_seen(reader.home, reader.handle, time.time())
    return code


def _may_not_read(reader: Reader, registry: RegistryReader) -> int | None:
    """Say why the inbox is not this process's to read, and return the exit code; None where it is.

    The contract's four answers: owner and unbound read, other and unreadable do not.
    """
    answer = registry.read()
    if not isinstance(answer, Listing):
        return failed(UNREADABLE, *registry_notes(reader.home))
    holder = held_by_another(answer.agents.get(reader.handle), reader.row)
    if holder is None:
        return None
    return failed(f"{not_this_rows(reader.handle, holder, reader.row)}; nothing was read")


def _read(reader: Reader) -> Batch:
    """Raises BusyInboxError, FailedError."""
    match read_batch(reader.home, reader.handle, wait_s=reader.wait_s):
        case Batch() as batch:
            return batch
        case Busy(sentence=sentence):
            raise BusyInboxError(sentence)
        case InboxUnreadable(sentence=sentence):
            raise FailedError(sentence)


def _warn(reader: Reader, warnings: Iterable[str]) -> None:
    # A warning is part of what a session is told; a program that reads JSON finds it beside.
    for warning in warnings:
        say(one_line(warning), error=reader.as_json)


def _show(reader: Reader, batch: Batch) -> bool:
    """Show the lines; return whether there was one. Raises OutputLostError."""
    shown = [_as_json(line) if reader.as_json else _as_text(line) for line in batch.polled.shown]
    if shown and (lost := say("\n".join(shown))) is not None:
        raise OutputLostError(lost)
    return bool(shown)


def _as_text(line: ShownLine) -> str:
    head = ShownLine(line.number, one_line(line.stamp), one_line(line.sender), one_line(line.repo), "")
    # No line of a text can pass for the head of a message.
    first, *others = without_controls(line.text).split("\n")
    return "\n".join([f"{head}{first}", *(f"  {other}" if other else "" for other in others)])


def _as_json(line: ShownLine) -> str:
    members = {
        "line": line.number,
        "ts": line.stamp,
        "from": line.sender,
        "to": line.to,
        "repo": line.repo,
        "msg": line.text,
    }
    # ASCII alone, so that no terminal acts on it; of those only DEL is left as it is.
    return json.dumps(members).replace("\x7f", "\\u007f")


def _mark_read(reader: Reader, batch: Batch) -> int:
    """Advance the cursor past what was shown; return the exit code."""
    cursor = batch.polled.cursor
    if cursor is None or reader.peek:
        return 0
    try:
        save_cursor(reader.home, reader.handle, cursor)
    except OSError as error:
        return failed(
            f"the read cursor of @{reader.handle} could not be written ({error_text(error)}); "
            "these messages will be shown again"
        )
    return 0


# --follow


def _follow(reader: Reader, registry: RegistryReader) -> int:
    """Show mail as it comes, until an interrupt, or until the inbox is no longer this process's to read."""
    from verbs.inbox_watch import InboxWatch

    touched = float("-inf")
    warned: tuple[str, ...] = ()
    with InboxWatch(reader.home, reader.handle) as watch:
        for warning in watch.warnings:
            say(f"{COMMAND}: {warning}", error=True)
        while True:
            watch.forget()
            code = _may_not_read(reader, registry)
            if code is not None:
                return code
            try:
                batch = _read(reader)
            except BusyInboxError:
                watch.wait_for_change()
                continue
            _warn(reader, (warning for warning in batch.warnings if warning not in warned))
            warned = batch.warnings
            shown = _show(reader, batch)
            code = _mark_read(reader, batch)
            if code:
                return code
            if shown or time.monotonic() - touched >= _TOUCH_EVERY_S:
                touch_last_seen(reader.home, reader.handle, time.time())
                touched = time.monotonic()
            watch.wait_for_change()


if __name__ == "__main__":
    sys.exit(main())
