"""By what right a command takes an inbox lock; no wait for it goes past its bound or leaves it held."""

import errno
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from filing import platform, script_lock
from filing.comm_folder import CommFolder
from filing.inbox import Inboxes
from filing.lock_manager import LockRecord, RecordAnswer, RecordUnreadable
from filing.script_lock import StillHeld, let_go, may_lock, own_lock, take_lock
from tests.filing.support import FakeMachine, on_posix

BOUND_S = 30.0  # so that a hang ends as a failure; no assertion depends on it
LOCAL = "local m1"
NFS4 = "nfs4 server:/export"
KINDS = pytest.mark.parametrize("own", [LOCAL, "none@m1", NFS4])


@pytest.fixture
def inboxes(tmp_path: Path) -> Inboxes:
    return Inboxes(CommFolder(str(tmp_path / "comm")))


def hold(inboxes: Inboxes, *, shared: bool = False) -> int:
    fd = inboxes.open_lock("h")
    assert platform.try_lock(fd, shared=shared)
    return fd


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + BOUND_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def is_free(inboxes: Inboxes) -> bool:
    fd = inboxes.open_lock("h")
    try:
        return platform.try_lock(fd)
    finally:
        let_go(fd)


def waits_in_the_kernel() -> bool:
    return any(thread.name == "sot-inbox-lock" for thread in threading.enumerate())


class Taking(threading.Thread):
    """`take_lock` on a thread of its own, with all the time it may want."""

    def __init__(self, inboxes: Inboxes, own: str) -> None:
        super().__init__(daemon=True)
        self.inboxes = inboxes
        self.own = own
        self.taken: Any = None
        self.start()

    def run(self) -> None:
        self.taken = take_lock(self.inboxes, "h", self.own, shared=False, wait_s=BOUND_S)

    def fd(self) -> int:
        self.join(BOUND_S)
        assert isinstance(self.taken, int)
        return self.taken


# The right


@pytest.mark.parametrize(
    ("system", "own", "record", "may"),
    [
        ("linux", LOCAL, LockRecord(LOCAL, "m1"), True),
        ("linux", NFS4, LockRecord(NFS4, "m2"), True),
        ("linux", "none@m1", LockRecord("none@m1", "m1"), True),
        ("linux", "none@m2", LockRecord("none@m1", "m1"), False),
        ("linux", LOCAL, LockRecord(NFS4, "m2"), False),
        ("linux", NFS4, LockRecord("nfs4 server:/other", "m2"), False),
        ("linux", "none", LockRecord("none", None), False),
        ("linux", LOCAL, LockRecord("", None), False),
        ("linux", LOCAL, RecordUnreadable("EIO"), False),
        ("linux", LOCAL, None, False),
        ("darwin", "none@m1", LockRecord("none@m1", "m1"), False),
        ("win32", "none@m1", LockRecord("none@m1", "m1"), False),
    ],
)
def test_a_command_locks_only_what_excludes_every_writer(
    system: str, own: str, record: RecordAnswer, may: bool
) -> None:
    assert may_lock(system, own, record) is may


def test_the_right_is_read_from_the_folders_record(tmp_path: Path) -> None:
    folder = CommFolder(str(tmp_path))
    assert own_lock(folder, machine=FakeMachine(), system="linux") is None
    Path(folder.lock_record).write_text("local m1\nm1\n")
    assert own_lock(folder, machine=FakeMachine(), system="linux") == LOCAL
    assert own_lock(folder, machine=FakeMachine(), system="darwin") is None
    assert own_lock(folder, machine=FakeMachine("local m2", "m2"), system="linux") is None


# The wait


@KINDS
@pytest.mark.parametrize("wait_s", [0.0, 1.0])
def test_a_free_lock_is_taken_at_the_first_try(inboxes: Inboxes, own: str, wait_s: float) -> None:
    fd = take_lock(inboxes, "h", own, shared=False, wait_s=wait_s)
    assert isinstance(fd, int)
    assert not is_free(inboxes)
    let_go(fd)
    assert is_free(inboxes)


@KINDS
@pytest.mark.parametrize("wait_s", [0.0, 0.1])
def test_a_held_lock_is_waited_for_so_long_and_no_longer(inboxes: Inboxes, own: str, wait_s: float) -> None:
    holder = hold(inboxes)
    begin = time.monotonic()
    assert take_lock(inboxes, "h", own, shared=False, wait_s=wait_s) == StillHeld()
    assert wait_s <= time.monotonic() - begin < wait_s + 5
    let_go(holder)
    until(lambda: is_free(inboxes))


@KINDS
def test_a_lock_that_comes_free_is_taken(inboxes: Inboxes, own: str) -> None:
    holder = hold(inboxes)
    taking = Taking(inboxes, own)
    until(lambda: own == NFS4 or waits_in_the_kernel())
    let_go(holder)
    fd = taking.fd()
    assert not is_free(inboxes)
    let_go(fd)


def test_readers_share_and_a_writer_waits(inboxes: Inboxes) -> None:
    first = take_lock(inboxes, "h", LOCAL, shared=True, wait_s=0)
    second = take_lock(inboxes, "h", LOCAL, shared=True, wait_s=0)
    assert take_lock(inboxes, "h", LOCAL, shared=False, wait_s=0.05) == StillHeld()
    for fd in (first, second):
        assert isinstance(fd, int)
        let_go(fd)


def test_a_lock_that_comes_too_late_is_given_straight_back(inboxes: Inboxes) -> None:
    holder = hold(inboxes)
    assert take_lock(inboxes, "h", LOCAL, shared=False, wait_s=0.05) == StillHeld()
    assert waits_in_the_kernel()
    let_go(holder)
    until(lambda: not waits_in_the_kernel())
    assert is_free(inboxes)


class Interrupted(threading.Event):
    def wait(self, timeout: float | None = None) -> bool:
        raise KeyboardInterrupt


@pytest.mark.parametrize("too_late", [False, True])
def test_an_interrupted_wait_leaves_nothing_held(inboxes: Inboxes, too_late: bool) -> None:
    holder = hold(inboxes)
    waiter = script_lock._Waiter(inboxes.open_lock("h"), shared=False)
    waiter._ended = Interrupted()
    thread = threading.Thread(target=waiter._run, daemon=True)
    thread.start()
    if too_late:
        let_go(holder)
        until(waiter._ended.is_set)
    with pytest.raises(KeyboardInterrupt):
        waiter.wait(time.monotonic() + BOUND_S)
    if not too_late:
        let_go(holder)
    thread.join(BOUND_S)
    assert is_free(inboxes)


def test_an_nfs4_lock_is_tried_again_and_again(inboxes: Inboxes, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    holder = hold(inboxes)

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 40:
            let_go(holder)

    monkeypatch.setattr(time, "sleep", sleep)
    fd = take_lock(inboxes, "h", NFS4, shared=False, wait_s=BOUND_S)
    assert isinstance(fd, int)
    let_go(fd)
    assert not waits_in_the_kernel()
    assert all(0.015 <= pause <= 0.025 for pause in pauses)
    assert len(set(pauses)) > 1  # jittered


def test_without_a_thread_the_lock_is_tried_again_and_again(
    inboxes: Inboxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_more(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    holder = hold(inboxes)
    monkeypatch.setattr(time, "sleep", lambda _: let_go(holder))
    monkeypatch.setattr(threading.Thread, "start", no_more)
    fd = take_lock(inboxes, "h", LOCAL, shared=False, wait_s=BOUND_S)
    assert isinstance(fd, int)
    let_go(fd)


@on_posix
def test_a_lock_file_that_was_replaced_meanwhile_is_not_taken_for_the_lock(inboxes: Inboxes) -> None:
    holder = hold(inboxes)
    path = Path(inboxes._folder.lock("h"))
    taking = Taking(inboxes, LOCAL)
    until(waits_in_the_kernel)
    path.unlink()
    let_go(holder)
    fd = taking.fd()
    assert os.path.samestat(os.fstat(fd), path.stat())
    let_go(fd)


@on_posix
def test_a_lock_that_fails_is_an_error_and_leaves_no_descriptor(
    inboxes: Inboxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(fd: int, *, shared: bool = False) -> bool:
        raise OSError(errno.ENOLCK, "No locks available")

    def none_there(fd: int, *, shared: bool = False) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    inboxes.append("h", [])  # so that every file is there
    before = descriptors()
    for call, stand_in in (("try_lock", no_locks), ("wait_lock", none_there)):
        with monkeypatch.context() as patched:
            holder = hold(inboxes)
            patched.setattr(platform, call, stand_in)
            with pytest.raises(OSError, match="No locks"):
                take_lock(inboxes, "h", LOCAL, shared=False, wait_s=BOUND_S)
            let_go(holder)
    assert descriptors() == before


def descriptors() -> int:
    return len(list(Path("/proc/self/fd" if sys.platform == "linux" else "/dev/fd").iterdir()))


@on_posix
def test_a_lock_file_that_is_none_is_an_error(inboxes: Inboxes, tmp_path: Path) -> None:
    (tmp_path / "comm" / "inbox" / "h.lock").mkdir(parents=True)
    with pytest.raises(OSError, match="is a folder"):
        take_lock(inboxes, "h", LOCAL, shared=False, wait_s=0)
