"""What a link may do wrong, and that it costs nobody else anything (WIRE sections 1, 2, 5 and 6)."""

import sys
from typing import Any

import pytest

from tests.end_to_end.conftest import HUB, Hub
from tests.support.peers import CAP, LONGEST_ID, NOT_HERE, OK, STALE, Json, Peers, encode, mail

assert sys.platform != "win32"  # conftest.py leaves this folder out there


UNKNOWN: Json = {"error": "no box knows that handle: h", "code": "unknown_handle"}


def no_answer(host: str, link_time: str) -> Json:
    return {
        "error": f"the daemon on {host} did not answer within {link_time}; @h may still be filed",
        "code": "no_answer",
    }


@pytest.fixture(params=["unix", "ws"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def at(hub: Hub, way: str) -> str:
    return hub.daemon.endpoint(way)


async def test_an_answer_after_the_deadline_is_dropped_and_the_next_offer_is_right(
    hasty: Hub, peers: Peers, way: str
) -> None:
    link = await peers.link(at(hasty, way), "slow")
    sender = await peers.client(hasty.unix)
    assert await sender.file("h") == no_answer("slow", "1.3s")
    late = await link.offer()
    asked = await sender.send("comm.file", mail("h"))
    offer = await link.offer()
    await link.answer(late, OK)  # while the next one is out
    await link.answer(offer, STALE)
    assert await sender.answer_to(asked, "comm.file") == STALE
    row = hasty.status()["links"][0]
    assert (row["host"], row["offers"], row["filed"]) == ("slow", 2, 0)


async def test_only_the_first_answer_of_a_link_counts(patient: Hub, peers: Peers, way: str) -> None:
    twice, other = await peers.link(at(patient, way), "twice"), await peers.link(patient.unix, "other")
    sender = await peers.client(patient.unix)
    asked = await sender.send("comm.file", mail("h"))
    offer = await twice.offer()
    await twice.answer(offer, NOT_HERE)
    await twice.answer(offer, OK)
    await other.answer(await other.offer(), NOT_HERE)
    assert await sender.answer_to(asked, "comm.file") == UNKNOWN


@pytest.mark.parametrize("wrong", ["another id", "another op", "an event", "an id of no offer yet"])
async def test_what_does_not_match_by_id_and_op_is_no_answer(
    patient: Hub, peers: Peers, way: str, wrong: str
) -> None:
    link = await peers.link(at(patient, way), "odd")
    sender = await peers.client(patient.unix)
    asked = await sender.send("comm.file", mail("h"))
    offer = await link.offer()
    match wrong:
        case "another id":
            await link.peer.send("comm.file", OK, frame_id=max(offer.id - 1, 0), kind="res")
        case "an id of no offer yet":
            await link.peer.send("comm.file", OK, frame_id=LONGEST_ID, kind="res")
        case "another op":
            await link.answer(offer, OK, op="ping")
        case _:
            await link.peer.send("comm.file", OK, frame_id=offer.id, kind="evt")
    await link.answer(offer, STALE)
    assert await sender.answer_to(asked, "comm.file") == STALE


async def test_a_link_cannot_answer_for_another(patient: Hub, peers: Peers) -> None:
    honest, client = await peers.link(patient.ws, "honest"), await peers.client(patient.unix, "liar")
    sender = await peers.client(patient.unix)
    asked = await sender.send("comm.file", mail("h"))
    offer = await honest.offer()
    await client.send("comm.file", OK, frame_id=offer.id, kind="res")
    assert await client.ask("ping", {}) == OK
    await honest.answer(offer, STALE)
    assert await sender.answer_to(asked, "comm.file") == STALE


NEITHER: Json = {"error": "the daemon on odd answered neither ok nor a refusal", "code": "file_failed"}


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ({"ok": True, "error": "no", "code": "c"}, {"error": "no", "code": "c"}),
        ({"ok": True, "error": "no"}, {"error": "no", "code": "file_failed"}),
        ({"error": "no", "code": 7}, {"error": "no", "code": "file_failed"}),
        ({"ok": True, "error": ""}, OK),
        ({"ok": True, "error": {"deep": 1}}, OK),
        ({"ok": 1}, NEITHER),
        ({"ok": False}, NEITHER),
        ({"error": "", "code": "not_here"}, NEITHER),
        ({}, NEITHER),
    ],
)
async def test_how_an_answer_is_read(patient: Hub, peers: Peers, answer: Json, verdict: Json) -> None:
    link = await peers.link(patient.ws, "odd")
    sender = await peers.client(patient.unix)
    asked = await sender.send("comm.file", mail("h"))
    await link.answer(await link.offer(), answer)
    assert await sender.answer_to(asked, "comm.file") == verdict


@pytest.mark.parametrize(
    "junk", [b"junk", b"{}", b"[1]", b'{"v":1,"id":1,"kind":"res","op":"x","payload":1}']
)
async def test_garbage_on_a_line_link_ends_it_and_the_offer_goes_on_without_it(
    patient: Hub, peers: Peers, junk: bytes
) -> None:
    link = await peers.link(patient.unix, "broken")
    sender = await peers.client(patient.unix)
    asked = await sender.send("comm.file", mail("h"))
    await link.offer()
    await link.peer.send_text(junk)
    frame = await link.peer.next()
    assert (frame["kind"], frame["id"], frame["op"]) == ("res", 0, "bad_frame")
    assert frame["payload"]["code"] == "bad_frame"
    assert await link.peer.ended() is None
    assert await sender.answer_to(asked, "comm.file") == no_answer("broken", "601s")
    patient.fleet.wait_linked(HUB, [])
    assert patient.status()["closed"][-1]["reason"] == "bad_frame"


async def test_garbage_on_a_websocket_link_is_answered_and_the_link_stays(patient: Hub, peers: Peers) -> None:
    link = await peers.link(patient.ws, "noisy")
    sender = await peers.client(patient.unix)
    asked = await sender.send("comm.file", mail("h"))
    offer = await link.offer()
    for junk in (b"junk", b"", b" ", b'{"v":2}', b"\xef\xbb\xbf{}"):
        await link.peer.send_text(junk)
        frame = await link.peer.next()
        assert (frame["kind"], frame["id"], frame["op"]) == ("res", 0, "bad_frame")
        assert frame["payload"]["code"] == "bad_frame"
    await link.answer(offer, OK)
    assert await sender.answer_to(asked, "comm.file") == OK


async def test_what_is_no_text_message_of_the_cap_ends_a_websocket_link(patient: Hub, peers: Peers) -> None:
    for message, code in ((b"bytes", 1003), ("x" * (CAP + 1), 1009)):
        link: Any = await peers.link(patient.ws, "binary")
        sender = await peers.client(patient.unix)
        asked = await sender.send("comm.file", mail("h"))
        await link.offer()
        await link.peer.connection.send(message)
        assert await link.peer.ended() == code
        assert await sender.answer_to(asked, "comm.file") == no_answer("binary", "601s")


async def test_the_verdict_comes_when_the_last_link_that_was_waited_for_drops(
    patient: Hub, peers: Peers, way: str
) -> None:
    links = {host: await peers.link(at(patient, way), host) for host in ("a", "b", "c")}
    sender = await peers.client(patient.unix)
    asked = await sender.send("comm.file", mail("h"))
    offers = {host: await link.offer() for host, link in links.items()}
    await links["c"].peer.close()
    await links["b"].answer(offers["b"], NOT_HERE)
    await links["a"].peer.close()
    assert await sender.answer_to(asked, "comm.file") == no_answer("a, c", "601s")
    asked = await sender.send("comm.file", mail("h"))
    await links["b"].answer(await links["b"].offer(), NOT_HERE)
    assert await sender.answer_to(asked, "comm.file") == UNKNOWN, "only b is left: it is asked alone"


async def test_a_link_that_comes_while_an_offer_is_out_is_not_asked(patient: Hub, peers: Peers) -> None:
    first = await peers.link(patient.ws, "first")
    sender = await peers.client(patient.unix)
    asked = await sender.send("comm.file", mail("h"))
    offer = await first.offer()
    second = await peers.link(patient.ws, "second")
    assert await second.offers_so_far() == []
    await first.answer(offer, NOT_HERE)
    assert await sender.answer_to(asked, "comm.file") == UNKNOWN


@pytest.mark.parametrize("fill", ["x", "é", "漢", "\n", "😀"])
async def test_a_sentence_that_would_pass_the_cap_is_cut_at_a_character_and_the_code_stays(
    patient: Hub, peers: Peers, fill: str
) -> None:
    link = await peers.link(patient.ws, "wordy")
    sender = await peers.client(patient.ws)
    await sender.send("comm.file", mail("h"), frame_id=LONGEST_ID)
    offer = await link.offer()
    empty = len(encode("comm.file", {"error": "", "code": "made_up"}, frame_id=offer.id, kind="res"))
    count = (CAP - empty) // (len(fill.encode()) if fill != "\n" else 2)
    await link.answer(offer, {"error": fill * count, "code": "made_up"})
    verdict = await sender.answer_to(LONGEST_ID, "comm.file")
    assert verdict["code"] == "made_up"
    assert verdict["error"].endswith("…")
    kept = verdict["error"][:-1]
    assert kept == fill * len(kept)
    size = len(encode("comm.file", verdict, frame_id=LONGEST_ID, kind="res"))
    assert CAP - 8 < size <= CAP, "no more is cut than must be"


async def test_a_code_as_long_as_a_frame_still_brings_the_sender_a_refusal(
    patient: Hub, peers: Peers
) -> None:
    link = await peers.link(patient.unix, "wordy")
    sender = await peers.client(patient.unix)
    await sender.send("comm.file", mail("h"), frame_id=LONGEST_ID)
    offer = await link.offer()
    empty = len(encode("comm.file", {"error": "no", "code": ""}, frame_id=offer.id, kind="res"))
    await link.answer(offer, {"error": "no", "code": "c" * (CAP - empty)})
    verdict = await sender.answer_to(LONGEST_ID, "comm.file")
    assert verdict["error"]
    assert await sender.ask("ping", {}) == OK


async def test_a_link_that_says_hello_twice_is_closed_unanswered(
    patient: Hub, peers: Peers, way: str
) -> None:
    link = await peers.link(at(patient, way), "again")
    sender = await peers.client(patient.unix)
    asked = await sender.send("comm.file", mail("h"))
    await link.offer()
    await link.peer.send("hello", {"client_id": "x"}, frame_id=77)
    assert await link.peer.ended() in {None, 1000}
    assert await sender.answer_to(asked, "comm.file") == no_answer("again", "601s")
