"""The inbox lock as a command takes it: by what right, and for how long it waits (PROTOCOL Delivery).

A command adds a line, or reads under a shared lock, only where its lock excludes every other writer's: on
Linux, when its own lock manager is line 1 of the folder's record (under `none@<machine-id>` that is the
record's own machine). Anywhere else it leaves the append to the daemon, and reads unlocked.

"The wait is chosen by lock kind": under `nfs4` the lock is tried again every 15 to 25 ms, since the NFSv4
client's own wait sleeps past a free lock. Else the kernel's wait is taken, which is woken on release and has
a place in the queue that a try now and then has not. It has no bound of its own, and a signal to bound it
would be the whole process's. So a daemon thread waits, only when a first try found the lock held; a lock that
comes to it too late is given straight back, and it keeps no process alive.
"""

import contextlib
import os
import sys
import threading
import time
from dataclasses import dataclass
from typing import Final

from filing import platform
from filing.comm_folder import CommFolder
from filing.fresh_read import SYSTEM_CALLS, ReadCalls
from filing.inbox import Inboxes
from filing.lock_manager import NFS4_PREFIX, RecordAnswer, names_own
from filing.lock_record import read_record
from filing.machine import THIS_MACHINE, Machine

NFS4_RETRY_S: Final = (0.015, 0.025)  # jittered between these, for a command as for a daemon


def may_lock(system: str, own: str, record: RecordAnswer) -> bool:
    """May a command on `system` (of `sys.platform`) with lock manager `own` take this folder's locks?"""
    return system == "linux" and names_own(own, record)


def own_lock(
    folder: CommFolder,
    *,
    machine: Machine = THIS_MACHINE,
    reads: ReadCalls = SYSTEM_CALLS,
    system: str = sys.platform,
) -> str | None:
    """The lock manager a command here takes the folder's inbox locks through; None where it takes none."""
    if system != "linux":
        return None
    record = read_record(folder, reads)
    own = machine.own_identity(folder.inboxes, machine.machine_id())
    return own if may_lock(system, own, record) else None


@dataclass(frozen=True, slots=True)
class StillHeld:
    """Others held the lock for the whole wait."""


def take_lock(inboxes: Inboxes, handle: str, own: str, *, shared: bool, wait_s: float) -> int | StillHeld:
    """The inbox's lock, as a descriptor for `let_go`. There is one try, also where `wait_s` is 0.

    `own` is `own_lock`'s answer. Raises `OSError`: the lock file does not open, or the lock itself fails.
    """
    deadline = time.monotonic() + wait_s
    while True:
        fd = inboxes.open_lock(handle)
        if not _wait(fd, deadline, shared=shared, polling=own.startswith(NFS4_PREFIX)):
            return StillHeld()
        try:
            current = inboxes.lock_is_current(fd)
        except BaseException:
            let_go(fd)
            raise
        if current:
            return fd
        let_go(fd)
        if time.monotonic() >= deadline:
            return StillHeld()


def let_go(fd: int) -> None:
    """The lock is off and the descriptor closed, whether or not it held the lock."""
    # Unlocked by name first: a child forked meanwhile may still share the descriptor.
    with contextlib.suppress(OSError):  # the close unlocks too
        platform.unlock(fd)
    with contextlib.suppress(OSError):  # nothing was written through it
        os.close(fd)


def _wait(fd: int, deadline: float, *, shared: bool, polling: bool) -> bool:
    """True: `fd` holds the lock. In every other case it is closed, or a waiting thread's to close."""
    try:
        if platform.try_lock(fd, shared=shared):
            return True
        waiter = None if polling else _Waiter.started(fd, shared=shared)
        if waiter is None and _poll(fd, deadline, shared=shared):
            return True
    except BaseException:
        let_go(fd)
        raise
    if waiter is not None:
        return waiter.wait(deadline)
    let_go(fd)
    return False


def _poll(fd: int, deadline: float, *, shared: bool) -> bool:
    while (left_s := deadline - time.monotonic()) > 0:
        time.sleep(min(left_s, _jittered(*NFS4_RETRY_S)))
        if platform.try_lock(fd, shared=shared):
            return True
    return False


def _jittered(least: float, most: float) -> float:
    # `random` would cost each command the import of hashlib.
    return least + (most - least) * os.urandom(1)[0] / 255


class _Waiter:
    """A thread inside the kernel's wait. `_mutex` decides who closes the descriptor when both sides end at
    once: the thread, if it was given up before it had an answer, else the one who waits for it.
    """

    def __init__(self, fd: int, *, shared: bool) -> None:
        self._fd = fd
        self._shared = shared
        self._mutex = threading.Lock()
        self._ended = threading.Event()
        self._given_up = False
        self._error: OSError | None = None

    @classmethod
    def started(cls, fd: int, *, shared: bool) -> "_Waiter | None":
        """None: the system gives no more threads, so that the lock has to be tried again and again."""
        waiter = cls(fd, shared=shared)
        thread = threading.Thread(target=waiter._run, name="sot-inbox-lock", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return None
        return waiter

    def wait(self, deadline: float) -> bool:
        """False: it is the thread's from here on. Raises the `OSError` of the kernel's wait."""
        try:
            self._ended.wait(max(0.0, deadline - time.monotonic()))
        except BaseException:  # an interrupt from the keyboard
            if not self._give_up():
                let_go(self._fd)
            raise
        if self._give_up():
            return False
        if self._error is not None:
            let_go(self._fd)
            raise self._error
        return True

    def _give_up(self) -> bool:
        """False: too late, the thread has an answer and the descriptor is the caller's."""
        with self._mutex:
            self._given_up = not self._ended.is_set()
            return self._given_up

    def _run(self) -> None:
        try:
            platform.wait_lock(self._fd, shared=self._shared)
        except OSError as error:
            self._error = error
        with self._mutex:
            self._ended.set()
            given_up = self._given_up
        if given_up:
            let_go(self._fd)
