"""Eight senders by four ways into four inboxes at once, a reader at each: nothing is lost, doubled or torn.

A command's own append, the hub, a link and plain shell share nothing but the inbox locks (PROTOCOL Delivery).
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest

from deploy.fleet import Box, Fleet
from tests.support.crowd import BY_HAND, receiver, text_of
from tests.support.parts import need
from tests.support.person import Person, Said

if sys.platform == "win32":
    pytest.skip("Unix sockets and plain shell", allow_module_level=True)

CI = os.environ.get("CI") == "true"
EACH = 500 if CI else 100  # texts of one sender
HANDLES = ["inbox0", "inbox1", "inbox2", "inbox3"]
BOUND_S = 500.0  # of all senders, and of all readers; no assertion depends on it
PATIENT = {"SOT_INBOX_LOCK_WAIT_SECS": "600", "SOT_INBOX_READ_WAIT_SECS": "600"}
# In two writes by two processes: under the lock half a line stands there, for whoever does not heed the lock.
SHELL_LOOP = """
umask 077
while read -r to first rest; do
    {
        flock 9
        printf '%s ' "$first" >>"inbox/$to.jsonl"
        sh -c 'printf "%s\\n" "$1"' sh "$rest" >>"inbox/$to.jsonl"
    } 9<>"inbox/$to.lock"
done
"""
INTERRUPTED = 130


@dataclass
class Member:
    """One process of the crowd, what it prints in files."""

    process: "subprocess.Popen[bytes]"
    out: Path
    err: Path


@dataclass
class Crowd:
    """The inboxes are on box `home`."""

    fleet: Fleet
    home: Box
    stack: ExitStack
    members: list[Member] = field(default_factory=list)

    def starts(
        self, name: str, argv: Sequence[str], box: Box, stdin: int | IO[bytes] = subprocess.DEVNULL
    ) -> Member:
        """Start a process that is `name`; it is ended with the test, come what may."""
        out, err = (self.fleet.folder / f"{name}.{stream}" for stream in ("out", "err"))
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                argv,
                cwd=box.comm_home,
                env={**box.env(), "SOT_COMM_NAME": name, "PYTHONUTF8": "1"},
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
            )
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        self.members.append(Member(process, out, err))
        return self.members[-1]

    def sends(self, sender: str, way: str) -> Member:
        """Start a sender that calls our commands' functions."""
        argv = [sys.executable, "-m", "tests.support.crowd", "send", way, str(EACH), *HANDLES]
        return self.starts(sender, argv, self.home)

    def appends(self, sender: str) -> Member:
        """Start a loop of plain shell that adds lines which it is given."""
        lines = self.fleet.folder / f"{sender}.lines"
        with lines.open("w", encoding="utf-8") as file:
            for number in range(EACH):
                to = receiver(HANDLES, number)
                line = {"from": sender, "to": to, "repo": "sh", "msg": text_of(sender, number), "ts": "T"}
                file.write(f"{to} {json.dumps(line)}\n")
        with lines.open("rb") as stdin:
            return self.starts(sender, ["sh", "-eu", "-c", SHELL_LOOP], self.home, stdin)

    def inbox(self, handle: str) -> Path:
        return self.home.comm_home / "inbox" / f"{handle}.jsonl"

    def cursor(self, handle: str) -> Path:
        return self.home.comm_home / "read" / f"{handle}.cursor"


@pytest.fixture(params=["server", "laptop"])
def crowd(request: pytest.FixtureRequest) -> Iterator[Crowd]:
    """A hub on `server` and a link on `laptop`; one of them has the four inboxes."""
    need("flock", "cksum")
    with Fleet(PATIENT) as fleet, ExitStack() as stack:
        home = fleet.box(request.param)
        for handle in (*HANDLES, "hand0", "hand1"):  # who appends by hand must be listed
            home.register(handle)
        fleet.start_hub("server")
        fleet.start_link("laptop", fleet.box("server").endpoint)
        fleet.wait_linked("server", ["laptop"])
        yield Crowd(fleet, home, stack)


@pytest.mark.skipif(sys.platform != "linux", reason="a command appends by its own hand on Linux alone")
@pytest.mark.timeout(600)
def test_nothing_is_lost_doubled_or_torn(crowd: Crowd) -> None:
    began = time.monotonic()
    hub, link = (crowd.fleet.box(name).endpoint for name in ("server", "laptop"))
    senders = {
        **{name: crowd.sends(name, BY_HAND) for name in ("hand0", "hand1")},
        **{name: crowd.sends(name, hub) for name in ("hub0", "hub1")},
        **{name: crowd.sends(name, link) for name in ("link0", "link1")},
        **{name: crowd.appends(name) for name in ("shell0", "shell1")},
    }
    expected = {handle: texts_for(handle, list(senders)) for handle in HANDLES}
    *polled, followed = HANDLES
    readers = {handle: crowd.starts(handle, polls(len(expected[handle])), crowd.home) for handle in polled}
    readers[followed] = crowd.starts(followed, FOLLOWS, crowd.home)
    for name, sender in senders.items():
        ends(sender, 0)
        printed = "" if name.startswith("shell") else verdicts(own_append=name.startswith("hand"))
        assert sender.out.read_text() == printed
    sent = time.monotonic()
    inboxes = {handle: check_inbox(crowd, handle, list(senders), expected[handle]) for handle in HANDLES}
    for handle in polled:
        ends(readers[handle], 0)
    wait_for(lambda: cursor_of(crowd, followed) == summed(crowd, followed), readers[followed])
    readers[followed].process.send_signal(signal.SIGINT)
    ends(readers[followed], INTERRUPTED)
    ended = time.monotonic()
    for handle, reader in readers.items():
        lines = inboxes[handle]
        shown = [json.loads(line) for line in reader.out.read_bytes().splitlines()]
        assert [(one["line"], one["from"], one["msg"]) for one in shown] == [
            (number, line["from"], line["msg"]) for number, line in enumerate(lines, 1)
        ]
        assert cursor_of(crowd, handle) == summed(crowd, handle)
        again = Person(crowd.home, crowd.home.comm_home, {"SOT_COMM_NAME": handle})
        assert again.does("comm_poll") == Said(0, "No new messages.\n")
    check_the_rest(crowd)
    total = sum(map(len, expected.values()))
    print(f"on {crowd.home.name}: {total} lines, sent in {sent - began:.1f} s, read in {ended - began:.1f} s")


FOLLOWS = [sys.executable, "-m", "verbs.comm_poll", "--follow", "--json"]


def polls(count: int) -> list[str]:
    return [sys.executable, "-m", "tests.support.crowd", "read", str(count)]


def texts_for(handle: str, senders: list[str]) -> list[tuple[str, str]]:
    """What each sender sends to a handle, in that sender's order."""
    numbers = [number for number in range(EACH) if receiver(HANDLES, number) == handle]
    return [(sender, text_of(sender, number)) for sender in senders for number in numbers]


def verdicts(*, own_append: bool) -> str:
    indent = "  " if own_append else ""
    return "".join(f"{indent}filed -> @{receiver(HANDLES, number)}\n" for number in range(EACH))


def ends(member: Member, code: int) -> None:
    """Wait for the end of a process, which had nothing to complain of."""
    assert member.process.wait(BOUND_S) == code, member.err.read_text()
    assert member.err.read_text() == ""


def wait_for(true: Callable[[], bool], reader: Member) -> None:
    """Wait for something that nothing tells of, while the reader runs."""
    deadline = time.monotonic() + BOUND_S
    while not true():
        assert reader.process.poll() is None, reader.err.read_text()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def check_inbox(
    crowd: Crowd, handle: str, senders: list[str], expected: list[tuple[str, str]]
) -> list[dict[str, str]]:
    """Every text is there once, in its sender's order, and nothing else; return the lines, read."""
    data = crowd.inbox(handle).read_bytes()
    assert data.endswith(b"\n")
    lines = [json.loads(line) for line in data.split(b"\n")[:-1]]
    assert {line["to"] for line in lines} == {handle}
    by_sender = sorted(lines, key=lambda line: senders.index(line["from"]))  # which keeps their order
    assert [(line["from"], line["msg"]) for line in by_sender] == expected
    return lines


def cursor_of(crowd: Crowd, handle: str) -> bytes:
    path = crowd.cursor(handle)
    return path.read_bytes() if path.exists() else b""


def summed(crowd: Crowd, handle: str) -> bytes:
    """The cursor of one who has read all, by coreutils' own sum."""
    *_, last = lines = crowd.inbox(handle).read_bytes().split(b"\n")[:-1]
    crc, size = subprocess.run(["cksum"], input=last, capture_output=True, check=True).stdout.split()
    return b"%d %s-%s" % (len(lines), crc, size)


def check_the_rest(crowd: Crowd) -> None:
    """Nobody left a lock or half a registry behind, and the hub has answered everybody."""
    left = sorted(path.name for path in crowd.home.comm_home.iterdir())
    assert left == ["inbox", "inbox-lock-manager", "read", "registry.json"]
    registry = json.loads((crowd.home.comm_home / "registry.json").read_bytes())
    assert sorted(registry["agents"]) == ["hand0", "hand1", *HANDLES]
    assert crowd.fleet.ask("server", "hub.status", {})["in_flight"] == 0
