"""A guest on the hub's folder: what it may not append goes to the hub, once (PROTOCOL Delivery, route 1).

The folder that is not on the guest's own disk is a small tmpfs: the lock record on it is missing, as it would
be on a share whose hub has not started.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.fleet import Box, Fleet
from tests.end_to_end.conftest import HASTY, PATIENT, hub_in
from tests.support.peers import (
    CAP,
    OK,
    FakeHub,
    Json,
    encode,
    mail,
    mail_of_size,
    open_peers,
)  # fmt: skip

assert sys.platform != "win32"  # conftest.py leaves this folder out there


GUEST, MAIN = "guest", "main"
ODD: Json = {"error": "own words, é and all", "code": "made_up"}


@pytest.fixture
def tmpfs_on() -> Iterator[list[Path]]:
    """Folders put in here are mounted as small tmpfs by `guest_box`, and unmounted at the end."""
    mounted: list[Path] = []
    yield mounted
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def guest_box(fleet: Fleet, mounted: list[Path], url: str) -> Box:
    if os.geteuid() != 0:
        pytest.skip("a folder on another file system is simulated by a tmpfs mount, which needs root")
    box = fleet.box(GUEST)
    box.comm_home.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m,mode=0700", "none", str(box.comm_home)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.strip()}")
    mounted.append(box.comm_home)
    box.register("shared")
    hosts = fleet.folder / "hosts.toml"
    hosts.write_text(f'hub = "{MAIN}"\n[host.{MAIN}]\ndaemon = true\nurl = "{url}"\n[host.{GUEST}]\n')
    fleet.start_hub(GUEST, hosts=hosts)
    return box


async def test_a_guest_forwards_once_and_passes_the_verdict_on_verbatim(tmpfs_on: list[Path]) -> None:
    with Fleet(PATIENT) as fleet:
        async with FakeHub(fleet.folder / "hub.sock").serving() as hub, open_peers() as peers:
            box = guest_box(fleet, tmpfs_on, hub.endpoint)
            sender = await peers.client(box.endpoint)
            for verdict in (OK, ODD):
                asked = await sender.send("comm.file", mail("shared", "é", broadcast=True))
                at_hub = await hub.greet()
                frame = await at_hub.next()
                assert (frame["kind"], frame["op"]) == ("req", "comm.file")
                assert frame["payload"] == {
                    "from": "tester", "to": "shared", "text": "é", "broadcast": True, "forwarded": True,
                }  # fmt: skip
                await at_hub.send("comm.file", {**verdict, "more": 1}, frame_id=frame["id"], kind="res")
                assert await sender.answer_to(asked, "comm.file") == verdict
                assert await at_hub.ended() is None, "one connection a forward, ended by the guest"
            assert [told["role"] for told in hub.hellos] == ["bridge", "bridge"]
            assert [told["host"] for told in hub.hellos] == [GUEST, GUEST]
            # What came forwarded is not forwarded again.
            refused = await sender.file("shared", forwarded=True)
            assert refused["code"] == "file_failed"
            assert "was forwarded here once" in refused["error"]
            assert box.inbox("shared") == []
            assert not (box.comm_home / "inbox-lock-manager").exists(), "a guest never writes the record"


async def test_a_guest_and_a_real_hub(tmpfs_on: list[Path]) -> None:
    """The forward is never offered: the hub answers by its own folder alone."""
    with Fleet(PATIENT) as fleet:
        fleet.box(MAIN).register("at-main")
        main = fleet.start_hub(MAIN, web_socket=True)
        box = guest_box(fleet, tmpfs_on, main.endpoint("ws"))
        async with open_peers() as peers:
            link = await peers.link(main.endpoint("unix"), "box")
            sender = await peers.client(box.endpoint)
            assert await sender.file("at-main", "from the guest") == OK
            assert [line["msg"] for line in fleet.box(MAIN).inbox("at-main")] == ["from the guest"]
            assert await sender.file("nobody") == {
                "error": "no box knows that handle: nobody", "code": "not_here",
            }  # fmt: skip
            assert await link.offers_so_far() == []
            assert (await sender.file("a b"))["code"] == "bad_handle"


async def test_a_forward_that_would_pass_the_cap_is_too_large(tmpfs_on: list[Path]) -> None:
    with Fleet(PATIENT) as fleet:
        main = fleet.start_hub(MAIN)
        fleet.box(MAIN).register("at-main")
        box = guest_box(fleet, tmpfs_on, main.endpoint("unix"))
        async with open_peers() as peers:
            sender = await peers.client(box.endpoint)
            await sender.send_text(mail_of_size(CAP, "at-main", frame_id=1))
            assert (await sender.answer_to(1, "comm.file"))["code"] == "too_large"
            longest = len(encode("comm.file", mail("at-main", "", broadcast=False, forwarded=True)))
            assert await sender.file("at-main", "x" * (CAP - longest - 18)) == OK


async def test_a_guest_whose_hub_is_not_there_says_that_nothing_was_sent(tmpfs_on: list[Path]) -> None:
    with Fleet(PATIENT) as fleet:
        box = guest_box(fleet, tmpfs_on, f"unix:{fleet.folder}/nobody.sock")
        async with open_peers() as peers:
            verdict = await (await peers.client(box.endpoint)).file("shared")
    assert verdict == {
        "error": f"the hub {MAIN} could not be reached: No such file or directory; nothing was sent",
        "code": "file_failed",
    }  # fmt: skip


async def test_a_hub_that_refuses_the_guests_hello_is_quoted(tmpfs_on: list[Path]) -> None:
    with Fleet(PATIENT) as fleet:
        async with FakeHub(fleet.folder / "hub.sock").serving() as hub, open_peers() as peers:
            box = guest_box(fleet, tmpfs_on, hub.endpoint)
            sender = await peers.client(box.endpoint)
            asked = await sender.send("comm.file", mail("shared"))
            await hub.greet({"error": "not today", "code": "os_user_conflict"})
            verdict = await sender.answer_to(asked, "comm.file")
    assert verdict["code"] == "file_failed"
    assert "hello refused: not today" in verdict["error"]
    assert verdict["error"].endswith("; nothing was sent")


@pytest.mark.parametrize("then", ["silence", "end"])
async def test_a_hub_that_took_the_request_and_says_nothing_may_have_filed_it(
    tmpfs_on: list[Path], then: str
) -> None:
    with Fleet(HASTY) as fleet:
        async with FakeHub(fleet.folder / "hub.sock").serving() as hub, open_peers() as peers:
            box = guest_box(fleet, tmpfs_on, hub.endpoint)
            sender = await peers.client(box.endpoint)
            asked = await sender.send("comm.file", mail("shared"))
            at_hub = await hub.greet()
            await at_hub.next()
            if then == "end":
                await at_hub.close()
            assert await sender.answer_to(asked, "comm.file") == {
                "error": f"the daemon on {MAIN} did not answer within 1.3s; @shared may still be filed",
                "code": "no_answer",
            }  # fmt: skip


async def test_a_daemon_whose_folder_is_on_its_own_disk_is_no_guest(fleet: Fleet) -> None:
    """hosts.toml names another hub, and the folder is this box's own: it files, and is no guest."""
    hosts = fleet.folder / "hosts.toml"
    hosts.write_text(f'hub = "{MAIN}"\n[host.{MAIN}]\ndaemon = true\n[host.hub]\n')
    hub = hub_in(fleet, hosts=hosts)
    if "hub of the comm folder" not in hub.log():
        pytest.skip("the system's temp folder is not on this machine's own disk")
    hub.box.register("own")
    async with open_peers() as peers:
        assert await (await peers.client(hub.unix)).file("own") == OK
