"""Bounds: what is refused `busy`, and when a connection is read no further (WIRE sections 4 and 5)."""

import sys

import pytest

from deploy.fleet import Fleet
from tests.end_to_end.conftest import PATIENT, Hub, hub_in
from tests.support.peers import NOT_HERE, OK, Peers, hello, mail, open_peers

assert sys.platform != "win32"  # conftest.py leaves this folder out there


MAX_IN_FLIGHT = 64


async def test_past_max_filings_the_answer_is_busy_at_once_and_nothing_is_tried() -> None:
    with Fleet({**PATIENT, "SOT_MAX_FILINGS": "2"}) as fleet:
        hub = hub_in(fleet)
        hub.box.register("own")
        async with open_peers() as peers:
            link, sender = await peers.link(hub.ws, "box"), await peers.client(hub.unix)
            asked = [await sender.send("comm.file", mail("h", str(number))) for number in range(2)]
            offers = [await link.offer() for _ in asked]
            for handle in ("own", "h", "nobody"):
                verdict = await sender.file(handle)
                assert verdict["code"] == "busy"
                assert "2 filings in flight" in verdict["error"]
            assert hub.box.inbox("own") == []
            assert await link.offers_so_far() == []
            assert hub.status()["in_flight"] == 2
            await link.answer(offers[1], OK)
            assert await sender.answer_to(asked[1], "comm.file") == OK
            assert await sender.file("own") == OK, "there is room again"
            await link.answer(offers[0], NOT_HERE)
            assert (await sender.answer_to(asked[0], "comm.file"))["code"] == "unknown_handle"


@pytest.mark.parametrize("way", ["unix", "ws"])
async def test_a_connection_with_64_requests_in_flight_is_read_no_further_until_one_is_answered(
    patient: Hub, peers: Peers, way: str
) -> None:
    """Its ping stands behind them, and comes after the first verdict; nobody else waits for that."""
    link, sender = await peers.link(patient.ws, "box"), await peers.client(patient.daemon.endpoint(way))
    asked = [await sender.send("comm.file", mail("h", str(number))) for number in range(MAX_IN_FLIGHT)]
    ping = await sender.send("ping", {})
    offers = {offer.payload["text"]: offer for offer in [await link.offer() for _ in asked]}
    other = await peers.client(patient.daemon.endpoint(way))
    assert await other.ask("ping", {}) == OK
    await link.answer(offers["5"], OK)
    first, second = await sender.next(), await sender.next()
    assert (first["op"], first["id"], first["payload"]) == ("comm.file", asked[5], OK)
    assert (second["op"], second["id"], second["payload"]) == ("ping", ping, OK)
    await link.peer.close()


async def test_past_the_connection_limit_a_hello_is_refused_and_room_comes_back() -> None:
    with Fleet({"SOT_MAX_CONNECTIONS": "2"}) as fleet:
        hub = hub_in(fleet)
        async with open_peers() as peers:
            first, _second = await peers.client(hub.unix), await peers.client(hub.ws)
            third = await peers.knock(hub.unix)
            assert (await third.ask("hello", hello()))["code"] == "too_many_connections"
            assert await third.ended() is None
            await first.close()
            while True:
                again = await peers.knock(hub.unix)
                answer = await again.ask("hello", hello())
                if "error" not in answer:
                    break
                assert answer["code"] == "too_many_connections"
