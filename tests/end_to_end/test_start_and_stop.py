"""How `sot-hub serve` starts, what it refuses to start with, and how it stops (WIRE sections 6, 7 and 8)."""

import signal
import sys

import pytest
from websockets.exceptions import InvalidMessage

from deploy.fleet import Fleet
from tests.end_to_end.conftest import HUB, LOCK_WAIT, Hub, exit_code, hub_in
from tests.support.peers import (
    CAP,
    OK,
    PeerClosedError,
    Peers,
    mail,
    mail_of_size,
    open_peers,
    refuses_connections,
    until,
)

assert sys.platform != "win32"  # conftest.py leaves this folder out there


async def test_what_is_in_flight_at_sigterm_is_answered_and_then_everybody_is_let_go(fleet: Fleet) -> None:
    hub = hub_in(fleet)
    async with open_peers() as peers:
        frames, lines = await peers.link(hub.ws, "frames"), await peers.link(hub.unix, "lines")
        waiting, late = await peers.client(hub.unix), await peers.client(hub.ws)
        asked = await waiting.send("comm.file", mail("h"))
        offer = await frames.offer()
        await lines.offer()
        hub.daemon.signal(signal.SIGTERM)
        await until(lambda: refuses_connections(hub.box.socket), "new senders are refused")
        with pytest.raises((OSError, InvalidMessage)):  # refused, or taken out of the backlog and dropped
            await peers.knock(hub.ws)
        refused = await late.file("h")
        assert refused["code"] == "busy"
        assert "shutting down" in refused["error"]
        await frames.peer.send("comm.file", OK, frame_id=offer.id, kind="res")
        assert await waiting.answer_to(asked, "comm.file") == OK
        assert await frames.peer.ended() == 1012
        assert await late.ended() == 1012
        assert await lines.peer.ended() is None
        assert await waiting.ended() is None
        assert await exit_code(hub.daemon) == 0
    assert hub.daemon.rest_of_stdout() == []
    assert not hub.box.socket.exists()


async def test_sigint_stops_it_the_same_way(fleet: Fleet) -> None:
    hub = hub_in(fleet)
    hub.daemon.signal(signal.SIGINT)
    assert await exit_code(hub.daemon) == 0
    assert "Traceback" not in hub.log()


async def test_an_offer_that_nobody_answers_holds_up_no_exit(fleet: Fleet) -> None:
    """Its link has ten minutes; the drain has five seconds."""
    hub = hub_in(fleet)
    async with open_peers() as peers:
        link, sender = await peers.link(hub.ws, "silent"), await peers.client(hub.unix)
        await sender.send("comm.file", mail("h"))
        await link.offer()
        hub.daemon.signal(signal.SIGTERM)
        assert await exit_code(hub.daemon) == 0
        with pytest.raises(PeerClosedError):
            await sender.next()
    assert "Traceback" not in hub.log()


async def test_a_held_inbox_lock_holds_up_no_exit(fleet: Fleet) -> None:
    hub = hub_in(fleet)
    hub.box.register("own")
    async with open_peers() as peers:
        sender = await peers.client(hub.unix)
        with hub.box.inbox_lock("own"):
            await sender.send("comm.file", mail("own"))
            assert await sender.ask("ping", {}) == OK
            hub.daemon.signal(signal.SIGTERM)
            assert await exit_code(hub.daemon) == 0
    assert hub.box.inbox("own") == []
    assert "Traceback" not in hub.log()


@pytest.mark.parametrize("way", ["unix", "ws"])
async def test_a_peer_that_never_reads_holds_up_no_exit(fleet: Fleet, way: str) -> None:
    hub = hub_in(fleet)
    async with open_peers() as peers:
        stuck, sender = await peers.client(hub.daemon.endpoint(way)), await peers.client(hub.unix)
        transport = stuck.writer.transport if way == "unix" else stuck.connection.transport
        transport.pause_reading()
        for _ in range(8):
            assert await sender.ask("agent.send", {"from": "me", "to": "", "text": "x" * 1_000_000})
            await sender.next()
        hub.daemon.signal(signal.SIGTERM)
        assert await exit_code(hub.daemon) == 0
        transport.abort()
    assert "Traceback" not in hub.log()


async def test_a_link_that_stops_reading_delays_no_other(patient: Hub, peers: Peers) -> None:
    stuck, good = await peers.link(patient.ws, "stuck"), await peers.link(patient.ws, "good")
    transport = stuck.peer.connection.transport  # type: ignore[attr-defined]
    transport.pause_reading()
    sender = await peers.client(patient.unix)
    for number in range(12):
        await sender.send_text(mail_of_size(CAP - 200, "h", frame_id=100 + number))
        offer = await good.offer()
        await good.answer(offer, OK)
        assert await sender.answer_to(100 + number, "comm.file") == OK
    transport.abort()


# What stands in the way of a start


def test_standard_output_holds_the_listeners_and_ready(fleet: Fleet) -> None:
    hub = hub_in(fleet)
    assert hub.daemon.endpoints[0] == hub.unix
    assert hub.ws.startswith("ws://127.0.0.1:")
    assert not hub.ws.endswith(":0/")
    assert len(hub.daemon.endpoints) == 2
    assert hub.daemon.stop() == 0
    assert hub.daemon.rest_of_stdout() == []


def test_a_second_hub_on_the_same_socket_is_refused_and_the_first_goes_on(fleet: Fleet) -> None:
    hub = hub_in(fleet)
    done = fleet.run(HUB, "sot-hub", "serve", "--listen", hub.unix)
    assert done.returncode == 1
    assert b"ready" not in done.stdout
    assert f"held by pid {hub.daemon.pid}".encode() in done.stderr
    assert b"Traceback" not in done.stderr
    assert fleet.ask(HUB, "ping", {}) == OK


def test_a_port_that_is_taken_is_refused(fleet: Fleet) -> None:
    hub = hub_in(fleet)
    done = fleet.run("other", "sot-hub", "serve", "--listen", hub.ws, "--insecure")
    assert done.returncode == 1
    assert b"in use" in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_socket_that_kill_9_left_is_taken_over(fleet: Fleet) -> None:
    hub = hub_in(fleet)
    hub.daemon.kill()
    assert hub.box.socket.exists()
    hub_in(fleet)
    assert fleet.ask(HUB, "ping", {}) == OK


def test_a_socket_folder_that_others_may_write_to_is_refused_and_left_as_it_is(fleet: Fleet) -> None:
    box = fleet.box(HUB)
    box.socket.parent.chmod(0o777)
    done = fleet.run(HUB, "sot-hub", "serve", "--listen", box.endpoint)
    assert done.returncode == 1
    assert b"chmod go-w" in done.stderr
    assert box.socket.parent.stat().st_mode & 0o777 == 0o777


def test_a_file_that_is_no_socket_is_never_removed(fleet: Fleet) -> None:
    box = fleet.box(HUB)
    box.socket.write_text("mine")
    done = fleet.run(HUB, "sot-hub", "serve", "--listen", box.endpoint)
    assert done.returncode == 1
    assert b"is not a socket" in done.stderr
    assert box.socket.read_text() == "mine"


@pytest.mark.parametrize("endpoint", ["ws://127.0.0.1:0/", "ws://0.0.0.0:0/"])
def test_a_websocket_listener_that_nothing_secures_is_refused_with_the_way_out(
    fleet: Fleet, endpoint: str
) -> None:
    done = fleet.run(HUB, "sot-hub", "serve", "--listen", endpoint)
    assert done.returncode == 1
    assert b"--insecure" in done.stderr
    assert done.stdout == b""


def test_insecure_is_logged_as_a_warning_at_every_start(patient: Hub) -> None:
    assert "WARNING sot.hub --insecure" in patient.log()


@pytest.mark.parametrize(
    "arguments",
    [
        ("sot-hub", "serve", "--no-such-option"),
        ("sot-hub",),
        ("sot-hub", "dance"),
        ("sot-hub", "serve", "--listen", "carrier-pigeon:coop"),
        ("sot-hub", "serve", "--listen", "ssh:hub"),
        ("sot-hub", "serve", "--log-level", "LOUD"),
        ("sot-link", "run", "--no-such-option"),
        ("sot-link", "run"),
        ("sot-link", "run", "--hub", "nowhere"),
        ("sot-link", "run", "--hub", "unix:/x", "--listen", "ws://127.0.0.1:0/"),
        ("sot-link", "run", "--hub", "unix:/x", "--log-level", "LOUD"),
    ],
    ids=" ".join,
)
def test_usage_errors_exit_2_and_print_nothing_on_stdout(fleet: Fleet, arguments: tuple[str, ...]) -> None:
    done = fleet.run(HUB, *arguments)
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    "setting",
    [{LOCK_WAIT: "soon"}, {LOCK_WAIT: "-1"}, {"SOT_MAX_FILINGS": "0"}, {"SOT_MAX_CONNECTIONS": "x"}],
)
@pytest.mark.parametrize("arguments", [("sot-hub", "serve"), ("sot-link", "run", "--hub", "unix:/x")])
def test_a_setting_that_cannot_be_used_exits_2_and_is_named(
    fleet: Fleet, arguments: tuple[str, ...], setting: dict[str, str]
) -> None:
    done = fleet.run(HUB, *arguments, env=setting)
    assert done.returncode == 2
    assert next(iter(setting)).encode() in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("text", ["hub = 5", "hub = [", "[host.a]\n", "\xff", None])
@pytest.mark.parametrize("arguments", [("sot-hub", "serve"), ("sot-link", "run", "--hub", "unix:/x")])
def test_a_hosts_file_that_was_named_and_is_bad_or_missing_stops_the_start(
    fleet: Fleet, arguments: tuple[str, ...], text: str | None
) -> None:
    path = fleet.folder / "named.toml"
    if text is not None:
        path.write_text(text, encoding="latin-1")
    done = fleet.run(HUB, *arguments, "--hosts", str(path))
    assert done.returncode == 1
    assert b"named.toml" in done.stderr
    assert done.stdout == b""
    assert b"Traceback" not in done.stderr


def test_a_hosts_file_that_the_environment_names_must_be_there_too(fleet: Fleet) -> None:
    done = fleet.run(HUB, "sot-hub", "serve", env={"SOT_HOSTS": str(fleet.folder / "named.toml")})
    assert done.returncode == 1
    assert b"named.toml" in done.stderr


def test_a_missing_default_hosts_file_is_a_warning(patient: Hub) -> None:
    assert "WARNING sot.hub there is no hosts.toml" in patient.log()
