"""Frames as bytes on real sockets: cuts, the cap to the byte, and what is no frame (WIRE sections 1, 2)."""

import json
import sys

import pytest

from tests.end_to_end.conftest import Hub
from tests.support.peers import CAP, NOT_HERE, OK, Json, Peers, encode, hello, mail, mail_of_size

assert sys.platform != "win32"  # conftest.py leaves this folder out there


OWN = "notes"


@pytest.fixture(autouse=True)
def _own_handle(patient: Hub) -> None:
    patient.box.register(OWN)


def last_line(hub: Hub) -> Json:
    return hub.box.inbox(OWN)[-1]


async def test_a_stream_cut_at_any_byte_is_the_same_stream(patient: Hub, peers: Peers) -> None:
    """The hub has read the first part before the second is sent: it answered somebody else in between."""
    other = await peers.client(patient.unix)
    stream = (
        encode("hello", hello("é")) + b"\n\n" + encode("comm.file", mail(OWN, "漢😀"), frame_id=2) + b"\n"
    )
    for cut in range(len(stream) + 1):
        peer = await peers.knock(patient.unix)
        await peer.send_bytes(stream[:cut])
        assert await other.ask("ping", {}) == OK
        await peer.send_bytes(stream[cut:])
        assert "session_id" in await peer.answer_to(1, "hello")
        assert await peer.answer_to(2, "comm.file") == OK
        await peer.close()
    assert [line["msg"] for line in patient.box.inbox(OWN)[-len(stream) :]] == ["漢😀"] * len(stream)


async def test_a_stream_may_come_byte_by_byte(patient: Hub, peers: Peers) -> None:
    other, peer = await peers.client(patient.unix), await peers.knock(patient.unix)
    for number, byte in enumerate(encode("hello", hello()) + b"\n" + encode("ping", {}, frame_id=2) + b"\n"):
        await peer.send_bytes(bytes([byte]))
        if number % 8 == 0:
            await other.ask("ping", {})
    assert await peer.answer_to(2, "ping") == OK


@pytest.mark.parametrize("fill", ["x", "é", "😀"])
async def test_a_line_of_the_cap_is_a_frame_and_its_inbox_line_is_whole(
    patient: Hub, peers: Peers, fill: str
) -> None:
    for endpoint in patient.both:
        sender = await peers.client(endpoint)
        request = mail_of_size(CAP, OWN, frame_id=7, fill=fill)
        await sender.send_text(request)
        assert await sender.answer_to(7, "comm.file") == OK
        assert last_line(patient)["msg"] == json.loads(request)["payload"]["text"]


async def test_one_byte_more_is_answered_bad_frame_and_ends_a_line_connection(
    patient: Hub, peers: Peers
) -> None:
    before = len(patient.box.inbox(OWN))
    sender = await peers.client(patient.unix)
    await sender.send_text(mail_of_size(CAP + 1, OWN))
    frame = await sender.next()
    assert (frame["kind"], frame["id"], frame["op"], frame["payload"]["code"]) == (
        "res", 0, "bad_frame", "bad_frame",
    )  # fmt: skip
    assert await sender.ended() is None
    assert len(patient.box.inbox(OWN)) == before


async def test_a_line_that_never_ends_is_refused_at_the_cap(patient: Hub, peers: Peers) -> None:
    sender = await peers.client(patient.unix)
    await sender.send_bytes(b"x" * (CAP + 1))
    assert (await sender.next())["op"] == "bad_frame"
    assert await sender.ended() is None


async def test_one_byte_more_in_a_websocket_closes_1009(patient: Hub, peers: Peers) -> None:
    sender = await peers.client(patient.ws)
    await sender.send_text(mail_of_size(CAP + 1, OWN))
    assert await sender.ended() == 1009


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("way", ["unix", "ws"])
async def test_a_text_whose_offer_would_pass_the_cap_is_too_large_and_never_offered(
    patient: Hub, peers: Peers, linked: bool, way: str
) -> None:
    link = await peers.link(patient.ws, "box") if linked else None
    sender = await peers.client(patient.daemon.endpoint(way))
    await sender.send_text(mail_of_size(CAP, "elsewhere", frame_id=3))
    verdict = await sender.answer_to(3, "comm.file")
    assert verdict["code"] == "too_large"
    assert str(CAP) in verdict["error"]
    if link is not None:
        assert await link.offers_so_far() == []
    # The same text to a handle of the hub's own folder needs no offer.
    await sender.send_text(mail_of_size(CAP, OWN, frame_id=4))
    assert await sender.answer_to(4, "comm.file") == OK


async def test_the_largest_text_that_can_be_offered_is_offered_whole(patient: Hub, peers: Peers) -> None:
    """The offer spells out two members that the sender left out, and its id may be the longest."""
    longer = len(encode("comm.file", mail("", broadcast=False, forwarded=True), frame_id=2**63 - 1)) - len(
        encode("comm.file", mail(""), frame_id=3)
    )
    link, sender = await peers.link(patient.unix, "box"), await peers.client(patient.unix)
    request = mail_of_size(CAP - longer, "elsewhere", frame_id=3)
    await sender.send_text(request)
    offer = await link.offer()
    assert offer.payload["text"] == json.loads(request)["payload"]["text"]
    await link.answer(offer, NOT_HERE)
    assert (await sender.answer_to(3, "comm.file"))["code"] == "unknown_handle"
    await sender.send_text(mail_of_size(CAP - longer + 1, "elsewhere", frame_id=4))
    assert (await sender.answer_to(4, "comm.file"))["code"] == "too_large"


def ping_with(payload: bytes) -> bytes:
    return b'{"v":1,"id":5,"kind":"req","op":"ping","payload":' + payload + b"}"


PING = ping_with(b"{}")
NO_FRAMES = {
    "a lone surrogate": ping_with(b'{"x":"\\ud800"}'),
    "a lone surrogate as a name": ping_with(b'{"\\udfff":1}'),
    "NaN": ping_with(b'{"x":NaN}'),
    "Infinity": ping_with(b'{"x":-Infinity}'),
    "a number out of range": ping_with(b'{"x":1e999}'),
    "a member named twice": ping_with(b'{"x":1,"x":1}'),
    "a second document": PING + b" {}",
    "a byte-order mark": b"\xef\xbb\xbf" + PING,
    "a blank": b" ",
    "a CR": b"\r",
    "an array": b"[]",
    "nesting past 127": ping_with(b"[" * 127 + b"]" * 127).replace(b'"payload":[', b'"payload":{"x":[')
    + b"}",
    "version 2": PING.replace(b'"v":1', b'"v":2'),
    "version true": PING.replace(b'"v":1', b'"v":true'),
    "id past the range": PING.replace(b'"id":5', b'"id":9223372036854775808'),
    "a negative id": PING.replace(b'"id":5', b'"id":-1'),
    "an id of 1.0": PING.replace(b'"id":5', b'"id":1.0'),
    "no op": PING.replace(b'"op":"ping",', b""),
    "an op of 65 characters": PING.replace(b'"ping"', b'"' + b"p" * 65 + b'"'),
}


@pytest.mark.parametrize("name", NO_FRAMES)
async def test_what_is_no_frame(patient: Hub, peers: Peers, name: str) -> None:
    """A line connection ends on it, a WebSocket goes on."""
    for endpoint in patient.both:
        peer = await peers.client(endpoint)
        await peer.send_all(NO_FRAMES[name], PING)
        frame = await peer.next()
        assert (frame["kind"], frame["id"], frame["op"]) == ("res", 0, "bad_frame")
        assert frame["payload"]["code"] == "bad_frame"
        if endpoint.startswith("ws:"):
            assert await peer.answer_to(5, "ping") == OK
        else:
            assert await peer.ended() is None


async def test_invalid_utf_8(patient: Hub, peers: Peers) -> None:
    line = await peers.client(patient.unix)
    await line.send_text(ping_with(b'{"x":"\xff"}'))
    assert (await line.next())["op"] == "bad_frame"
    web_socket = await peers.client(patient.ws)
    await web_socket.send_text(ping_with(b'{"x":"\xff"}'))
    assert await web_socket.ended() == 1007


async def test_what_is_still_a_frame(patient: Hub, peers: Peers) -> None:
    for text in (
        PING + b"\r",
        b" \t" + PING + b" ",
        ping_with(b'{"x":' + b"[" * 125 + b"]" * 125 + b"}"),
        PING.replace(b'"id":5', b'"future":[{}],"id":5'),
        ping_with(b'{"x":"\\ud83d\\ude00\\u0000"}'),
    ):
        for endpoint in patient.both:
            peer = await peers.client(endpoint)
            await peer.send_text(text)
            assert await peer.answer_to(5, "ping") == OK


async def test_an_empty_line_is_skipped(patient: Hub, peers: Peers) -> None:
    peer = await peers.knock(patient.unix)
    await peer.send_bytes(b"\n\n" + encode("hello", hello()) + b"\n\n\n" + PING + b"\n\n")
    assert "session_id" in await peer.answer_to(1, "hello")
    assert await peer.answer_to(5, "ping") == OK


async def test_events_and_answers_nobody_asked_for_are_ignored(patient: Hub, peers: Peers) -> None:
    for endpoint in patient.both:
        peer = await peers.client(endpoint)
        for kind, frame_id in (("evt", 0), ("evt", 3), ("res", 3), ("res", 0)):
            await peer.send("ping", {}, frame_id=frame_id, kind=kind)
        asked = await peer.send("ping", {})
        frame = await peer.next()
        assert (frame["kind"], frame["id"]) == ("res", asked)


async def test_a_blob_ends_a_line_connection_and_means_nothing_in_a_websocket(
    patient: Hub, peers: Peers
) -> None:
    line = await peers.client(patient.unix)
    asked = await line.send("ping", {"blob": 5})
    assert (await line.answer_to(asked, "ping"))["code"] == "bad_request"
    assert await line.ended() is None
    first = await peers.knock(patient.unix)
    assert (await first.ask("hello", hello(blob=None)))["code"] == "unauthenticated"
    assert await first.ended() is None
    web_socket = await peers.client(patient.ws, blob=3)
    assert await web_socket.ask("ping", {"blob": 5}) == OK
