"""Another program holds an inbox's lock: the real flock(1), with the default waits (PROTOCOL Delivery)."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.fleet import Box, Fleet
from tests.end_to_end.conftest import HUB, Hub, hub_in
from tests.support.parts import need
from tests.support.peers import OK, Json, Peers, mail

assert sys.platform != "win32"  # conftest.py leaves this folder out there


HELD: Json = {"error": "the inbox lock for @h was held for 2s — nothing was appended", "code": "file_failed"}


@contextmanager
def flock_1(box: Box, handle: str) -> Iterator[None]:
    """Hold the lock with flock(1), which says so once it has it and ends with its input."""
    need("flock")
    inbox = box.comm_home / "inbox"
    inbox.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock: Path = inbox / f"{handle}.lock"
    with subprocess.Popen(
        ["flock", str(lock), "sh", "-c", "echo held; cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield
        holder.communicate()


@pytest.fixture(scope="module")
def three() -> Iterator[Hub]:
    """A hub and a linked box, each with a handle `…` whose lock is held and one beside it; default waits."""
    with Fleet() as fleet:
        hub = hub_in(fleet)
        box = fleet.box("box")
        hub.box.register("h")
        hub.box.register("beside")
        box.register("far-h")
        box.register("far-beside")
        fleet.start_link("box", hub.ws)
        fleet.wait_linked(HUB, ["box"])
        yield hub


@pytest.mark.parametrize("where", [HUB, "box"])
async def test_a_held_lock_is_waited_for_2_s_and_another_handle_is_filed_meanwhile(
    three: Hub, peers: Peers, where: str
) -> None:
    prefix = "" if where == HUB else "far-"
    box = three.fleet.box(where)
    sender = await peers.client(three.unix)
    with flock_1(box, f"{prefix}h"):
        held = await sender.send("comm.file", mail(f"{prefix}h"))
        beside = await sender.send("comm.file", mail(f"{prefix}beside"))
        first, second = await sender.next(), await sender.next()
    assert (first["id"], first["payload"]) == (beside, OK)
    sentence = str(HELD["error"]).replace("@h", f"@{prefix}h")
    assert (second["id"], second["payload"]) == (held, {**HELD, "error": sentence})
    assert box.inbox(f"{prefix}h") == []
    assert len(box.inbox(f"{prefix}beside")) == 1


async def test_a_lock_that_is_let_go_in_time_has_every_waiting_line_filed(patient: Hub, peers: Peers) -> None:
    patient.box.register("h")
    sender = await peers.client(patient.unix)
    with flock_1(patient.box, "h"):
        asked = [await sender.send("comm.file", mail("h", str(number))) for number in range(10)]
        assert await sender.ask("ping", {}) == OK
        assert patient.box.inbox("h") == []
    for frame_id in asked:
        assert await sender.answer_to(frame_id, "comm.file") == OK
    assert [line["msg"] for line in patient.box.inbox("h")] == [str(number) for number in range(10)]
