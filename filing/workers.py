"""Threads of our own for blocking work: named, a known number, and no obstacle to the interpreter's exit."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

log = logging.getLogger("sot.filing")

READ_PATIENCE_S: Final = 0.002

Job: TypeAlias = Callable[[], None]


class Workers:
    """A fixed pool with two queues. One thread is always left for those that read.

    So a disk that hangs under every append leaves somebody to say that a handle is not here. While appends
    wait for a thread, a reading job waits a little too: it serves all that asked before it started, and what
    it would bring could not be appended yet.

    A job sees to its own errors: one that raises is logged with its stack, and its thread goes on.
    """

    def __init__(self, count: int, name: str) -> None:
        """`count` is 2 at least."""
        if count < 2:
            raise ValueError("two workers at least: one is kept for reading")
        self._condition = threading.Condition()
        self._reads: deque[tuple[float, Job]] = deque()  # with the moment each may wait until
        self._appends: deque[Job] = deque()
        self._appending = 0
        self._count = count
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._run, name=f"{name}-{number}", daemon=True)
            for number in range(1, count + 1)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def read(self, job: Job) -> None:
        with self._condition:
            self._reads.append((time.monotonic() + READ_PATIENCE_S, job))
            self._condition.notify()

    def append(self, jobs: Iterable[Job], *, from_worker: bool = False) -> None:
        """`from_worker`: the caller is one of these threads, about to come back for the first job itself."""
        with self._condition:
            before = len(self._appends)
            self._appends.extend(jobs)
            self._condition.notify(len(self._appends) - before - from_worker)

    def stop(self) -> None:
        """No job starts any more. A thread that is inside one ends after it; nobody waits for that."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()

    def _run(self) -> None:
        while (taken := self._take()) is not None:
            job, appends = taken
            try:
                job()
            except Exception:
                log.exception("a job of the filing threads failed")
            if appends:
                with self._condition:
                    self._appending -= 1

    def _take(self) -> tuple[Job, bool] | None:
        with self._condition:
            while True:
                if self._stopping:
                    return None
                patience_s = self._reads[0][0] - time.monotonic() if self._reads and self._appends else 0.0
                if self._reads and patience_s <= 0:
                    return self._reads.popleft()[1], False
                if self._appends and self._appending < self._count - 1:
                    self._appending += 1
                    return self._appends.popleft(), True
                self._condition.wait(patience_s or None)
