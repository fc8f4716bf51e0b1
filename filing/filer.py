"""The filer: asks a comm folder's verdict on a message and makes it true, without blocking the loop.

The rule is `filing.verdict`, the append `filing.inbox`, the queues before it `filing.committer`. Who does
what:

- The loop takes requests in, keeps their deadlines and hands out answers. It touches no file.
- A reading job reads registry, lock record and mount table once for all requests that came before it started;
  it never serves one that came later.
- What may be appended goes to the committer; all answers of one batch come back to the loop in one call.
"""

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from filing import outcome
from filing.comm_folder import SYSTEM_FILES, CommFolder, FileCalls
from filing.committer import Answer, Answers, Committer, Filing, Stage
from filing.deadlines import Deadlines
from filing.fresh_read import SYSTEM_CALLS, ReadCalls
from filing.handles import is_handle
from filing.inbox import Inboxes
from filing.liveness import LIVE_SECS
from filing.lock_manager import NFS4_PREFIX, Role, TopologyState, names_own, role
from filing.lock_record import RecordStart, read_record, start_record
from filing.machine import THIS_MACHINE, Machine
from filing.outcome import Filed, Refused
from filing.registry import RegistryReader
from filing.verdict import Facts, FileRequest, Forward, Standing, ToInbox, Verdict, verdict
from filing.workers import Workers

__all__ = [
    "Answer",
    "FileRequest",
    "Filer",
    "FilerSettings",
    "FilerStatistics",
    "Forward",
    "Role",
    "Started",
    "TopologyState",
]

log = logging.getLogger("sot.filing")

_LEAST_PATIENCE_S: Final = 0.25

T = TypeVar("T")

_SHUTTING_DOWN: Final = outcome.busy("this daemon is shutting down")


@dataclass(frozen=True, slots=True)
class FilerSettings:
    home: str | None  # the comm folder; None: this daemon has none
    self_host: str
    topology: TopologyState

    # Time, in seconds from the request's arrival
    lock_wait_s: float
    file_wait_s: float  # when a line that is still being written is answered no_answer

    # Limits
    workers: int = 8
    max_lock_waiters: int = 256
    max_filings: int = 4096
    max_batch_bytes: int = 8 * 1024 * 1024

    live_secs: int = LIVE_SECS


@dataclass(frozen=True, slots=True)
class Started:
    """The daemon's role on its folder, what it did about the lock record (None: no folder), the line for the
    log.
    """

    role: Role
    record: RecordStart | None
    line: str


@dataclass(frozen=True, slots=True)
class FilerStatistics:
    """Counts since the start, but for the last three, which are of now."""

    filed: int
    forwarded: int
    refused: dict[str, int]  # by code
    gone: int  # the sender hung up first
    late: int  # the verdict came after no_answer had been said, or to nobody
    reads: int  # of registry, record and mount table
    batches: int  # appends that were flushed
    lines: int  # in them
    cut_backs: int  # of a dead writer's unterminated line
    cut_back_bytes: int
    failed_appends: int
    waiting: int  # filings whose verdict has not come
    inboxes: int  # with lines waiting or being written
    lock_waiters: int  # threads that wait for a held lock


class Filer:
    """Files into one comm folder. Its methods are for the loop that `start` ran on."""

    def __init__(
        self,
        settings: FilerSettings,
        *,
        clock: Callable[[], float] = time.time,
        machine: Machine = THIS_MACHINE,
        files: FileCalls = SYSTEM_FILES,
        reads: ReadCalls = SYSTEM_CALLS,
    ) -> None:
        """`clock` is the wall clock (epoch seconds) of liveness and stamps; the rest are seams for tests."""
        self._settings = settings
        self._clock = clock
        self._machine = machine
        self._files = files
        self._reads = reads
        self._folder = CommFolder(settings.home or "")
        self._registry = RegistryReader(self._folder.home, reads)
        self._standing = Standing(Role.HUB, settings.self_host, None, "", settings.live_secs)
        self._mutex = threading.Lock()
        self._workers = Workers(settings.workers, "sot-filing")
        self._committer = Committer(
            Inboxes(self._folder, files),
            self._workers,
            self._mutex,
            self._deliver,
            max_lock_waiters=settings.max_lock_waiters,
            max_batch_bytes=settings.max_batch_bytes,
        )
        # A wait of 0 still has its one try, and a try needs a read and a turn before it.
        patience_s = max(settings.lock_wait_s, min(_LEAST_PATIENCE_S, settings.file_wait_s))
        self._lock_deadlines = Deadlines(patience_s, done=_is_answered, over=self._lock_wait_over)
        self._answer_deadlines = Deadlines(  # for what the first one finds being written
            settings.file_wait_s - patience_s, done=_is_answered, over=self._answer_wait_over
        )
        self._loop: asyncio.AbstractEventLoop  # of `start`
        self._asked: list[Filing] = []
        self._reading = False
        self._counts: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._unended = 0
        self._all_ended = asyncio.Event()
        self._closed = False

    async def start(self) -> Started:
        """Decide the role, keep the lock record if this is the hub, log what happened. Called once, before
        `file`.

        A record that is another's, or cannot be written, does not fail the start: each filing says what is
        wrong.
        """
        self._loop = asyncio.get_running_loop()
        if self._settings.home is None:
            return Started(Role.HUB, None, "this daemon has no comm folder, so it files for nobody")
        self._workers.start()
        done: asyncio.Future[Started] = self._loop.create_future()
        self._workers.read(partial(self._take_up, done))
        started = await done
        log.log(started.record.level if started.record else logging.INFO, "%s", started.line)
        return started

    async def file(self, request: FileRequest, *, offered: bool = False) -> Answer:
        """This folder's verdict, when it is true: `Filed` once the line is flushed. `Forward` only to a
        guest.

        `offered`: the hub offered the request to this box's link. It is never answered `Forward`.

        The answer comes within `file_wait_s`. Cancelling: a line that no lock holder has claimed is withdrawn
        and never written; one that was claimed is filed, or refused, with nobody to tell.
        """
        if not is_handle(request.to):
            return outcome.bad_handle(request.to)
        if self._settings.home is None:
            return outcome.not_here(request.to)
        if self._closed:
            return _SHUTTING_DOWN
        if self._unended >= self._settings.max_filings:
            refused = outcome.busy(f"this daemon has {self._unended} filings in flight")
            self._count(refused)
            return refused
        filing = Filing(request, self._loop.create_future(), offered=offered)
        self._unended += 1
        self._lock_deadlines.add(filing)
        self._ask(filing)
        try:
            return await filing.answer
        except asyncio.CancelledError:
            self._counts["gone"] += 1
            with self._mutex:
                withdrawn = self._committer.withdraw(filing)
            if withdrawn:
                self._end()
            raise

    async def close(self) -> None:
        """Refuse what nobody has claimed, and wait for the rest, `file_wait_s` at most.

        A thread inside a lock wait or a flush that hangs is left behind; it holds up neither the loop's end
        nor the interpreter's. Calling it again is harmless.
        """
        if self._closed:
            return
        self._closed = True
        with self._mutex:
            waiting = self._committer.withdraw_queued()
            for filing in self._asked:
                if self._committer.withdraw(filing):
                    waiting.append(filing)
        self._settle([(filing, _SHUTTING_DOWN) for filing in waiting])
        self._committer.close()
        try:
            async with asyncio.timeout(self._settings.file_wait_s):
                while self._unended:
                    self._all_ended.clear()
                    await self._all_ended.wait()
        except TimeoutError:
            log.warning("closed with %d filings whose end is not known", self._unended)
        finally:
            self._workers.stop()
            self._lock_deadlines.close()
            self._answer_deadlines.close()

    def statistics(self) -> FilerStatistics:
        counts, committed = self._counts, self._committer.counts
        return FilerStatistics(
            filed=counts["filed"],
            forwarded=counts["forwarded"],
            refused=dict(self._refused),
            gone=counts["gone"],
            late=counts["late"],
            reads=counts["reads"],
            batches=committed["batches"],
            lines=committed["lines"],
            cut_backs=committed["cut_backs"],
            cut_back_bytes=committed["cut_back_bytes"],
            failed_appends=committed["failed_appends"],
            waiting=self._unended,
            inboxes=self._committer.active_inboxes,
            lock_waiters=self._committer.lock_waiters,
        )

    # On the loop

    def _ask(self, filing: Filing) -> None:
        with self._mutex:
            self._asked.append(filing)
            start = not self._reading
            self._reading = True
        if start:
            self._workers.read(self._judge)

    def _lock_wait_over(self, filing: Filing) -> None:
        with self._mutex:
            stage = filing.stage
            if not self._committer.withdraw(filing):
                self._answer_deadlines.add(filing)  # it is being written, or was: its answer is on the way
                return
        handle, wait_s = filing.request.to, self._settings.lock_wait_s
        if stage is Stage.ASKED:
            refused = outcome.registry_unreadable(handle, f"the read did not end within {wait_s:g}s")
        elif filing.saw_held:
            refused = outcome.lock_held(handle, wait_s)
        else:
            refused = outcome.busy(f"the inbox of @{handle} had no turn for this line within {wait_s:g}s")
        self._settle([(filing, refused)])

    def _answer_wait_over(self, filing: Filing) -> None:
        # Its thread goes on and may yet file it, so the filing has not ended; only its sender is told.
        settings = self._settings
        refused = outcome.no_answer([settings.self_host], settings.file_wait_s, filing.request.to)
        self._count(refused)
        filing.answer.set_result(refused)

    def _settle(self, answers: Answers) -> None:
        for filing, answer in answers:
            if filing.answer.done():
                self._counts["late"] += 1
            else:
                self._count(answer)
                filing.answer.set_result(answer)
            self._end()

    def _end(self) -> None:
        self._unended -= 1
        if not self._unended:
            self._all_ended.set()

    def _count(self, answer: Answer) -> None:
        if isinstance(answer, Refused):
            self._refused[answer.code] += 1
        else:
            self._counts["filed" if isinstance(answer, Filed) else "forwarded"] += 1

    # On the pool's threads

    def _take_up(self, started: asyncio.Future[Started]) -> None:
        try:
            result = self._take_up_role()
        except Exception as error:
            log.exception("the start failed")
            self._on_loop(partial(_resolve, started), error)
        else:
            self._on_loop(partial(_resolve, started), result)

    def _take_up_role(self) -> Started:
        settings, folder = self._settings, self._folder
        machine_id = self._machine.machine_id()
        own = self._machine.own_identity(folder.inboxes, machine_id)
        own_disk = self._machine.own_disk(folder.inboxes, own)
        its_role = role(settings.topology, settings.self_host, own_disk=own_disk)
        record = start_record(folder, its_role, own, machine_id, files=self._files, reads=self._reads)
        printable = folder.lock_record.encode("utf-8", "backslashreplace").decode("utf-8")
        self._standing = Standing(its_role, settings.self_host, machine_id, printable, settings.live_secs)
        return Started(its_role, record, f"{its_role.value} of the comm folder: {record.line}")

    def _judge(self) -> None:
        """Read once, then decide every filing that was asked for before this began."""
        with self._mutex:
            asked, self._asked = self._asked, []
        asked = [filing for filing in asked if filing.stage is Stage.ASKED]
        try:
            facts = self._facts(any(filing.offered for filing in asked))
            verdicts = [self._verdict(filing, facts) for filing in asked]
        except Exception:
            log.exception("judging %d filings failed in a way that is not foreseen", len(asked))
            facts = None
            verdicts = [outcome.append_failed("an internal error; nothing was filed")] * len(asked)
        polling = facts is not None and facts.own.startswith(NFS4_PREFIX)
        answers: Answers = []
        jobs = []
        with self._mutex:
            self._counts["reads"] += 1
            for filing, its_verdict in zip(asked, verdicts, strict=True):
                if filing.stage is not Stage.ASKED:
                    continue  # its time was over, or its sender gone, meanwhile
                if self._closed or not isinstance(its_verdict, ToInbox):
                    filing.stage = Stage.ENDED
                    answers.append(
                        (filing, _SHUTTING_DOWN if isinstance(its_verdict, ToInbox) else its_verdict)
                    )
                elif job := self._committer.queue(filing, its_verdict.line, polling=polling):
                    jobs.append(job)
            self._reading = bool(self._asked)
            more = self._reading
        if jobs:
            self._workers.append(jobs, from_worker=True)
        if more:
            self._workers.read(self._judge)
        self._deliver(answers)

    def _facts(self, some_offered: bool) -> Facts:
        record = read_record(self._folder, self._reads)
        own = self._machine.own_identity(self._folder.inboxes, self._standing.machine_id)
        # A guest's folder is the hub's: what it would forward anyway, it does not look up.
        look_up = self._standing.role is Role.HUB or some_offered or names_own(own, record)
        return Facts(self._registry.read() if look_up else None, record, own)

    def _verdict(self, filing: Filing, facts: Facts) -> Verdict:
        return verdict(
            filing.request,
            offered=filing.offered,
            standing=self._standing,
            facts=facts,
            now_epoch_s=self._clock(),
        )

    def _deliver(self, answers: Answers) -> None:
        if answers:
            self._on_loop(self._settle, answers)

    def _on_loop(self, callback: Callable[[T], object], argument: T) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, argument)
        except RuntimeError:
            log.debug("the loop has ended: nobody is left to tell")


def _resolve(started: asyncio.Future[Started], result: Started | Exception) -> None:
    if started.done():  # cancelled
        return
    if isinstance(result, Exception):
        started.set_exception(result)
    else:
        started.set_result(result)


def _is_answered(filing: Filing) -> bool:
    return filing.answer.done()
