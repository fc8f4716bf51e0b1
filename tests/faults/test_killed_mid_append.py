"""Kill -9 before any system call of an append: the next filing leaves every line that was answered ok.

strace is attached to the daemon that files, and kills it as a thread enters its n-th call of one kind; n goes
up until the send gets through. PROTOCOL Delivery, route 1.
"""

import asyncio
import itertools
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.fleet import Daemon, DaemonFailedError, Fleet
from filing.filer import Filer, FileRequest, FilerSettings, TopologyState
from filing.outcome import FILED
from tests.support.parts import need, unavailable

CALLS = ("openat", "flock", "lseek", "read", "write", "fdatasync", "fsync", "ftruncate", "close")
MOST = 40  # of one kind; far more than one filing makes, so reaching it means that the injection does nothing
HALF_LINE = b'{"from":"dead","to":"h","repo":"daemon","msg":"ha'
WHOLE_LINE = HALF_LINE + b'lf","ts":"2026-01-01T00:00:00Z"}\n'
STATES = {
    "no inbox yet": None,
    "a whole inbox": WHOLE_LINE,
    "a dead writer's half line": WHOLE_LINE + HALF_LINE,
}


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with Fleet() as made:
        yield made


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("filer", "state"), [*(("hub", state) for state in STATES), ("link", "a dead writer's half line")]
)
def test_killed_before_each_file_call(fleet: Fleet, filer: str, state: str) -> None:
    need("strace")
    box = fleet.box("server" if filer == "hub" else "laptop")
    box.register("h")
    inbox = box.comm_home / "inbox" / "h.jsonl"
    before = STATES[state]
    if filer == "link":
        fleet.start_hub("server")
    kills = 0
    for call in CALLS:
        for nth in itertools.count(1):
            assert nth < MOST, f"the daemon was never let through its {call}"
            inbox.parent.mkdir(mode=0o700, exist_ok=True)
            inbox.unlink(missing_ok=True)
            if before is not None:
                inbox.write_bytes(before)
            daemon = start(fleet, filer)
            with attached(daemon, f"inject={call}:signal=KILL:when={nth}", fleet.folder / "trace"):
                answered_ok = send(fleet, "killed")
                lived = answered_ok and send(fleet, "and more")
            daemon.kill()
            if lived:
                break
            kills += 1
            file_after(box.comm_home)
            check(inbox, answered_ok=answered_ok, had_line=before is not None)
    print(f"{filer}, {state}: killed at {kills} places")
    assert kills > len(CALLS), "an append makes more file calls than that"


def start(fleet: Fleet, filer: str) -> Daemon:
    if filer == "hub":
        return fleet.start_hub("server")
    daemon = fleet.start_link("laptop", fleet.box("server").endpoint)
    fleet.wait_linked("server", ["laptop"])
    return daemon


def send(fleet: Fleet, text: str) -> bool:
    """Send through the hub; tell whether it said filed. A hub that dies says nothing."""
    try:
        answer = fleet.ask("server", "comm.file", {"from": "me", "to": "h", "text": text})
    except (OSError, DaemonFailedError):
        return False
    return answer == {"ok": True}


@contextmanager
def attached(daemon: Daemon, inject: str, trace: Path) -> Iterator[None]:
    """Have strace attached to a daemon that is idle."""
    argv = ["strace", "-f", "-o", str(trace), "-e", inject, "-p", str(daemon.pid)]
    tracer = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert tracer.stderr is not None
        if "attached" not in (words := tracer.stderr.readline()):
            unavailable(f"strace cannot attach here: {words.strip()}")
        yield
    finally:
        tracer.kill()
        tracer.communicate()


def file_after(home: Path) -> None:
    """File one more line, as the next writer of the folder."""

    async def file() -> None:
        filer = Filer(
            FilerSettings(
                home=str(home), self_host="", topology=TopologyState.none(), lock_wait_s=2, file_wait_s=10
            )
        )
        await filer.start()
        try:
            request = FileRequest(sender="me", to="h", text="after", broadcast=False, forwarded=False)
            assert await filer.file(request) == FILED
        finally:
            await filer.close()

    asyncio.run(file())


def check(inbox: Path, *, answered_ok: bool, had_line: bool) -> None:
    data = inbox.read_bytes()
    assert data.endswith(b"\n")
    texts = [json.loads(line)["msg"] for line in data.split(b"\n")[:-1]]
    assert texts[-1] == "after"
    assert texts.count("killed") == 1 if answered_ok else texts.count("killed") <= 1
    assert texts.count("half") == (1 if had_line else 0)
    assert len(texts) == len(set(texts)), "nothing stands there twice"
