"""A hub that stops or dies, links that come back, and hellos that are refused (WIRE sections 3 and 6)."""

import asyncio
import signal
import sys

import pytest

from deploy.fleet import Daemon, DaemonFailedError, Fleet
from tests.end_to_end.conftest import HUB, hub_in
from tests.support.peers import OK, FakeHub, Json, hello, open_peers, until

assert sys.platform != "win32"  # conftest.py leaves this folder out there


AT_THE_CAP = "dialling again in 30.0 s"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_mail_flows_again_after_the_hub_was_restarted(fleet: Fleet, how: signal.Signals) -> None:
    """Over both transports, to the same addresses; a socket that kill -9 left is taken over."""
    hub = hub_in(fleet)
    for name, endpoint in (("lines", hub.unix), ("frames", hub.ws)):
        fleet.box(name).register(f"{name}-handle")
        fleet.start_link(name, endpoint)
    fleet.wait_linked(HUB, ["lines", "frames"])
    for round_number in (1, 2):
        for name in ("lines", "frames"):
            sent = fleet.ask(HUB, "comm.file", {"from": "me", "to": f"{name}-handle", "text": "t"})
            assert sent == OK
            assert len(fleet.box(name).inbox(f"{name}-handle")) == round_number
        if round_number == 1:
            _end(hub.daemon, how)
            assert hub.box.socket.exists() == (how == signal.SIGKILL)
            fleet.start_hub(HUB, "--listen", hub.ws, "--insecure")
            fleet.wait_linked(HUB, ["lines", "frames"])


def _end(daemon: Daemon, how: signal.Signals) -> None:
    if how == signal.SIGKILL:
        daemon.kill()
    else:
        assert daemon.stop() == 0


async def test_a_client_of_a_linked_box_is_told_why_while_the_hub_is_away(fleet: Fleet) -> None:
    hub = hub_in(fleet)
    fleet.start_link("box", hub.unix)
    fleet.wait_linked(HUB, ["box"])
    hub.daemon.kill()
    async with open_peers() as peers:
        sender = await peers.client(fleet.box("box").endpoint)
        await until(lambda: "link down" in fleet.box("box").log(), "the link saw the end")
        verdict = await sender.file("elsewhere")
    assert verdict["code"] == "file_failed"
    assert verdict["error"].startswith("the link to the hub is down: ")
    assert verdict["error"].endswith("; nothing was sent")


async def test_the_hubs_own_host_and_an_unlisted_one_may_not_link(fleet: Fleet) -> None:
    hub = hub_in(fleet, hosts=fleet.hosts_file(HUB, ["listed"]))
    async with open_peers() as peers:
        for endpoint in hub.both:
            for host in (HUB, "stranger", "Listed"):
                peer = await peers.knock(endpoint)
                answer = await peer.ask("hello", hello(host, role="link"))
                assert answer["code"] == "unknown_host"
                assert host in answer["error"]
                assert await peer.ended() in {None, 1008}
                # As a client anybody is welcome.
                assert await (await peers.client(endpoint, host)).ask("ping", {}) == OK
        await peers.link(hub.ws, "listed")
        fleet.wait_linked(HUB, ["listed"])


async def test_without_a_hosts_file_any_box_but_the_hub_may_link(fleet: Fleet) -> None:
    hub = hub_in(fleet)
    async with open_peers() as peers:
        await peers.link(hub.ws, "anybody")
        refused = await (await peers.knock(hub.ws)).ask("hello", hello(HUB, role="link"))
    assert refused["code"] == "unknown_host"


async def test_a_refused_hello_waits_at_the_cap_and_says_why_once(fleet: Fleet) -> None:
    hub = hub_in(fleet, hosts=fleet.hosts_file(HUB, []))
    log = fleet.start_link("stranger", hub.ws).log
    await until(lambda: AT_THE_CAP in log.read_text(), "the link says when it dials again")
    assert "hello refused: hosts.toml on the hub lists no host stranger" in log.read_text()
    assert hub.log().count("hello refused") == 1
    async with open_peers() as peers:
        sender = await peers.client(fleet.box("stranger").endpoint)
        verdict = await sender.file("h")
    assert verdict["error"] == (
        "the link to the hub is down: hello refused: hosts.toml on the hub lists no host stranger; "
        "add [host.stranger] there; nothing was sent"
    )


async def test_what_a_hub_says_in_a_refused_hello_is_passed_on_and_bounded(fleet: Fleet) -> None:
    refusal: Json = {"error": "no " * 300_000, "code": "os_user_conflict"}
    async with FakeHub(fleet.folder / "hub.sock").serving() as hub, open_peers() as peers:
        log = fleet.start_link("box", hub.endpoint).log
        await hub.greet(refusal)
        await until(lambda: AT_THE_CAP in log.read_text(), "the link waits at the cap")
        sender = await peers.client(fleet.box("box").endpoint)
        verdict = await sender.file("h")
        assert verdict["error"].startswith("the link to the hub is down: hello refused: no no no")
        assert len(verdict["error"]) < 1000
        assert len(log.read_text()) < 5000
        assert len(hub.hellos) == 1


async def test_a_hub_that_ends_each_connection_is_dialled_with_growing_delays(fleet: Fleet) -> None:
    async with FakeHub(fleet.folder / "hub.sock").serving() as hub:
        log = fleet.start_link("box", hub.endpoint).log
        for _ in range(2):
            peer = await hub.greet()
            await peer.close()
        await until(lambda: log.read_text().count("link up") == 2, "the link was up twice")
    assert hub.hellos[0]["role"] == "link"
    assert hub.hellos[0]["name"] == "sotd-box"
    assert hub.hellos[0]["host"] == "box"
    assert hub.hellos[0]["protocol"] == 3
    assert hub.hellos[0]["instance"]
    assert hub.hellos[0]["instance"] == hub.hellos[1]["instance"], "random per process"


def test_a_link_is_ready_before_there_is_a_hub(fleet: Fleet) -> None:
    fleet.start_link("early", fleet.box(HUB).endpoint)
    hub_in(fleet)
    fleet.wait_linked(HUB, ["early"])


def test_a_second_daemon_on_the_same_socket_is_refused_with_the_holders_pid(fleet: Fleet) -> None:
    hub = hub_in(fleet)
    with pytest.raises(DaemonFailedError, match=f"held by pid {hub.daemon.pid}"):
        fleet.start_link("box", hub.ws, "--listen", hub.unix)
    assert fleet.ask(HUB, "ping", {}) == OK


@pytest.mark.parametrize(
    ("status", "at_the_cap"), [("401 Unauthorized", True), ("503 Service Unavailable", False)]
)
async def test_an_upgrade_that_is_answered_401_waits_at_the_cap(
    fleet: Fleet, status: str, at_the_cap: bool
) -> None:
    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        upgrades.append(status)
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    upgrades: list[str] = []
    server = await asyncio.start_server(answered, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        log = fleet.start_link("box", f"ws://127.0.0.1:{port}/").log
        await until(lambda: "link down" in log.read_text(), "the link is down")
        assert f"HTTP {status[:3]}" in log.read_text()
        assert (AT_THE_CAP in log.read_text()) == at_the_cap
        if at_the_cap:
            assert len(upgrades) == 1
        assert fleet.ask("box", "ping", {}) == OK
