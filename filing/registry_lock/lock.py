"""The registry lock on the disk: every write to registry.json holds it (PROTOCOL The registry lock).

The rules are in `take` and `walk`; here their commands are carried out. Standard library only, and blocking:
a daemon calls this from a thread of its own.
"""

import contextlib
import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, assert_never

from filing import platform
from filing.comm_folder import SYSTEM_FILES, FileCalls
from filing.fresh_read import SYSTEM_CALLS, ReadCalls, ReadFailed, error_text, read_once
from filing.platform import process
from filing.private_file import write_new
from filing.registry_lock import sentences, take, walk
from filing.registry_lock.record import (
    LOCK_NAME,
    UNKNOWN,
    Finding,
    Me,
    Record,
    Start,
    first_line,
    judge,
    name_field,
    parse_record,
)
from filing.registry_lock.sentences import Blocked
from filing.value import Value
from topology.names import HostNameError, self_host

RULED_WAIT_S: Final = 10.0  # join, leave, spawn, despawn, status
TOUCH_WAIT_S: Final = 1.0  # the best-effort stamps of last_seen
HEARTBEAT_WAIT_S: Final = 0.0  # one try, which reclaims a dead holder's lock all the same

_SHOWN_CHARACTERS: Final = 80
_READERS_WAIT_S: Final = 2.0
_READERS_POLL_S: Final = 0.005


class LockNotTakenError(Exception):
    """`sentence` names the holder and the recovery; `FAILED: ` and the like are the caller's to put before
    it.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


class LockCalls:
    """The system calls of the lock and its clock, in one place so that a test can replace any of them."""

    files: FileCalls = SYSTEM_FILES
    reads: ReadCalls = SYSTEM_CALLS

    def link(self, source: str, target: str) -> None:
        os.link(source, target)

    def link_count(self, path: str) -> int:
        """Through an open, which makes an NFS client ask the server."""
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0))
        try:
            return os.fstat(fd).st_nlink
        finally:
            os.close(fd)

    def unlink(self, path: str) -> None:
        if sys.platform == "win32":
            once_nobody_reads(lambda: os.unlink(path))
        else:
            os.unlink(path)

    def process_start(self, pid: int) -> str:
        return process.process_start(pid)

    def age_s(self, path: str) -> float:
        return time.time() - os.lstat(path).st_mtime

    def now_s(self) -> float:
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)


SYSTEM_LOCK_CALLS: Final = LockCalls()


class _Turn:
    """One thread of this process at a time is inside the lock: threads share one record, so a marker that
    one of them abandoned would read as a live one's to the others.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        if sys.platform != "win32":
            # A thread with the turn at a fork does not run in the child, and would keep it there for good.
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self.lock = threading.Lock()


_TURN: Final = _Turn()


@contextlib.contextmanager
def registry_lock(
    home: str,
    wait_s: float = RULED_WAIT_S,
    *,
    host: str | None = None,
    calls: LockCalls = SYSTEM_LOCK_CALLS,
) -> Iterator[None]:
    """Hold the registry lock of the comm folder `home`, or raise `LockNotTakenError` when `wait_s` is over.

    There is always one try, with its reclaim of a dead holder's lock, which settles for a second. `host` is
    this box's name where the caller knows it. Not reentrant. What stands in the block runs with the lock; it
    is released however the block ends.
    """
    deadline_s = calls.now_s() + wait_s
    turn = _TURN.lock
    if not turn.acquire(timeout=max(0.0, min(wait_s, threading.TIMEOUT_MAX))):
        raise LockNotTakenError(sentences.turn_never_came(os.path.join(home, LOCK_NAME)))
    try:
        folder = _LockFolder(home, this_process(home, host, calls), calls)
        folder.acquire(deadline_s)
        try:
            yield
        finally:
            folder.release()
    finally:
        turn.release()


class ClearAnswer(Value):
    """`ok`: the lock is off, or there was none. `sentence` is what to say either way."""

    ok: bool
    sentence: str


def clear(home: str, *, host: str | None = None, calls: LockCalls = SYSTEM_LOCK_CALLS) -> ClearAnswer:
    """Take the reclaim path at once, with no deadline: it clears only what this box proves dead."""
    with _TURN.lock:
        return _LockFolder(home, this_process(home, host, calls), calls).clear()


def this_process(home: str, host: str | None = None, calls: LockCalls = SYSTEM_LOCK_CALLS) -> Me:
    """This process's record for a comm folder, made anew at each take: a fork changes it."""
    if host is None:
        try:
            host = self_host()
        except HostNameError:
            host = ""
    pid = os.getpid()
    name = name_field(host)
    no_proof = process.no_fresh_read(home)
    if no_proof is not None:
        return Me(Record(name, UNKNOWN, UNKNOWN, UNKNOWN, str(pid), UNKNOWN), no_proof)
    pidns = process.pid_namespace()
    start = None
    if pidns is not None:
        with contextlib.suppress(OSError):
            start = calls.process_start(pid)
    machine, boot = platform.machine_id(), process.boot_id()
    return Me(Record(name, _field(machine), _field(boot), _field(pidns), str(pid), _field(start)))


def _field(value: str | None) -> str:
    return value if value and not any(c in ":/\0\r\n" for c in value) else UNKNOWN


class _LockFolder:
    """One comm folder's lock and markers, as one process that has the turn works on them."""

    def __init__(self, home: str, me: Me, calls: LockCalls) -> None:
        self._home = home
        self._lock = os.path.join(home, LOCK_NAME)
        self._me = me
        self._pid = os.getpid()
        self._calls = calls

    def acquire(self, deadline_s: float) -> None:
        state, command = take.begin()
        while True:
            event = self._do(command)
            left_s = deadline_s - self._calls.now_s()
            following = take.advance(state, event, self._me, left_s=left_s)
            if isinstance(following, take.Taken):
                return
            if isinstance(following, take.NotTaken):
                raise LockNotTakenError(self._failed(following.blocked))
            state, command = following

    def release(self) -> None:
        """Remove the lock, if it is this process's. Where that fails it stays and names us: the next take of
        this process reclaims it, or anybody's once this process has ended.
        """
        if os.getpid() != self._pid:
            return  # a child that was forked inside the block: its parent holds the lock
        seen = self._see(LOCK_NAME)
        if (
            isinstance(seen, walk.Missing)
            or _is_link(self._lock)
            or (isinstance(seen, walk.Named) and seen.record != self._me.record)
        ):
            return  # a person removed it by hand, and what stands there now is another's
        self._remove(LOCK_NAME)

    def clear(self) -> ClearAnswer:
        state, command = walk.begin()
        holder: Record | None = None
        while True:
            event = self._do(command)
            if holder is None and isinstance(event, walk.Named):
                holder = event.record
            following = walk.advance(state, event, self._me, past_deadline=False)
            if not isinstance(following, tuple):
                return self._answer(following, holder)
            state, command = following

    def _answer(self, end: walk.End, holder: Record | None) -> ClearAnswer:
        match end:
            case walk.Freed():
                assert holder is not None  # noqa: S101 - a step that frees the lock has read its holder
                return ClearAnswer(ok=True, sentence=sentences.cleared(holder, self._lock))
            case walk.Free():
                return ClearAnswer(ok=True, sentence=sentences.free(self._lock))
            case walk.NotSeen(why=why):
                return ClearAnswer(ok=False, sentence=sentences.not_cleared_unread(self._lock, why))
            case sentences.HeldBy() | sentences.ByHand():
                return ClearAnswer(ok=False, sentence=self._failed(end))
            case _:
                assert_never(end)

    def _failed(self, blocked: Blocked) -> str:
        age_s = None
        with contextlib.suppress(OSError):
            age_s = self._calls.age_s(self._lock)
        return sentences.failed(blocked, self._lock, age_s)

    # The commands

    def _do(self, command: take.Command) -> walk.Event:
        match command:
            case take.LinkLock():
                return self._link(LOCK_NAME)
            case walk.LinkMarker(passed=passed):
                return self._link(passed.marker_name)
            case walk.ReadLock():
                return self._see(LOCK_NAME)
            case walk.ReadMarker(passed=passed):
                return self._see(passed.marker_name)
            case walk.Judge(record=record):
                return self._judge(record)
            case walk.Settle(seconds=seconds) | take.Pause(seconds=seconds):
                self._calls.pause(seconds)
                return walk.Done()
            case walk.RemoveLock():
                return self._remove(LOCK_NAME)
            case walk.RemoveMarker(passed=passed):
                return self._remove(passed.marker_name)
            case _:
                assert_never(command)

    def _link(self, name: str) -> walk.Event:
        """Make `name` with this process's record in it, at once and only where there is none.

        The temp file is flushed first: after a power cut the name would else stand without its record, which
        only a person could clear.
        """
        temp = os.path.join(self._home, self._me.record.temp_name)
        try:
            # One that an earlier take could not remove may still be a link to that take's marker.
            with contextlib.suppress(FileNotFoundError):
                self._calls.unlink(temp)
            write_new(temp, f"{self._me.record}\n".encode(), self._calls.files)
        except OSError as error:
            self._remove_quietly(temp)
            return walk.CannotLink(sentences.cannot_write_temp(self._lock, temp, error_text(error)))
        try:
            return self._link_temp(temp, os.path.join(self._home, name))
        finally:
            self._remove_quietly(temp)

    def _link_temp(self, temp: str, target: str) -> walk.Event:
        try:
            self._calls.link(temp, target)
        except OSError as error:
            # A retransmitted NFSv3 LINK answers "exists" for the caller's own link: a fresh temp file with a
            # second name is the target.
            with contextlib.suppress(OSError):
                if self._calls.link_count(temp) > 1:
                    return walk.Linked()
            if isinstance(error, FileExistsError):
                return walk.Exists()
            return walk.CannotLink(sentences.cannot_link(self._home, error_text(error)))
        return walk.Linked()

    def _see(self, name: str) -> walk.Seen:
        """Opening the folder first makes an NFS client ask the server about what is in it."""
        path = os.path.join(self._home, name)
        try:
            self._calls.reads.revalidate(self._home)
        except FileNotFoundError:
            return walk.Missing()
        except OSError as error:
            return walk.NotRead(error_text(error))
        data = read_once(path, self._calls.reads)
        if data is None:
            # Every link step meets a link that leads nowhere, which the open takes for no file.
            return (
                walk.NoRecord("it is a symbolic link that leads nowhere")
                if _is_link(path)
                else walk.Missing()
            )
        if isinstance(data, ReadFailed):
            return walk.IsFolder() if _is_folder(path) else walk.NotRead(data.why)
        text = data.decode("utf-8", "replace")
        record = parse_record(text)
        return walk.NoRecord(_shown(first_line(text))) if record is None else walk.Named(record)

    def _judge(self, record: Record) -> walk.Judged:
        finding = judge(record, self._me, self._start_of)
        detail = self._me.no_proof if finding is Finding.NO_PROOF_HERE else None
        return walk.Judged(finding, detail or "")

    def _start_of(self, pid: int) -> str | Start:
        try:
            return self._calls.process_start(pid)
        except ProcessLookupError:
            return Start.GONE
        except OSError:
            return Start.UNREADABLE

    def _remove(self, name: str) -> walk.Done | walk.NotRemoved:
        try:
            self._calls.unlink(os.path.join(self._home, name))
        except FileNotFoundError:
            return walk.Done()
        except OSError as error:
            return walk.NotRemoved(error_text(error))
        return walk.Done()

    def _remove_quietly(self, temp: str) -> None:
        with contextlib.suppress(OSError):  # the next take of this process removes it first
            self._calls.unlink(temp)


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _is_link(path: str) -> bool:
    try:
        return stat.S_ISLNK(os.lstat(path).st_mode)
    except OSError:
        return False


def _shown(text: str) -> str:
    """Part of a file, fit for a sentence."""
    if not text.strip():
        return "it is empty"
    cut = text[:_SHOWN_CHARACTERS]
    return cut if cut.isprintable() else ascii(cut)


def once_nobody_reads(change: Callable[[], None]) -> None:
    """Windows neither removes nor replaces a file that somebody is reading just then. Reads are short; and
    nothing there would clear a lock that was left.
    """
    give_up_s = time.monotonic() + _READERS_WAIT_S
    while True:
        try:
            change()
        except PermissionError:
            if time.monotonic() >= give_up_s:
                raise
            time.sleep(_READERS_POLL_S)
        else:
            return
