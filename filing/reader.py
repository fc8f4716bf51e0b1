"""The reader's batch: what one comm-poll shows, read once under the shared inbox lock (PROTOCOL Delivery).

A reader must not count a line that its writer then cuts back. So where this box's lock excludes the writers
(`filing.script_lock`), count and read run under a shared lock; it is let go before anything is shown, so that
a slow display holds off no writer. Everywhere the hashed cursor is the second guard.
"""

import os
import sys
from dataclasses import dataclass
from typing import Final

from filing.comm_folder import CommFolder, file_error_text
from filing.cursor import cut_back_note, read_cursor, write_cursor
from filing.fresh_read import SYSTEM_CALLS, ReadCalls, ReadFailed
from filing.handles import is_handle
from filing.inbox import Inboxes
from filing.machine import THIS_MACHINE, Machine
from filing.private_file import PRIVATE_READS, read_private
from filing.script_lock import StillHeld, let_go, own_lock, take_lock
from filing.unread import Polled, poll

READ_WAIT_S: Final = 3.0  # SOT_INBOX_READ_WAIT_SECS
BUSY_EXIT: Final = 75


@dataclass(frozen=True, slots=True)
class Batch:
    """What was read. Show `warnings`, then `polled.shown`; then hand `polled.cursor` to `save_cursor`.

    `exists`: there is an inbox.
    """

    polled: Polled
    exists: bool
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Busy:
    """A writer held the inbox for the whole wait: nothing was read, the cursor stays. Exit `BUSY_EXIT`."""

    sentence: str


@dataclass(frozen=True, slots=True)
class InboxUnreadable:
    """There is an inbox and it gave no bytes, which is never "no messages"."""

    sentence: str


def read_batch(
    home: str,
    handle: str,
    *,
    wait_s: float = READ_WAIT_S,
    machine: Machine = THIS_MACHINE,
    reads: ReadCalls = SYSTEM_CALLS,
    private_reads: ReadCalls = PRIVATE_READS,
    system: str = sys.platform,
) -> Batch | Busy | InboxUnreadable:
    """The lines past the cursor, read once; `polled.unread` is the hook's count. Blocks, and writes nothing.

    The handle's right to read is the caller's to judge. Only a lock that others hold is Busy: any other fault
    of it is a warning, and the read runs unlocked.
    """
    if not is_handle(handle):
        raise ValueError("not a handle")  # it is about to become a path
    folder = CommFolder(home)
    try:
        os.lstat(folder.inbox(handle))  # before the lock: without an inbox no lock file is made
    except FileNotFoundError:
        return _batch(folder, handle, None, read_cursor(folder, handle, private_reads), ())
    except OSError as error:
        return _unreadable(handle, error)
    warnings: tuple[str, ...] = ()
    fd: int | StillHeld | None = None
    own = own_lock(folder, machine=machine, reads=reads, system=system)
    if own is not None:
        try:
            fd = take_lock(Inboxes(folder), handle, own, shared=True, wait_s=wait_s)
        except OSError as error:
            warnings = (_lock_fault(handle, error),)
    if isinstance(fd, StillHeld):
        return Busy(f"the inbox for @{handle} is being written — nothing was read; run comm-poll again")
    try:
        inbox = read_private(folder.inbox(handle), private_reads)
        cursor = read_cursor(folder, handle, private_reads)
    except OSError as error:
        return _unreadable(handle, error)
    finally:
        if fd is not None:
            let_go(fd)
    # Thousands of lines take a while to read as JSON, and no writer has to wait for that.
    return _batch(folder, handle, inbox, cursor, warnings)


def save_cursor(home: str, handle: str, text: str) -> None:
    """Write `polled.cursor`, after its lines were shown. Raises `OSError`: they will be shown again."""
    write_cursor(CommFolder(home), handle, text)


def _batch(
    folder: CommFolder,
    handle: str,
    inbox: bytes | None,
    cursor: bytes | ReadFailed | None,
    warnings: tuple[str, ...],
) -> Batch:
    if isinstance(cursor, ReadFailed):
        warnings += (_cursor_fault(handle, cursor.why),)
        cursor = None
    polled = poll(inbox, cursor, handle)
    if polled.cut_back:
        warnings += (cut_back_note(handle),)
    if polled.not_shown:
        warnings += (_not_shown(folder.inbox(handle), polled.not_shown),)
    if polled.half_line_bytes:
        warnings += (_half_line(folder.inbox(handle), handle, polled),)
    return Batch(polled, inbox is not None, warnings)


def _unreadable(handle: str, error: OSError) -> InboxUnreadable:
    why = file_error_text(f"inbox/{handle}.jsonl", error)
    return InboxUnreadable(f"the inbox for @{handle} could not be read: {why}")


def _lock_fault(handle: str, error: OSError) -> str:
    why = file_error_text(f"inbox/{handle}.lock", error)
    return (
        f"WARNING: the inbox lock for @{handle} failed ({why}) — reading without it; "
        "a line may show twice, none is lost"
    )


def _cursor_fault(handle: str, why: str) -> str:
    return (
        f"WARNING: the read cursor for @{handle} could not be read ({why}) — "
        "showing the inbox from its start; a line may show twice, none is lost"
    )


def _not_shown(path: str, numbers: tuple[int, ...]) -> str:
    lines = f"line {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} lines from {numbers[0]} on"
    return f"WARNING: {path}: {lines} held no message that can be shown and will not come again; look there"


def _half_line(path: str, handle: str, polled: Polled) -> str:
    return (
        f"WARNING: {path}: line {polled.total + 1} is half a line ({polled.half_line_bytes} bytes) and is "
        "not shown: its writer died or is still at it, and its sender was not told filed. The next message "
        f"to @{handle} cuts it off; to keep it, copy it out before"
    )
