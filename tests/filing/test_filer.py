"""The filer end to end on a real folder: verdicts, group commit, what is read for whom, faults, closing."""

import asyncio
import errno
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from filing.comm_folder import FileCalls
from filing.filer import Filer, Forward, Role, TopologyState
from filing.fresh_read import ReadCalls
from filing.lock_record import RecordFate
from filing.outcome import FILED, Refused
from tests.filing.support import FakeMachine, Home, on_posix, request

LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop]
if sys.platform != "win32":
    import uvloop

    LOOPS.append(uvloop.new_event_loop)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@asynccontextmanager
async def running(filer: Filer) -> AsyncIterator[Filer]:
    await filer.start()
    try:
        yield filer
    finally:
        await filer.close()


class Gate(FileCalls):
    """Flushes of files wait while the gate is shut; `reached` tells that one waits."""

    def __init__(self) -> None:
        self.open_gate = threading.Event()
        self.reached = threading.Event()
        self.flushes = 0

    def flush(self, fd: int) -> None:
        self.reached.set()
        assert self.open_gate.wait(30)
        self.flushes += 1
        super().flush(fd)

    async def wait_reached(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.reached.wait, 30)


async def until(condition: Callable[[], bool]) -> None:
    """Until the filer's threads have brought it about; the test's own timeout is the bound."""
    while not condition():
        await asyncio.sleep(0.001)


# Verdicts


@pytest.mark.parametrize("new_loop", LOOPS)
def test_filed_means_that_the_line_is_there(home: Home, new_loop: Callable[[], Any]) -> None:
    async def file() -> None:
        home.enlist("h")
        async with running(home.filer()) as filer:
            assert await filer.file(request("h", "one")) == FILED
            assert home.texts("h") == ["one"]
            assert await filer.file(request("h", "two", broadcast=True)) == FILED
            assert home.texts("h") == ["one", "two"]

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(file())


async def test_a_bad_handle_is_told_without_a_look_at_the_folder(home: Home) -> None:
    async with running(home.filer()) as filer:
        assert await filer.file(request("a b")) == Refused("bad_handle", 'not a handle: "a b"')
        assert filer.statistics().reads == 0


async def test_without_a_comm_folder_nobody_is_here(home: Home) -> None:
    async with running(home.filer(home=None)) as filer:
        assert await filer.file(request("h")) == Refused("not_here", "no box knows that handle: h")
        assert await filer.file(request("a b")) == Refused("bad_handle", 'not a handle: "a b"')


async def test_a_home_that_does_not_exist_yet_lists_nobody_and_works_later(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.path.rmdir()
    async with running(home.filer()) as filer:
        assert isinstance(refused := await filer.file(request("h")), Refused)
        assert refused.code == "not_here"
        home.enlist("h")
        assert await filer.file(request("h")) == FILED


async def test_a_guest_hands_on_and_a_hub_does_not(home: Home) -> None:
    home.enlist("h")
    away = FakeMachine("nfs4 nas:/x")
    hub_elsewhere = TopologyState.hub_named("other")
    async with running(home.filer(machine=away, topology=hub_elsewhere)) as guest:
        assert await guest.file(request("nobody")) == Forward()
        assert isinstance(offered := await guest.file(request("nobody"), offered=True), Refused)
        assert offered.code == "not_here"
        assert isinstance(forwarded := await guest.file(request("h", forwarded=True)), Refused)
        assert forwarded.code == "file_failed"
        assert not (home.path / "inbox-lock-manager").exists()
        assert not (home.path / "inbox").exists()


async def test_a_guest_under_the_hubs_own_lock_manager_appends(home: Home) -> None:
    home.enlist("h")
    away = FakeMachine("nfs4 nas:/x")
    hub = home.filer(machine=away, topology=TopologyState.hub_named("box"))
    guest = home.filer(machine=FakeMachine("nfs4 nas:/x", "m2"), topology=TopologyState.hub_named("other"))
    assert (await hub.start()).role is Role.HUB
    assert (await guest.start()).role is Role.GUEST
    assert await guest.file(request("h", "by the guest")) == FILED
    assert await hub.file(request("h", "by the hub")) == FILED
    assert home.texts("h") == ["by the guest", "by the hub"]
    await guest.close()
    await hub.close()


async def test_the_start_reports_the_record(home: Home) -> None:
    filer = home.filer()
    started = await filer.start()
    assert started.role is Role.HUB
    assert started.record is not None
    assert started.record.fate is RecordFate.CREATED
    assert "'local m1'" in started.line
    await filer.close()


async def test_a_record_that_changes_while_the_daemon_runs_is_seen_at_the_next_filing(home: Home) -> None:
    home.enlist("h")
    async with running(home.filer()) as filer:
        assert await filer.file(request("h")) == FILED
        (home.path / "inbox-lock-manager").write_text("local x\nx\n")
        assert isinstance(foreign := await filer.file(request("h")), Refused)
        assert "machine x" in foreign.sentence
        (home.path / "inbox-lock-manager").unlink()
        assert isinstance(missing := await filer.file(request("h")), Refused)
        assert "restart the hub" in missing.sentence


async def test_a_registry_that_cannot_be_read_is_no_absent_handle(home: Home) -> None:
    (home.path / "registry.json").write_text("{")
    async with running(home.filer()) as filer:
        assert isinstance(refused := await filer.file(request("h")), Refused)
        assert refused.code == "file_failed"
        assert refused.sentence.startswith("the registry could not be read, so @h is unverified")


@on_posix
async def test_an_inbox_that_is_a_link_is_refused_and_not_followed(home: Home, tmp_path: Path) -> None:
    home.enlist("h", "g")
    async with running(home.filer()) as filer:
        other = tmp_path / "other"
        other.write_bytes(b"")
        home.inbox("h").symlink_to(other)
        refused = await filer.file(request("h"))
        assert refused == Refused("file_failed", "the append failed: inbox/h.jsonl is a symbolic link")
        home.lock("g").symlink_to(other)
        refused = await filer.file(request("g"))
        assert refused == Refused("file_failed", "the append failed: inbox/g.lock is a symbolic link")
        assert other.read_bytes() == b""


# What is read for whom


class GatedReads(ReadCalls):
    """The registry's opens wait while the gate is shut."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.reached = threading.Event()

    def open(self, path: str) -> int:
        fd = super().open(path)
        if path.endswith("registry.json"):
            self.reached.set()
            assert self.gate.wait(30)
        return fd


async def test_a_read_that_began_before_a_request_does_not_serve_it(home: Home) -> None:
    home.enlist("other")
    reads = GatedReads()
    async with running(home.filer(reads=reads)) as filer:
        reads.gate.clear()
        early = asyncio.create_task(filer.file(request("h")))
        await until(reads.reached.is_set)
        (home.path / "new").write_text((home.path / "registry.json").read_text().replace("other", "h"))
        (home.path / "new").replace(home.path / "registry.json")
        late = asyncio.create_task(filer.file(request("h")))
        await asyncio.sleep(0)
        reads.gate.set()
        assert isinstance(refused := await early, Refused)
        assert refused.code == "not_here", "the old file was open already"
        assert await late == FILED


async def test_requests_that_come_together_share_one_read(home: Home) -> None:
    home.enlist("h")
    async with running(home.filer()) as filer:
        await asyncio.gather(*(filer.file(request("h")) for _ in range(64)))
        assert filer.statistics().reads < 32


# Group commit


@pytest.mark.parametrize("new_loop", LOOPS)
def test_64_senders_to_one_handle_share_flushes(home: Home, new_loop: Callable[[], Any]) -> None:
    async def file() -> None:
        home.enlist("h")
        gate = Gate()
        gate.open_gate.set()
        async with running(home.filer(files=gate)) as filer:

            async def send(sender: int) -> None:
                for number in range(5):
                    assert await filer.file(request("h", f"{sender}.{number}")) == FILED

            before = gate.flushes
            await asyncio.gather(*(send(sender) for sender in range(64)))
            texts = home.texts("h")
            assert sorted(texts) == sorted(f"{s}.{n}" for s in range(64) for n in range(5))
            for sender in range(64):
                own = [text for text in texts if text.startswith(f"{sender}.")]
                assert own == [f"{sender}.{number}" for number in range(5)], "in the order they were sent"
            assert gate.flushes - before < 64
            assert filer.statistics().lines == 320

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(file())


async def test_nobody_is_answered_before_the_flush_that_covers_their_line(home: Home) -> None:
    home.enlist("h")
    gate = Gate()
    gate.open_gate.set()
    async with running(home.filer(files=gate)) as filer:
        gate.open_gate.clear()
        gate.reached.clear()
        first = asyncio.create_task(filer.file(request("h", "first")))
        await gate.wait_reached()
        later = [asyncio.create_task(filer.file(request("h", f"later {n}"))) for n in range(3)]
        await until(lambda: filer.statistics().waiting == 4)
        await asyncio.sleep(0.02)
        assert not first.done()
        assert home.texts("h") == ["first"], "written, and not answered yet"
        gate.open_gate.set()
        assert await first == FILED
        assert set(await asyncio.gather(*later)) == {FILED}
        assert filer.statistics().batches == 2


async def test_a_batch_is_bounded_in_bytes_but_takes_any_single_line(home: Home) -> None:
    home.enlist("h")
    async with running(home.filer(max_batch_bytes=1000)) as filer:
        sent = [filer.file(request("h", letter * 600)) for letter in "abcdef"]
        assert set(await asyncio.gather(*sent, filer.file(request("h", "g" * 5000)))) == {FILED}
        assert filer.statistics().batches == 7


class FullDisk(FileCalls):
    """A write past `room` bytes takes what fits, and the next says that the disk is full."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, fd: int, data: memoryview) -> int:
        room = self.room - os.fstat(fd).st_size
        if room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(fd, data[:room])


async def together(filer: Filer, home: Home, *sent: Any) -> list[Any]:
    """File these in one batch: they gather while the lock is held here."""
    from filing import platform
    from filing.comm_folder import open_private

    fd, _ = open_private(str(home.lock("h")))
    assert platform.try_lock(fd)
    tasks = [asyncio.create_task(filer.file(each)) for each in sent]
    queued = lambda: filer.statistics().lock_waiters == 1 and filer.statistics().waiting == len(sent)
    await until(queued)
    await asyncio.sleep(0.02)  # and past the reading
    os.close(fd)
    return await asyncio.gather(*tasks)


async def test_a_line_too_big_for_the_disk_refuses_no_other(home: Home) -> None:
    home.enlist("h")
    async with running(home.filer(files=FullDisk(2000))) as filer:
        sent = [request("h", "a"), request("h", "b" * 5000), request("h", "c")]
        first, big, last = await together(filer, home, *sent)
        assert (first, last) == (FILED, FILED)
        assert isinstance(big, Refused)
        assert big.sentence == "the append failed: No space left on device (ENOSPC)"
        assert home.texts("h") == ["a", "c"]


async def test_an_append_that_fails_refuses_its_whole_batch(home: Home) -> None:
    class NoFlush(FileCalls):
        failing = False

        def flush(self, fd: int) -> None:
            if self.failing:
                self.failing = False
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            super().flush(fd)

    home.enlist("h")
    files = NoFlush()
    async with running(home.filer(files=files)) as filer:
        assert await filer.file(request("h", "before")) == FILED
        files.failing = True
        refused = await together(filer, home, request("h", "a"), request("h", "b"))
        assert {r.sentence for r in refused} == {f"the append failed: {os.strerror(errno.EIO)} (EIO)"}
        assert home.texts("h") == ["before"]
        assert await filer.file(request("h", "after")) == FILED
        assert home.texts("h") == ["before", "after"]
        assert filer.statistics().failed_appends == 1


async def test_an_error_nobody_foresaw_is_logged_and_answered(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(FileCalls):
        def write(self, fd: int, data: memoryview) -> int:
            raise KeyError("unforeseen")

    home.enlist("h")
    filer = home.filer()
    async with running(filer):
        filer._committer._inboxes._calls = Broken()
        refused = await filer.file(request("h"))
        assert refused == Refused("file_failed", "the append failed: an internal error")
        assert home.texts("h") == []
    assert "unforeseen" in caplog.text


# Bounds and ends


async def test_a_flush_that_hangs_is_no_answer_and_may_still_be_filed(home: Home) -> None:
    home.enlist("h", "g")
    gate = Gate()
    gate.open_gate.set()
    async with running(home.filer(files=gate, lock_wait_s=0.1, file_wait_s=0.2)) as filer:
        gate.open_gate.clear()
        answers = await asyncio.gather(filer.file(request("h", "hangs")), filer.file(request("nobody")))
        assert answers[0] == Refused(
            "no_answer", "the daemon on box did not answer within 0.2s; @h may still be filed"
        )
        assert isinstance(answers[1], Refused)
        assert answers[1].code == "not_here"
        waited = await filer.file(request("h", "behind it"))
        assert isinstance(waited, Refused)
        assert waited.code == "busy", "nobody else held the lock"
        gate.open_gate.set()
        await until(lambda: filer.statistics().waiting == 0)
        assert home.texts("h") == ["hangs"]
        assert filer.statistics().late == 1


async def test_a_read_that_hangs_is_refused_and_never_filed_later(home: Home) -> None:
    home.enlist("h")
    reads = GatedReads()
    async with running(home.filer(reads=reads, lock_wait_s=0.1, file_wait_s=0.2)) as filer:
        reads.gate.clear()
        assert isinstance(refused := await filer.file(request("h", "x")), Refused)
        assert refused.code == "file_failed"
        assert "the read did not end within 0.1s" in refused.sentence
        reads.gate.set()
        await until(lambda: filer.statistics().waiting == 0)
        assert home.texts("h") == []


async def test_too_many_filings_are_busy(home: Home) -> None:
    home.enlist("h")
    reads = GatedReads()
    async with running(home.filer(reads=reads, max_filings=2)) as filer:
        reads.gate.clear()
        waiting = [asyncio.create_task(filer.file(request("h"))) for _ in range(2)]
        await asyncio.sleep(0)
        assert isinstance(refused := await filer.file(request("h")), Refused)
        assert refused.code == "busy"
        reads.gate.set()
        assert set(await asyncio.gather(*waiting)) == {FILED}


async def test_a_sender_that_hangs_up_before_the_claim_is_withdrawn(home: Home) -> None:
    home.enlist("h")
    reads = GatedReads()
    async with running(home.filer(reads=reads)) as filer:
        reads.gate.clear()
        task = asyncio.create_task(filer.file(request("h", "gone")))
        await until(reads.reached.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        reads.gate.set()
        assert await filer.file(request("h", "stays")) == FILED
        assert home.texts("h") == ["stays"]
        assert filer.statistics().gone == 1


async def test_a_sender_that_hangs_up_after_the_claim_is_filed(home: Home) -> None:
    home.enlist("h")
    gate = Gate()
    gate.open_gate.set()
    async with running(home.filer(files=gate)) as filer:
        gate.open_gate.clear()
        gate.reached.clear()
        task = asyncio.create_task(filer.file(request("h", "claimed")))
        await gate.wait_reached()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.open_gate.set()
        await until(lambda: filer.statistics().waiting == 0)
        assert home.texts("h") == ["claimed"]


async def test_closing_answers_what_is_being_written_and_refuses_the_rest(home: Home) -> None:
    home.enlist("h")
    gate = Gate()
    gate.open_gate.set()
    filer = home.filer(files=gate)
    await filer.start()
    gate.open_gate.clear()
    gate.reached.clear()
    claimed = asyncio.create_task(filer.file(request("h", "claimed")))
    await gate.wait_reached()
    queued = asyncio.create_task(filer.file(request("h", "queued")))
    await until(lambda: filer.statistics().reads >= 2)
    closing = asyncio.create_task(filer.close())
    assert isinstance(refused := await queued, Refused)
    assert refused.code == "busy"
    gate.open_gate.set()
    assert await claimed == FILED
    await closing
    assert home.texts("h") == ["claimed"]
    assert isinstance(after := await filer.file(request("h")), Refused)
    assert after.code == "busy"
    await filer.close()


async def test_closing_before_the_start_is_harmless(home: Home) -> None:
    await home.filer().close()


async def test_a_folder_that_cannot_be_made_is_told_at_each_filing(home: Home) -> None:
    home.enlist("h")
    (home.path / "inbox").write_text("a file in its place")
    async with running(home.filer()) as filer:
        assert isinstance(refused := await filer.file(request("h")), Refused)
        assert refused.sentence == "the append failed: inbox/h.lock: Not a directory (ENOTDIR)"
