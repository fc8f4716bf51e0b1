"""The inbox lock, held by others: real flock(1), other processes, a claim against a withdrawal."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filing.comm_folder import CommFolder
from filing.committer import Answers, Committer, Filing, Stage
from filing.filer import Filer
from filing.inbox import Appended, AppendFailed, Inboxes
from filing.outcome import FILED, Refused
from filing.workers import Workers
from tests.filing.support import FakeMachine, Home, flock_tool, held_elsewhere, on_posix, request

pytestmark = on_posix

LOCAL = FakeMachine("local m1")
NFS4 = FakeMachine("nfs4 nas.example:/vol/mail")
NONE_AT = FakeMachine("none@m1")
MACHINES = pytest.mark.parametrize("machine", [LOCAL, NFS4, NONE_AT], ids=["local", "nfs4", "none@"])


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.enlist("h", "g")
    return home


@asynccontextmanager
async def running(filer: Filer) -> AsyncIterator[Filer]:
    await filer.start()
    try:
        yield filer
    finally:
        await filer.close()


async def until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.001)


HELD = Refused("file_failed", "the inbox lock for @h was held for 0.2s — nothing was appended")


@MACHINES
async def test_a_lock_held_past_the_wait_is_refused_and_nothing_appended(
    home: Home, machine: FakeMachine
) -> None:
    async with running(home.filer(machine=machine, lock_wait_s=0.2)) as filer:
        with held_elsewhere(home.lock("h")):
            assert await asyncio.gather(*(filer.file(request("h")) for _ in range(3))) == [HELD] * 3
            assert await filer.file(request("h")) == HELD, "while a thread is still in the lock's wait"
            if machine is NFS4:  # nobody waits, so nobody tries the lock; the kernel's wait cannot be ended
                await until(lambda: filer.statistics().lock_waiters == 0)
            else:
                assert filer.statistics().lock_waiters == 1
        await until(lambda: filer.statistics().lock_waiters == 0)
        assert home.texts("h") == []
        assert await filer.file(request("h", "later")) == FILED
        assert home.texts("h") == ["later"]


async def test_no_wait_at_all_still_has_its_one_try(home: Home) -> None:
    async with running(home.filer(machine=LOCAL, lock_wait_s=0)) as filer:
        assert await filer.file(request("h")) == FILED
        with held_elsewhere(home.lock("g")):
            assert await filer.file(request("g")) == Refused(
                "file_failed", "the inbox lock for @g was held for 0s — nothing was appended"
            )


@MACHINES
async def test_a_lock_given_back_in_time_is_taken_and_all_who_waited_are_filed(
    home: Home, machine: FakeMachine
) -> None:
    async with running(home.filer(machine=machine)) as filer:
        with held_elsewhere(home.lock("h")):
            waiting = [asyncio.create_task(filer.file(request("h", str(n)))) for n in range(5)]
            await until(lambda: filer.statistics().lock_waiters == 1)
            late = asyncio.create_task(filer.file(request("h", "late")))
            await asyncio.sleep(0.02)
            assert not any(task.done() for task in [*waiting, late])
        assert set(await asyncio.gather(*waiting, late)) == {FILED}
        assert sorted(home.texts("h")) == ["0", "1", "2", "3", "4", "late"]


@MACHINES
async def test_one_held_inbox_delays_no_other_and_no_reading(home: Home, machine: FakeMachine) -> None:
    others = [f"other{n}" for n in range(20)]
    home.enlist("h", *others)
    async with running(home.filer(machine=machine, workers=2)) as filer:
        with held_elsewhere(home.lock("h")):
            held = asyncio.create_task(filer.file(request("h")))
            await until(lambda: filer.statistics().lock_waiters == 1)
            filed = await asyncio.gather(*(filer.file(request(other)) for other in others))
            assert set(filed) == {FILED}
            assert isinstance(refused := await filer.file(request("nobody")), Refused)
            assert refused.code == "not_here"
            assert not held.done()
        assert await held == FILED


async def test_many_held_inboxes_take_a_thread_each_up_to_a_bound(home: Home) -> None:
    home.enlist("h", "g", "k")
    async with running(home.filer(machine=LOCAL, max_lock_waiters=2)) as filer:
        with held_elsewhere(home.lock("h")), held_elsewhere(home.lock("g")), held_elsewhere(home.lock("k")):
            waiting = [asyncio.create_task(filer.file(request(handle))) for handle in ("h", "g")]
            await until(lambda: filer.statistics().lock_waiters == 2)
            assert isinstance(refused := await filer.file(request("k")), Refused)
            assert refused.code == "busy"
            assert "2 held inbox locks" in refused.sentence
        assert await asyncio.gather(*waiting) == [FILED, FILED]
        assert await filer.file(request("k")) == FILED


async def test_no_thread_to_be_had_is_busy(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(home.filer(machine=LOCAL)) as filer:
        with held_elsewhere(home.lock("h")):

            def no_thread(self: threading.Thread) -> None:
                raise RuntimeError("can't start new thread")

            with monkeypatch.context() as patch:
                patch.setattr(threading.Thread, "start", no_thread)
                assert isinstance(refused := await filer.file(request("h")), Refused)
            assert refused.code == "busy"
        assert await filer.file(request("h")) == FILED
        assert filer.statistics().lock_waiters == 0


async def test_a_lock_that_comes_when_nobody_waits_is_given_straight_back(home: Home) -> None:
    async with running(home.filer(machine=LOCAL, lock_wait_s=0.05)) as filer:
        with held_elsewhere(home.lock("h")):
            assert isinstance(await filer.file(request("h")), Refused)
            assert filer.statistics().lock_waiters == 1
        await until(lambda: filer.statistics().inboxes == 0)
        with held_elsewhere(home.lock("h")):
            pass
        assert home.texts("h") == []


async def test_a_lock_file_removed_during_the_wait_is_taken_anew(home: Home) -> None:
    """Its lock excludes nobody who opens the file that stands there now."""
    async with running(home.filer(machine=LOCAL)) as filer:
        with held_elsewhere(home.lock("h")):
            first = asyncio.create_task(filer.file(request("h", "x")))
            await until(lambda: filer.statistics().lock_waiters == 1)
            home.lock("h").unlink()
            holder = held_elsewhere(home.lock("h"))
            holder.__enter__()
        await asyncio.sleep(0.05)
        assert home.texts("h") == [], "the holder of the new lock file is not bypassed"
        assert not first.done()
        holder.__exit__(None, None, None)
        assert await first == FILED
        assert home.texts("h") == ["x"]


async def test_a_shared_lock_of_a_reader_holds_a_writer_off(home: Home) -> None:
    async with running(home.filer(machine=LOCAL, lock_wait_s=0.2)) as filer:
        with held_elsewhere(home.lock("h"), shared=True):
            assert await filer.file(request("h")) == HELD


APPEND = """
for i in $(seq 1 60); do
  flock "$1" sh -c 'printf "{\\"msg\\":\\"shell %s\\"}\\n" "$1" >> "$0"' "$2" "$i" || exit 1
done
"""


@pytest.mark.parametrize("machine", [LOCAL, NFS4], ids=["local", "nfs4"])
async def test_shell_writers_and_the_filer_take_turns(home: Home, machine: FakeMachine) -> None:
    flock_tool()
    async with running(home.filer(machine=machine)) as filer:
        shell = await asyncio.create_subprocess_exec(
            "sh", "-c", APPEND, "sh", str(home.lock("h")), str(home.inbox("h"))
        )
        ended = asyncio.create_task(shell.wait())
        sent = 0
        while not ended.done():
            filed = await asyncio.gather(*(filer.file(request("h", f"ours {sent + n}")) for n in range(8)))
            assert set(filed) == {FILED}
            sent += 8
        assert await ended == 0
    texts = home.texts("h")
    assert [text for text in texts if text.startswith("shell")] == [f"shell {n}" for n in range(1, 61)]
    assert sorted(text for text in texts if text.startswith("ours")) == sorted(
        f"ours {n}" for n in range(sent)
    )


async def test_two_daemons_on_one_folder_lose_no_line(home: Home) -> None:
    script = """
import asyncio, sys
from pathlib import Path
from tests.filing.support import Home, request
from tests.filing.test_filer_locks import LOCAL, FILED, running

async def main(path, name):
    home = Home.__new__(Home)
    home.path = Path(path)
    async with running(home.filer(machine=LOCAL)) as filer:
        for n in range(25):
            filed = await asyncio.gather(*(filer.file(request("h", f"{name} {n}.{k}")) for k in range(4)))
            assert set(filed) == {FILED}, filed

asyncio.run(main(*sys.argv[1:]))
"""
    daemons = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", script, str(home.path), name)
        for name in ("one", "two")
    ]
    assert [await daemon.wait() for daemon in daemons] == [0, 0]
    assert sorted(home.texts("h")) == sorted(
        f"{name} {n}.{k}" for name in ("one", "two") for n in range(25) for k in range(4)
    )


def test_a_thread_stuck_in_the_lock_holds_up_neither_the_loop_nor_the_exit(home: Home) -> None:
    script = """
import asyncio, sys
from pathlib import Path
from tests.filing.support import Home, request
from tests.filing.test_filer_locks import LOCAL, running

async def main(path):
    home = Home.__new__(Home)
    home.path = Path(path)
    async with running(home.filer(machine=LOCAL, lock_wait_s=0.1, file_wait_s=0.2)) as filer:
        print((await filer.file(request("h"))).sentence)

asyncio.run(main(sys.argv[1]))
print("loop ended")
"""
    with held_elsewhere(home.lock("h")):
        command = [sys.executable, "-c", script, str(home.path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.splitlines() == [
        "the inbox lock for @h was held for 0.1s — nothing was appended",
        "loop ended",
    ]


# The claim against the withdrawal


class RecordingInboxes(Inboxes):
    """Writes to a list."""

    def __init__(self, home: str) -> None:
        super().__init__(CommFolder(home))
        self.written: list[bytes] = []

    def append(self, handle: str, lines: Any) -> Appended | AppendFailed:
        self.written += lines
        return Appended()


@given(withdrawn=st.sets(st.integers(0, 9)), then=st.sets(st.integers(0, 9)))
@settings(deadline=None, max_examples=40)
def test_a_withdrawn_line_is_never_written_and_a_written_one_never_withdrawn(
    withdrawn: set[int], then: set[int]
) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        delivered: list[Answers] = []
        inboxes = RecordingInboxes(folder)
        mutex = threading.Lock()
        committer = Committer(
            inboxes,
            Workers(2, "never started"),
            mutex,
            delivered.append,
            max_lock_waiters=1,
            max_batch_bytes=1 << 20,
        )
        filings = [Filing(request("h"), asyncio.Future(loop=_NO_LOOP), offered=False) for _ in range(10)]
        with mutex:
            jobs = [
                committer.queue(filing, b"%d" % number, polling=False)
                for number, filing in enumerate(filings)
            ]
            gone = {number for number in withdrawn if committer.withdraw(filings[number])}
        assert gone == withdrawn
        assert [job is not None for job in jobs] == [True] + [False] * 9
        assert jobs[0] is not None
        jobs[0]()
        with mutex:
            assert not any(committer.withdraw(filings[number]) for number in then)
        answered = [filings.index(filing) for answers in delivered for filing, _ in answers]
        assert sorted(answered) == sorted(set(range(10)) - withdrawn)
        assert inboxes.written == [b"%d" % number for number in range(10) if number not in withdrawn]
        assert all(filing.stage is Stage.ENDED for filing in filings)
        assert committer.active_inboxes == 0


_NO_LOOP = asyncio.new_event_loop()
_NO_LOOP.close()


async def test_deadlines_that_race_with_a_lock_that_comes_and_goes(home: Home) -> None:
    """Whatever each sender is told is true: filed is there once, refused is not."""
    async with running(home.filer(machine=LOCAL, lock_wait_s=0.01, file_wait_s=30.0)) as filer:
        stop = asyncio.Event()

        async def hold_and_let_go() -> None:
            from filing import platform

            fd = os.open(home.lock("h"), os.O_RDWR | os.O_CREAT, 0o600)
            while not stop.is_set():
                if platform.try_lock(fd):
                    await asyncio.sleep(0.008)
                    platform.unlock(fd)
                await asyncio.sleep(0.002)
            os.close(fd)

        holder = asyncio.create_task(hold_and_let_go())
        told: dict[str, Any] = {}

        async def send(name: str) -> None:
            told[name] = await filer.file(request("h", name))

        for round_number in range(40):
            await asyncio.gather(*(send(f"{round_number}.{n}") for n in range(5)))
        stop.set()
        await holder
        await until(lambda: filer.statistics().waiting == 0)
    filed = sorted(name for name, answer in told.items() if answer == FILED)
    assert sorted(home.texts("h")) == filed
    assert all(answer == FILED or answer.code in {"file_failed", "busy"} for answer in told.values())
    assert len(told) == 200


def test_what_a_shell_reads_is_what_was_filed(home: Home) -> None:
    async def file() -> None:
        async with running(home.filer(machine=LOCAL)) as filer:
            await filer.file(request("h", "é 漢 😀 \u2028 \x85 \x7f"))

    asyncio.run(file())
    (line,) = home.inbox("h").read_bytes().split(b"\n")[:-1]
    assert json.loads(line)["msg"] == "é 漢 😀 \u2028 \x85 \x7f"
