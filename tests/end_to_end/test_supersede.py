"""One link a host: the newer hello takes the older connection's place (WIRE section 6)."""

import sys

import pytest

from deploy.fleet import Fleet
from tests.end_to_end.conftest import Hub, hub_in
from tests.support.peers import NOT_HERE, OK, FakeHub, Peers, mail, open_peers, until

assert sys.platform != "win32"  # conftest.py leaves this folder out there


AT_THE_CAP = "dialling again in 30.0 s"


async def test_an_older_websocket_is_closed_4001_and_the_newer_gets_the_offers(
    patient: Hub, peers: Peers
) -> None:
    older, newer = await peers.link(patient.ws, "box"), await peers.link(patient.unix, "box")
    assert await older.peer.ended() == 4001
    sender = await peers.client(patient.unix)
    asked = await sender.send("comm.file", mail("h"))
    await newer.answer(await newer.offer(), OK)
    assert await sender.answer_to(asked, "comm.file") == OK
    status = patient.status()
    assert [link["host"] for link in status["links"]] == ["box"]
    assert (status["closed"][-1]["host"], status["closed"][-1]["reason"]) == ("box", "superseded")


async def test_an_older_line_link_is_told_by_an_event_and_then_closed(patient: Hub, peers: Peers) -> None:
    older = await peers.link(patient.unix, "box")
    await peers.link(patient.ws, "box")
    frame = await older.peer.next()
    assert (frame["kind"], frame["id"], frame["op"]) == ("evt", 0, "link.superseded")
    assert await older.peer.ended() is None


@pytest.mark.parametrize("way", ["unix", "ws"])
async def test_an_offer_that_was_out_to_the_older_one_is_not_waited_for(
    patient: Hub, peers: Peers, way: str
) -> None:
    older = await peers.link(patient.daemon.endpoint(way), "box")
    other = await peers.link(patient.ws, "other")
    sender = await peers.client(patient.unix)
    asked = await sender.send("comm.file", mail("h"))
    await other.answer(await other.offer(), NOT_HERE)
    await older.offer()
    newer = await peers.link(patient.ws, "box")
    verdict = await sender.answer_to(asked, "comm.file")
    assert verdict["code"] == "no_answer"
    assert verdict["error"].startswith("the daemon on box did not answer")
    assert await newer.offers_so_far() == [], "an offer is made once"


async def test_a_superseded_websocket_that_never_says_goodbye_is_gone_all_the_same(
    patient: Hub, peers: Peers
) -> None:
    older = await peers.link(patient.ws, "box")
    transport = older.peer.connection.transport  # type: ignore[attr-defined]
    transport.pause_reading()
    await peers.link(patient.ws, "box")
    await until(lambda: sum(patient.status()["connections"].values()) == 2, "two connections: link and asker")
    await until(lambda: _sockets(patient) == 1, "one WebSocket is left open in the hub's process")
    transport.resume_reading()


def _sockets(hub: Hub) -> int:
    """Connections of the hub's WebSocket port, as the kernel counts them on the hub's side."""
    from pathlib import Path

    port = f"{int(hub.ws.rstrip('/').rpartition(':')[2]):04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(f":{port}") and row[3] == "01" for row in rows)


async def test_of_two_daemons_of_one_box_the_older_waits_at_the_cap(fleet: Fleet) -> None:
    """It says so once, and dials no more: a fight would show as a second end in the hub's roster."""
    hub = hub_in(fleet)
    logs = []
    for name, endpoint in (("first", hub.ws), ("second", hub.unix)):
        logs.append(fleet.start_link(name, endpoint, "--self-host", "twin").log)
        await until(lambda: "link up" in logs[-1].read_text(), "the link is up")
    await until(lambda: AT_THE_CAP in logs[0].read_text(), "the older one waits at the cap")
    assert "superseded" in logs[0].read_text()
    async with open_peers() as peers:
        sender = await peers.client(hub.unix)
        for _ in range(200):
            await sender.ask("ping", {})
    status = hub.status()
    assert [link["transport"] for link in status["links"]] == ["unix"]
    assert [end["reason"] for end in status["closed"]] == ["superseded"]
    assert logs[0].read_text().count("link up") == 1
    assert AT_THE_CAP not in logs[1].read_text()


async def test_a_superseded_line_link_waits_at_the_cap_whatever_ended_its_socket(fleet: Fleet) -> None:
    """The event decides: with bytes unread in the socket its end is a reset and no plain close."""
    async with FakeHub(fleet.folder / "hub.sock").serving() as hub:
        log = fleet.start_link("box", hub.endpoint).log
        peer = await hub.greet()
        await peer.send("ping", {})  # its pong stays unread
        await until(lambda: "link up" in log.read_text(), "the link is up")
        await peer.send("link.superseded", {"host": "box"}, frame_id=0, kind="evt")
        peer.writer.transport.abort()
        await until(lambda: "link down" in log.read_text(), "the link is down")
        assert AT_THE_CAP in log.read_text()
        assert len(hub.hellos) == 1
