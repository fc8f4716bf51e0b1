"""`ssh:target`: a link through a login, with a stand-in for ssh on PATH that runs the bridge (WIRE 2)."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

from deploy.fleet import Fleet, command
from tests.end_to_end.conftest import HUB, Hub, hub_in
from tests.support.peers import OK, encode, hello, mail, open_peers, until

assert sys.platform != "win32"  # conftest.py leaves this folder out there


def stand_in(fleet: Fleet, socket: Path, *, box: str, before: str = "") -> Path:
    """Put an `ssh` on this box's PATH; return the file in which it notes its arguments."""
    folder, noted = fleet.folder / f"bin-{box}", fleet.folder / f"ssh-{box}.log"
    folder.mkdir()
    bridge = shlex.join([*command("sot-hub"), "stdio-bridge", "--socket", str(socket)])
    script = folder / "ssh"
    script.write_text(f'#!/bin/sh\necho "$*" >> {shlex.quote(str(noted))}\n{before}\nexec {bridge}\n')
    script.chmod(0o755)
    fleet.box(box).extra_env["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return noted


async def test_a_link_over_ssh(fleet: Fleet) -> None:
    hub = hub_in(fleet)
    hub.box.register("at-hub")
    fleet.box("box").register("far")
    noted = stand_in(fleet, hub.box.socket, box="box")
    link = fleet.start_link("box", "ssh:gateway")
    fleet.wait_linked(HUB, ["box"])
    assert noted.read_text().split() == [
        "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "--", "gateway", "sot-hub", "stdio-bridge",
    ]  # fmt: skip
    async with open_peers() as peers:
        sender = await peers.client(hub.unix)
        for number in range(20):
            assert await sender.file("far", "x" * 60_000 + str(number)) == OK
        inside = await peers.client(fleet.box("box").endpoint)
        assert await inside.file("at-hub", "y" * 900_000) == OK
    assert len(fleet.box("box").inbox("far")) == 20
    assert hub.status()["links"][0]["transport"] == "unix"
    assert link.stop() == 0
    fleet.wait_linked(HUB, [])


async def test_what_ssh_says_is_why_the_link_is_down(fleet: Fleet) -> None:
    stand_in(fleet, Path("/nowhere"), box="box", before="echo 'Host key verification failed.' >&2; exit 255")
    fleet.start_link("box", "ssh:gateway")
    await until(lambda: "link down" in fleet.box("box").log(), "the link is down")
    async with open_peers() as peers:
        verdict = await (await peers.client(fleet.box("box").endpoint)).file("far")
    assert verdict["code"] == "file_failed"
    assert "Host key verification failed." in verdict["error"]


async def test_a_link_over_ssh_comes_back_when_ssh_dies(fleet: Fleet) -> None:
    hub = hub_in(fleet)
    noted = stand_in(fleet, hub.box.socket, box="box", before="echo pid $$ >> $HOME/pids")
    fleet.start_link("box", "ssh:gateway")
    fleet.wait_linked(HUB, ["box"])
    pid = int((fleet.box("box").folder / "pids").read_text().split()[1])
    os.kill(pid, 9)  # the stand-in that was started here, by its own pid
    await until(lambda: len(noted.read_text().splitlines()) == 2, "ssh was started again")
    fleet.wait_linked(HUB, ["box"])


async def test_of_two_links_over_ssh_the_superseded_one_waits_at_the_cap(fleet: Fleet) -> None:
    hub = hub_in(fleet)
    for name in ("first", "second"):
        stand_in(fleet, hub.box.socket, box=name)
        fleet.start_link(name, "ssh:gateway", "--self-host", "twin")
        await until(lambda at=name: "link up" in fleet.box(at).log(), "the link is up")  # type: ignore[misc]
    await until(lambda: "link down" in fleet.box("first").log(), "the older one saw it")
    assert "dialling again in 30.0 s" in fleet.box("first").log()


def test_the_bridge_carries_a_half_close_both_ways(patient: Hub) -> None:
    """Its input ends at once; the answers still come, the last one after a filing, then it ends."""
    patient.box.register("own")
    typed = encode("hello", hello()) + b"\n" + encode("comm.file", mail("own"), frame_id=2)
    done = patient.fleet.run(HUB, "sot-hub", "stdio-bridge", "--socket", str(patient.box.socket), stdin=typed)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(frame["id"], frame["op"]) for frame in answers] == [(1, "hello"), (2, "comm.file")]
    assert answers[1]["payload"] == OK
    assert done.returncode == 0
    assert done.stderr == b""


async def test_the_bridge_ends_with_the_hub_though_its_input_goes_on(fleet: Fleet) -> None:
    hub = hub_in(fleet)
    argv = [*command("sot-hub"), "stdio-bridge", "--socket", str(hub.box.socket)]
    with subprocess.Popen(argv, env=hub.box.env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as bridge:
        assert bridge.stdin is not None
        assert bridge.stdout is not None
        bridge.stdin.write(encode("hello", hello()) + b"\n")
        bridge.stdin.flush()
        assert b"session_id" in bridge.stdout.readline()
        assert hub.daemon.stop() == 0
        assert bridge.wait(30) == 0


def test_the_bridge_says_where_no_hub_listens(fleet: Fleet) -> None:
    done = fleet.run(HUB, "sot-hub", "stdio-bridge")
    assert done.returncode == 1
    assert b"no hub listens on" in done.stderr
    assert done.stdout == b""
