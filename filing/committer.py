"""Group commit: what waits for one inbox goes in together, under one lock and one flush.

Each inbox with lines waiting is served by one thread at a time, in one of three ways: a job of the pool that
takes a free lock and writes; a thread of its own that waits for a lock another writer holds; or nobody yet,
while its job waits for a turn. One lock hold writes one batch and then lets go, so that writers outside this
process get a turn.
"""

import asyncio
import enum
import logging
import random
import threading
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from filing import outcome, platform
from filing.comm_folder import file_error_text
from filing.inbox import Appended, AppendFailed, Inboxes
from filing.outcome import FILED, Filed, Refused
from filing.script_lock import NFS4_RETRY_S, let_go
from filing.verdict import FileRequest, Forward
from filing.workers import Workers

log = logging.getLogger("sot.filing")

MAX_SMALLER_TRIES: Final = 32  # of one batch on a full disk

Answer: TypeAlias = Filed | Refused | Forward


class Stage(enum.Enum):
    ASKED = "asked"  # its facts are not read yet
    QUEUED = "queued"  # its line waits for the inbox's lock
    CLAIMED = "claimed"  # the lock's holder is writing it: no timer and no cancellation withdraws it now
    ENDED = "ended"


class Filing:
    """One request on its way. `stage` changes under the mutex only, so that a claim and a withdrawal exclude
    each other: a withdrawn line is never written, and a claimed one never answered as if it had not been.
    """

    __slots__ = ("answer", "line", "offered", "request", "saw_held", "stage")

    def __init__(self, request: FileRequest, answer: asyncio.Future[Answer], *, offered: bool) -> None:
        self.request = request
        self.offered = offered
        self.answer = answer
        self.stage = Stage.ASKED
        self.line = b""
        self.saw_held = False  # the lock was found held by another writer while this line waited for it


Answers: TypeAlias = list[tuple[Filing, Answer]]


class _Inbox:
    """The lines that wait for one inbox; read and changed under the mutex only."""

    __slots__ = ("handle", "held", "polling", "queue")

    def __init__(self, handle: str) -> None:
        self.handle = handle
        self.queue: deque[Filing] = deque()
        self.held = False  # a thread waits for the lock, which another writer holds
        self.polling = False  # how it waits: an NFSv4 lock is tried again and again

    def claim(self, max_bytes: int) -> list[Filing]:
        """The next batch, in order of arrival: `max_bytes` at most, but one line whatever its size."""
        batch: list[Filing] = []
        size = 0
        while self.queue and (not batch or size + len(self.queue[0].line) <= max_bytes):
            filing = self.queue.popleft()
            filing.stage = Stage.CLAIMED
            size += len(filing.line)
            batch.append(filing)
        return batch


class Committer:
    """Writes queued lines and hands their outcomes to `deliver`, from whichever thread wrote them.

    `mutex` guards the stage of every filing and the queues here; it is taken after an inbox's kernel lock,
    never before, and nothing blocks under it.
    """

    def __init__(
        self,
        inboxes: Inboxes,
        workers: Workers,
        mutex: threading.Lock,
        deliver: Callable[[Answers], None],
        *,
        max_lock_waiters: int,
        max_batch_bytes: int,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.lock_waiters = 0
        self._inboxes = inboxes
        self._workers = workers
        self._mutex = mutex
        self._deliver = deliver
        self._max_lock_waiters = max_lock_waiters
        self._max_batch_bytes = max_batch_bytes
        self._active: dict[str, _Inbox] = {}
        self._closing = threading.Event()

    @property
    def active_inboxes(self) -> int:
        return len(self._active)

    # Under the mutex

    def queue(self, filing: Filing, line: bytes, *, polling: bool) -> Callable[[], None] | None:
        """Take a judged filing in, under the mutex; the job, if any, is for the pool once that is free."""
        filing.line = line
        filing.stage = Stage.QUEUED
        handle = filing.request.to
        inbox = self._active.get(handle)
        job = None
        if inbox is None:
            inbox = self._active[handle] = _Inbox(handle)
            job = partial(self._serve, inbox)
        inbox.polling = polling
        inbox.queue.append(filing)
        filing.saw_held = inbox.held
        return job

    def withdraw(self, filing: Filing) -> bool:
        """End a filing that nobody has claimed; False when it is too late. The caller holds the mutex."""
        if filing.stage is Stage.QUEUED:
            self._active[filing.request.to].queue.remove(filing)
        elif filing.stage is not Stage.ASKED:
            return False
        filing.stage = Stage.ENDED
        return True

    def withdraw_queued(self) -> list[Filing]:
        """All that waits for a lock, withdrawn. The caller holds the mutex."""
        waiting = [filing for inbox in self._active.values() for filing in inbox.queue]
        for filing in waiting:
            self.withdraw(filing)
        return waiting

    def close(self) -> None:
        """Those that try an NFSv4 lock again and again stop. A thread inside the kernel's wait stays there,
        and gives its lock straight back if it ever comes.
        """
        self._closing.set()

    # On the pool's threads

    def _serve(self, inbox: _Inbox) -> None:
        """Try the inbox's lock; write at once if it is free, else leave a thread to wait for it."""
        try:
            fd = self._inboxes.open_lock(inbox.handle)
        except OSError as error:
            self._refuse_all(inbox, _lock_failed(inbox.handle, error))
            return
        try:
            free = platform.try_lock(fd)
        except OSError as error:
            let_go(fd)
            self._refuse_all(inbox, _lock_failed(inbox.handle, error))
            return
        if free:
            self._write_batch(inbox, fd, from_worker=True)
        else:
            self._leave_waiting(inbox, fd)

    def _leave_waiting(self, inbox: _Inbox, fd: int) -> None:
        with self._mutex:
            nobody = self._retire_if_empty(inbox)
            within = not nobody and self.lock_waiters < self._max_lock_waiters
            if within:
                self.lock_waiters += 1
                inbox.held = True
                for filing in inbox.queue:
                    filing.saw_held = True
        if nobody:
            let_go(fd)
            return
        if not within:
            let_go(fd)
            why = f"{self._max_lock_waiters} held inbox locks are being waited for"
            self._refuse_all(inbox, outcome.busy(why))
            return
        thread = threading.Thread(
            target=self._wait_and_write, args=(inbox, fd), name=f"sot-filing-lock-{inbox.handle}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # the system gives no more threads
            self._waited(inbox)
            let_go(fd)
            self._refuse_all(inbox, outcome.busy("this box has no thread left to wait for a held inbox lock"))

    def _waited(self, inbox: _Inbox) -> None:
        with self._mutex:
            self.lock_waiters -= 1
            inbox.held = False

    def _retire_if_empty(self, inbox: _Inbox) -> bool:
        """Nobody waits for this inbox: the next line starts it afresh. The caller holds the mutex."""
        if inbox.queue:
            return False
        del self._active[inbox.handle]
        return True

    # On the inbox's own thread

    def _wait_and_write(self, inbox: _Inbox, fd: int) -> None:
        try:
            if not inbox.polling:
                platform.wait_lock(fd)
            elif not self._poll_lock(inbox, fd):
                let_go(fd)
                return
        except OSError as error:
            self._waited(inbox)
            let_go(fd)
            self._refuse_all(inbox, _lock_failed(inbox.handle, error))
            return
        self._waited(inbox)
        self._write_batch(inbox, fd, from_worker=False)

    def _poll_lock(self, inbox: _Inbox, fd: int) -> bool:
        """True: the lock is taken. False: nobody waits for it any more, and the inbox is retired."""
        # The NFSv4 client's own blocking wait sleeps past a free lock (PROTOCOL Delivery).
        while not platform.try_lock(fd):
            self._closing.wait(random.uniform(*NFS4_RETRY_S))  # noqa: S311 - jitter, not a secret
            with self._mutex:
                if self._retire_if_empty(inbox):
                    self.lock_waiters -= 1
                    return False
        return True

    # With the inbox's lock

    def _write_batch(self, inbox: _Inbox, fd: int, *, from_worker: bool) -> None:
        """One lock hold: claim, append, flush, let go; then the answers."""
        answers: Answers = []
        counts: Counter[str] = Counter()
        try:
            if self._inboxes.lock_is_current(fd):
                with self._mutex:
                    batch = inbox.claim(self._max_batch_bytes)
                answers = self._append(inbox.handle, batch, counts)
        except OSError as error:  # from asking after the lock file
            self._refuse_all(inbox, _lock_failed(inbox.handle, error))
            return
        finally:
            let_go(fd)
        with self._mutex:
            self.counts += counts
            for filing, _ in answers:
                filing.stage = Stage.ENDED
            idle = self._retire_if_empty(inbox)
        if not idle:
            self._workers.append([partial(self._serve, inbox)], from_worker=from_worker)
        self._deliver(answers)

    def _append(self, handle: str, batch: list[Filing], counts: Counter[str]) -> Answers:
        """The batch in one append. On a full disk in smaller ones, so that a line too big for it refuses no
        other.
        """
        answers: Answers = []
        parts = [batch] if batch else []
        smaller_tries = 0
        while parts:
            part = parts.pop()
            result = self._append_part(handle, part)
            if isinstance(result, Appended):
                counts["batches"] += 1
                counts["lines"] += len(part)
                counts["cut_backs"] += result.cut_bytes > 0
                counts["cut_back_bytes"] += result.cut_bytes
                answers += [(filing, FILED) for filing in part]
            elif result.no_room and result.clean and len(part) > 1 and smaller_tries < MAX_SMALLER_TRIES:
                smaller_tries += 1
                half = len(part) // 2
                parts += [part[half:], part[:half]]
            else:
                counts["failed_appends"] += 1
                answers += [(filing, outcome.append_failed(result.why)) for filing in part]
        return answers

    def _append_part(self, handle: str, part: list[Filing]) -> Appended | AppendFailed:
        try:
            return self._inboxes.append(handle, [filing.line for filing in part])
        except Exception:
            log.exception("inbox/%s.jsonl: the append failed in a way that is not foreseen", handle)
            return AppendFailed("an internal error; the line may be in the inbox", clean=False)

    def _refuse_all(self, inbox: _Inbox, refused: Refused) -> None:
        with self._mutex:
            answers: Answers = [(filing, refused) for filing in inbox.queue]
            for filing in inbox.queue:
                filing.stage = Stage.ENDED
            inbox.queue.clear()
            del self._active[inbox.handle]
        self._deliver(answers)


def _lock_failed(handle: str, error: OSError) -> Refused:
    return outcome.append_failed(file_error_text(f"inbox/{handle}.lock", error))
