"""Processes that write one registry as fast as they can, while one after another is killed inside the lock.

`python -m tests.filing.registry_hammer <home> <workers> <kills> <seconds>` prints one JSON object of what it
counted, and ends in an AssertionError at the first promise broken. It forks its workers itself, so that a
kill costs no start of an interpreter, and it runs no thread.

Each worker counts in its own row, and writes a number to its own pipe only when that number was acknowledged.
The settle and the polls of the lock are made short: nothing here lands late, since a kill is waited for.
"""

import contextlib
import json
import os
import random
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any, Never

from filing.comm_home import HomeReady, ensure_home
from filing.registry import Listing, read_registry
from filing.registry_lock import clear
from filing.registry_lock.record import LOCK_NAME, Record, parse_record
from filing.registry_lock.walk import SETTLE_S
from filing.registry_write import Document, NotWritten, WriteCalls, Written, update_registry

assert sys.platform != "win32"  # tells the type checker which systems the rest is for

BOUND_S = 60.0
HOST = "boxa"


class Hasty(WriteCalls):
    def pause(self, seconds: float) -> None:
        time.sleep(0.02 if seconds == SETTLE_S else 0.002)


CALLS = Hasty()


def count(home: str, slot: int, acknowledged: int) -> Never:
    """A worker's life: one more, written, acknowledged, and again."""
    while True:
        value = 0

        def one_more(document: Document) -> Document:
            nonlocal value
            row = document["agents"].setdefault(str(slot), {"host": HOST, "n": 0})
            row["n"] += 1
            value = row["n"]
            return document

        answer = update_registry(home, one_more, BOUND_S, host=HOST, calls=CALLS)
        if not isinstance(answer, Written):
            os.write(2, f"{answer}\n".encode())
            os._exit(1)
        os.write(acknowledged, f"{value}\n".encode())


class Worker:
    def __init__(self, home: str, slot: int) -> None:
        reading, writing = os.pipe()
        self.slot = slot
        self.acknowledged = 0
        self._pipe = reading
        self._tail = b""
        self._open = True
        self.pid = os.fork()
        if self.pid == 0:
            os.close(reading)
            try:
                count(home, slot, writing)
            finally:
                os._exit(2)
        os.close(writing)
        os.set_blocking(reading, False)

    def drain(self) -> int:
        """The last number that was acknowledged."""
        while self._open and (data := self._read()):
            *whole, self._tail = (self._tail + data).split(b"\n")
            if whole:
                self.acknowledged = int(whole[-1])
        return self.acknowledged

    def _read(self) -> bytes:
        try:
            return os.read(self._pipe, 65536)
        except BlockingIOError:
            return b""

    def wait_for_more(self) -> None:
        deadline_s = time.monotonic() + BOUND_S
        before = self.drain()
        while self.drain() == before:
            left_s = deadline_s - time.monotonic()
            assert left_s > 0, f"worker {self.slot} makes no progress"
            select.select([self._pipe], [], [], left_s)

    def kill(self) -> None:
        """Kill it and wait until it is gone, its place in the pid table too."""
        os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, f"worker {self.slot} had ended: {status}"
        self.drain()
        self._open = False
        os.close(self._pipe)


class Hammer:
    def __init__(self, home: str, workers: int) -> None:
        self.home = home
        self.lock = Path(home) / LOCK_NAME
        self.acknowledged = dict.fromkeys(range(workers), 0)
        assert ensure_home(home) == HomeReady()
        self.workers = [Worker(home, slot) for slot in range(workers)]
        self.result = {"holders_killed": 0, "reclaimers_killed": 0, "holders_frozen": 0, "reads": 0}

    def run(self, kills: int, seconds: float) -> dict[str, int]:
        until_s = time.monotonic() + seconds
        while self.result["holders_killed"] < kills and time.monotonic() < until_s:
            worker, record = self.stop_a_holder()
            if self.result["holders_frozen"] * 10 <= self.result["holders_killed"]:
                self.try_to_force(worker, record)
                continue
            self.replace(worker)
            self.result["holders_killed"] += 1
            if self.result["holders_killed"] % 2:
                self.kill_its_reclaimer(record)
            # Whoever it is that goes on: the dead holder's lock was cleared.
            random.choice(self.workers).wait_for_more()
            self.check()
        for worker in self.workers:
            worker.wait_for_more()
        for worker in self.workers:
            self.end(worker)
        self.check()
        last = update_registry(self.home, lambda document: document, BOUND_S, host=HOST, calls=CALLS)
        assert last == Written()
        left = {entry.name for entry in Path(self.home).iterdir()}
        assert {LOCK_NAME, "registry.json.tmp"}.isdisjoint(left), left
        return {**self.result, "acknowledged": sum(self.acknowledged.values())}

    def stop_a_holder(self) -> tuple[Worker, Record]:
        """SIGSTOP whoever holds the lock, so that what follows happens inside it."""
        deadline_s = time.monotonic() + BOUND_S
        while time.monotonic() < deadline_s:
            record = self.holder()
            if record is None:
                continue
            worker = self.stopped(record)
            if worker is None:
                continue
            if self.holder() == record:
                return worker, record
            os.kill(worker.pid, signal.SIGCONT)
        raise AssertionError(f"nobody was caught inside the lock: {self.holder()}")

    def kill_its_reclaimer(self, dead: Record) -> None:
        """Kill whoever is at the reclaim of the dead holder's lock, before it is done."""
        while self.holder() == dead:
            creator = read_record(Path(self.home) / dead.marker_name)
            worker = self.stopped(creator) if creator else None
            if worker is None:
                continue
            if self.holder() == dead:
                self.replace(worker)
                self.result["reclaimers_killed"] += 1
                return
            os.kill(worker.pid, signal.SIGCONT)

    def try_to_force(self, worker: Worker, record: Record) -> None:
        """It is frozen, not dead: nobody forces it, and nobody writes past it."""
        before = sum(w.drain() for w in self.workers)
        for _ in range(20):
            answer = update_registry(self.home, lambda document: document, 0, host=HOST, calls=CALLS)
            assert isinstance(answer, NotWritten), answer
            assert f"is held by {HOST} pid {worker.pid}" in answer.sentence, answer
            cleared = clear(self.home, host=HOST, calls=CALLS)
            assert not cleared.ok, cleared
            assert self.holder() == record
        # The last holder's acknowledgement may have been on its way.
        assert sum(w.drain() for w in self.workers) <= before + 1
        os.kill(worker.pid, signal.SIGCONT)
        worker.wait_for_more()
        self.result["holders_frozen"] += 1

    def stopped(self, record: Record) -> Worker | None:
        """The worker of that record, stopped; None where it is another's."""
        for worker in self.workers:
            if str(worker.pid) == record.pid:
                os.kill(worker.pid, signal.SIGSTOP)
                _, status = os.waitpid(worker.pid, os.WUNTRACED)
                assert os.WIFSTOPPED(status), f"worker {worker.slot} had ended: {status}"
                return worker
        return None

    def holder(self) -> Record | None:
        return read_record(self.lock)

    def end(self, worker: Worker) -> None:
        worker.kill()
        self.acknowledged[worker.slot] = max(worker.acknowledged, self.acknowledged[worker.slot])

    def replace(self, worker: Worker) -> None:
        self.end(worker)
        self.workers[worker.slot] = Worker(self.home, worker.slot)

    def check(self) -> None:
        """The registry parses, and holds what was acknowledged before the read."""
        for worker in self.workers:
            self.acknowledged[worker.slot] = max(worker.drain(), self.acknowledged[worker.slot])
        listing = read_registry(self.home)
        assert isinstance(listing, Listing), listing
        for slot, number in self.acknowledged.items():
            row: Any = listing.agents.get(str(slot), {"n": 0})
            assert row["n"] >= number, f"worker {slot} was told {number}, and the registry says {row}"
        self.result["reads"] += 1


def read_record(path: Path) -> Record | None:
    try:
        return parse_record(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def main(home: str, workers: str, kills: str, seconds: str) -> None:
    hammer = Hammer(home, int(workers))
    try:
        print(json.dumps(hammer.run(int(kills), float(seconds))))
    finally:
        for worker in hammer.workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
