"""Route 1 as a command takes it: the line into the inbox by its own hand (PROTOCOL Delivery).

The append is the daemon's own (`filing.inbox`); only the way to the lock is a command's
(`filing.script_lock`). Whether the receiver is listed and live was asked before, by the one who sends.
"""

import sys
from dataclasses import dataclass

from filing import outcome
from filing.comm_folder import SYSTEM_FILES, CommFolder, FileCalls, file_error_text
from filing.fresh_read import SYSTEM_CALLS, ReadCalls
from filing.handles import is_handle
from filing.inbox import AppendFailed, Inboxes
from filing.machine import THIS_MACHINE, Machine
from filing.outcome import FILED, Filed, Refused
from filing.script_lock import StillHeld, let_go, own_lock, take_lock


@dataclass(frozen=True, slots=True)
class NotOurs:
    """This box may not take the folder's inbox locks: the line goes to the daemon, as comm.file. Nothing was
    tried.
    """


NOT_OURS = NotOurs()


def append_locally(
    home: str,
    handle: str,
    line: bytes,
    lock_wait_s: float,
    *,
    machine: Machine = THIS_MACHINE,
    files: FileCalls = SYSTEM_FILES,
    reads: ReadCalls = SYSTEM_CALLS,
    system: str = sys.platform,
) -> Filed | Refused | NotOurs:
    """`line` (of `inbox_line`, with its LF) is in the inbox and flushed, or nothing was added. Blocks.

    The wait for the lock is bounded by `lock_wait_s` (SOT_INBOX_LOCK_WAIT_SECS); past it nothing is appended.
    """
    if line.count(b"\n") != 1 or not line.endswith(b"\n"):
        raise ValueError("one line, with its LF at the end")
    if not is_handle(handle):
        return outcome.bad_handle(handle)
    folder = CommFolder(home)
    own = own_lock(folder, machine=machine, reads=reads, system=system)
    if own is None:
        return NOT_OURS
    inboxes = Inboxes(folder, files)
    try:
        fd = take_lock(inboxes, handle, own, shared=False, wait_s=lock_wait_s)
    except OSError as error:
        return outcome.append_failed(file_error_text(f"inbox/{handle}.lock", error))
    if isinstance(fd, StillHeld):
        return outcome.lock_held(handle, lock_wait_s)
    try:
        result = inboxes.append(handle, [line])
    finally:
        let_go(fd)
    return outcome.append_failed(result.why) if isinstance(result, AppendFailed) else FILED
