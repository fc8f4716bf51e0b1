"""One connection's conversation over a WebSocket: WIRE sections 1 to 4 and 6."""

import asyncio
import contextlib
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.typing import Subprotocol

from tests.wire.support import PATIENT_S, Served, hear, hello_line, line, serving, text
from wire.closing import CloseReason, reason_of_close_code, websocket_close_code
from wire.connection import Outgoing
from wire.limits import MAX_FRAME_BYTES


async def closed_with(client: ClientConnection) -> int:
    """Return the close code that the server's side gave, once the connection has ended."""
    async with asyncio.timeout(PATIENT_S):
        with contextlib.suppress(ConnectionClosed):
            while True:
                await client.recv()
        await client.wait_closed()
    return client.protocol.close_rcvd.code if client.protocol.close_rcvd is not None else 1006


# The hello


async def test_hello_requests_and_answers_are_text_messages(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.websocket()
        await client.send(hello_line().decode())
        assert (await hear(client))["op"] == "hello"
        await client.send(text("echo", {"t": "é漢😀\n"}).decode())
        assert (await hear(client))["payload"] == {"ok": True, "t": "é漢😀\n"}


async def test_a_refused_hello_is_answered_and_then_closed(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.websocket()
        await client.send(text("ping").decode())
        assert (await hear(client))["payload"]["code"] == "unauthenticated"
        assert await closed_with(client) == CloseCode.POLICY_VIOLATION


async def test_a_websocket_that_says_no_hello_is_cut_without_a_close_frame(folder: Path) -> None:
    async with serving(folder, hello_s=0.1) as served:
        client = await served.websocket()
        assert await closed_with(client) == CloseCode.ABNORMAL_CLOSURE
        assert await served.service.wait_ended() is CloseReason.HELLO_TIMEOUT


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n"])
async def test_a_tcp_connection_that_never_upgrades_is_cut_at_the_same_deadline(
    folder: Path, sent: bytes
) -> None:
    async with serving(folder, hello_s=0.05) as served:
        port = int(served.url.rstrip("/").rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        assert await served.service.wait_ended() is CloseReason.HELLO_TIMEOUT
        writer.close()


async def test_a_bad_frame_is_answered_before_and_after_the_hello_and_the_connection_stays(
    folder: Path,
) -> None:
    async with serving(folder) as served:
        client = await served.websocket()
        for _ in range(2):
            await client.send("x")
            frame = await hear(client)
            assert (frame["id"], frame["kind"], frame["op"]) == (0, "res", "bad_frame")
        await client.send(hello_line().decode())
        assert (await hear(client))["op"] == "hello"
        await client.send("{}")
        assert (await hear(client))["payload"]["code"] == "bad_frame"
        await client.send(text("ping").decode())
        assert (await hear(client))["payload"] == {"ok": True}


async def test_the_hello_s_deadline_runs_on_behind_a_bad_frame(folder: Path) -> None:
    async with serving(folder, hello_s=0.1) as served:
        client = await served.websocket()
        await client.send("x")
        assert (await hear(client))["op"] == "bad_frame"
        await closed_with(client)
        assert await served.service.wait_ended() is CloseReason.HELLO_TIMEOUT


async def test_an_empty_text_message_is_a_bad_frame(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.greeted_websocket()
        await client.send("")
        assert (await hear(client))["op"] == "bad_frame"


async def test_a_message_of_two_lines_is_no_frame_and_one_line_end_is_a_blank(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.greeted_websocket()
        await client.send((line("ping") + line("ping")).decode())
        assert (await hear(client))["op"] == "bad_frame"
        await client.send(line("ping").decode())
        assert (await hear(client))["op"] == "ping"


async def test_a_blob_is_ignored_like_any_unknown_member(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.websocket()
        await client.send(hello_line(blob=5).decode())
        assert "error" not in (await hear(client))["payload"]
        await client.send(text("ping", {"blob": None}).decode())
        assert (await hear(client))["payload"] == {"ok": True}


async def test_a_second_hello_is_not_answered_but_what_was_asked_before_it_is(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.greeted_websocket()
        for message in (text("slow", {"n": 1}), hello_line(), text("ping")):
            await client.send(message.decode())
        await served.service.wait_begun(1)
        served.service.release.set()
        assert (await hear(client))["payload"] == {"ok": True, "n": 1}
        assert await closed_with(client) == CloseCode.NORMAL_CLOSURE
        assert await served.service.wait_ended() is CloseReason.SECOND_HELLO


# Messages


async def test_a_binary_message_closes_1003(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.greeted_websocket()
        await client.send(text("ping"))  # bytes go as a binary message
        assert await closed_with(client) == CloseCode.UNSUPPORTED_DATA
        assert await served.service.wait_ended() is CloseReason.BAD_MESSAGE


@pytest.mark.parametrize("message", [b'"\xff"', b'"\xed\xa0\x80"', b'"\xc0\xaf"', b'"\xe2\x82'])
async def test_a_text_message_that_is_not_utf_8_closes_1007(folder: Path, message: bytes) -> None:
    async with serving(folder) as served:
        client = await served.greeted_websocket()
        await client.send(message, text=True)
        assert await closed_with(client) == CloseCode.INVALID_DATA
        assert await served.service.wait_ended() is CloseReason.BAD_MESSAGE


async def test_a_message_of_the_cap_is_a_frame_and_one_byte_more_closes_1009(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.greeted_websocket()
        room = MAX_FRAME_BYTES - len(text("ping", {"t": ""}))
        await client.send(text("ping", {"t": "y" * room}).decode())
        assert (await hear(client))["payload"] == {"ok": True}
        with contextlib.suppress(ConnectionClosed):
            await client.send(text("ping", {"t": "y" * (room + 1)}).decode())
        assert await closed_with(client) == CloseCode.MESSAGE_TOO_BIG
        assert await served.service.wait_ended() is CloseReason.BAD_MESSAGE


async def test_fragments_that_pass_the_cap_together_close_1009(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.greeted_websocket()
        with contextlib.suppress(ConnectionClosed):
            await client.send(["y" * 600_000, "y" * 600_000])
        assert await closed_with(client) == CloseCode.MESSAGE_TOO_BIG


async def test_a_fragmented_text_message_is_one_frame_wherever_it_is_cut(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.greeted_websocket()
        message = text("echo", {"t": "é漢😀"}).decode()
        raw = message.encode()
        for fragments in (list(message), [message, ""], ["", "", message], [message[:9], "", message[9:]]):
            await client.send(fragments)
            assert (await hear(client))["payload"]["t"] == "é漢😀"
        await client.send([raw[at : at + 1] for at in range(len(raw))], text=True)  # through characters, too
        assert (await hear(client))["payload"]["t"] == "é漢😀"


async def test_a_ping_between_fragments_is_answered_and_spoils_nothing(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.greeted_websocket()
        message = text("echo", {"n": 1}).decode()

        async def fragments() -> Any:
            yield message[:10]
            async with asyncio.timeout(PATIENT_S):
                await (await client.ping())
            yield message[10:]

        await client.send(fragments())
        assert (await hear(client))["payload"] == {"ok": True, "n": 1}


async def test_a_breach_of_the_websocket_protocol_ends_the_connection_as_a_bad_message(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.greeted_websocket()
        client.transport.write(b"\x83\x80\0\0\0\0")  # an opcode that RFC 6455 does not know
        assert await closed_with(client) == CloseCode.PROTOCOL_ERROR
        assert await served.service.wait_ended() is CloseReason.BAD_MESSAGE


# The upgrade


@pytest.mark.parametrize(
    ("offered", "accepted"),
    [(None, None), (["sot-comm"], "sot-comm"), (["other", "sot-comm"], "sot-comm"), (["other"], None)],
)
async def test_the_subprotocol_is_accepted_where_it_is_offered_and_absent_where_not(
    folder: Path, offered: list[str] | None, accepted: str | None
) -> None:
    async with serving(folder) as served:
        options = {} if offered is None else {"subprotocols": [Subprotocol(name) for name in offered]}
        client = await served.websocket(**options)
        assert client.subprotocol == accepted
        await client.send(hello_line().decode())
        assert (await hear(client))["op"] == "hello"


async def test_no_compression_is_agreed_on_and_no_version_told(folder: Path) -> None:
    from websockets.asyncio.client import connect

    async with serving(folder) as served, connect(served.url, proxy=None, compression="deflate") as client:
        assert client.protocol.extensions == []
        assert client.response is not None
        assert "Sec-WebSocket-Extensions" not in client.response.headers
        assert "Server" not in client.response.headers


async def test_pings_are_answered(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.websocket()
        async with asyncio.timeout(PATIENT_S):
            await (await client.ping(b"before the hello"))
            await client.send(hello_line().decode())
            await hear(client)
            await (await client.ping(b"after it"))


async def test_a_request_that_is_no_upgrade_is_answered_by_http_and_ended(folder: Path) -> None:
    async with serving(folder) as served:
        port = int(served.url.rstrip("/").rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(PATIENT_S):
            assert (await reader.read()).startswith(b"HTTP/1.1 426 ")
        writer.close()
        await served.service.wait_ended()
        assert dict(served.server.sessions) == {}


async def test_two_listeners_on_port_0_get_ports_of_their_own_and_say_so(folder: Path) -> None:
    async with serving(folder) as served:
        other = await served.server.listen_websocket("127.0.0.1", 0)
        assert other != served.url
        with pytest.raises(OSError):
            await served.server.listen_websocket("127.0.0.1", int(other.rstrip("/").rpartition(":")[2]))


async def test_an_ipv6_listener_is_named_in_brackets(folder: Path) -> None:
    async with serving(folder) as served:
        try:
            url = await served.server.listen_websocket("::1", 0)
        except OSError:
            pytest.skip("no IPv6 loopback here")
        assert url.startswith("ws://[::1]:")
        served.url = url
        await served.greeted_websocket()
        assert served.service.sessions[0].connection.peer.startswith("[::1]:")


# Requests


async def test_sixty_four_requests_are_served_at_once_and_the_rest_in_order_behind_them(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.greeted_websocket()
        for n in range(1, 71):
            await client.send(text("slow", {"n": n}, frame_id=n).decode())
        await served.service.wait_begun(64)
        other = await served.greeted_websocket()
        await other.send(text("ping").decode())
        await hear(other)
        assert served.service.begun == list(range(1, 65))
        await served.service.release_one(7)
        assert (await hear(client))["id"] == 7
        await served.service.wait_begun(65)
        assert served.service.begun == list(range(1, 66))
        served.service.release.set()
        assert sorted([(await hear(client))["id"] for _ in range(69)]) == [n for n in range(1, 71) if n != 7]


async def test_a_connection_whose_requests_are_held_back_can_still_be_closed_properly(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.greeted_websocket()
        for n in range(100):
            await client.send(text("slow", {"n": n}, frame_id=n).decode())
        await served.service.wait_begun(64)
        served.service.sessions[0].close(CloseReason.SUPERSEDED, "a newer link")
        assert await closed_with(client) == 4001
        assert client.close_reason == "a newer link"
        assert await served.service.wait_ended() is CloseReason.SUPERSEDED


async def test_a_client_that_is_gone_in_the_middle_of_a_request_leaves_nothing_behind(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(folder) as served:
        client = await served.greeted_websocket()
        await client.send(text("slow", {"n": 1}).decode())
        await served.service.wait_begun(1)
        client.transport.abort()
        await served.service.wait_ended()
        served.service.release.set()
        await served.service.until(lambda: len(served.service.finished) == 1)
        assert (dict(served.server.sessions), served.server.admitted_count) == ({}, 0)
        assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_one_frame_to_many_connections_is_serialized_once(folder: Path) -> None:
    async with serving(folder) as served:
        clients = [await served.greeted_websocket() for _ in range(3)]
        lines = [await served.greeted_line() for _ in range(2)]
        outgoing = Outgoing(text("note", {"t": "é" * 1000}, frame_id=0, kind="evt"))
        shared = []
        for session in served.service.sessions:
            session.send(outgoing)
            shared.append(outgoing.websocket_frame)
        assert shared[0] is not None
        assert all(each is shared[0] for each in shared)
        assert [(await hear(client))["op"] for client in clients] == ["note"] * 3
        assert [(await client.receive())["op"] for client in lines] == ["note"] * 2


# Ends


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (1000, CloseReason.PEER_LEFT),
        (1001, CloseReason.PEER_SHUTDOWN),
        (1012, CloseReason.PEER_SHUTDOWN),
        (1003, CloseReason.BAD_MESSAGE),
        (1007, CloseReason.BAD_MESSAGE),
        (1009, CloseReason.BAD_MESSAGE),
        (4001, CloseReason.SUPERSEDED),
        (4999, CloseReason.PEER_LEFT),
    ],
)
async def test_the_close_code_that_a_peer_gives_is_the_reason_it_ended(
    folder: Path, code: int, reason: CloseReason
) -> None:
    async with serving(folder) as served:
        client = await served.greeted_websocket()
        await client.close(code, "words of the peer")
        await served.service.wait_ended()
        assert served.service.ends == [(reason, "words of the peer")]


async def test_a_close_frame_without_a_code_and_a_cut_connection_have_reasons_of_their_own(
    folder: Path,
) -> None:
    async with serving(folder) as served:
        client = await served.greeted_websocket()
        client.protocol.send_close()
        client.send_data()
        assert await served.service.wait_ended() is CloseReason.PEER_LEFT
        (await served.greeted_websocket()).transport.abort()
        assert await served.service.wait_ended(2) is CloseReason.CONNECTION_LOST


def test_each_reason_that_a_websocket_peer_is_told_has_its_code() -> None:
    told = {reason: websocket_close_code(reason) for reason in CloseReason}
    assert told[CloseReason.SUPERSEDED] == 4001
    assert told[CloseReason.SHUTDOWN] == 1012
    assert reason_of_close_code(told[CloseReason.SUPERSEDED]) is CloseReason.SUPERSEDED
    assert all(code == 4001 or 1000 <= code <= 1013 for code in told.values())


@pytest.mark.parametrize("masked", [b"\x88\x80\0\0\0\0", b"\x83\x80\0\0\0\0", b""])
async def test_a_peer_that_never_ends_its_side_is_dropped_when_the_goodbye_is_over(
    folder: Path, masked: bytes
) -> None:
    """After its own close frame, after a breach of the protocol, and after our close."""
    async with serving(folder, write_s=0.1, write_s_per_mib=0) as served:
        with await _raw_websocket(served) as raw:
            loop = asyncio.get_running_loop()
            if masked:
                await loop.sock_sendall(raw, masked)
            else:
                served.service.sessions[0].close(CloseReason.SUPERSEDED)
            await served.service.wait_ended()
            assert dict(served.server.sessions) == {}


async def test_a_peer_that_takes_nothing_is_dropped_by_the_sweep(folder: Path) -> None:
    async with serving(folder, write_s=0.05, write_s_per_mib=0, sweep_s=0.01) as served:
        with await _raw_websocket(served):
            session = served.service.sessions[0]
            for _ in range(10):
                session.event("much", {"t": "y" * 1_000_000})
            assert session.connection.queued_bytes() > 0
            assert await served.service.wait_ended() is CloseReason.SLOW_PEER


# The keepalive


async def test_a_half_open_link_is_pinged_and_then_given_up(folder: Path) -> None:
    async with serving(folder, ping_s=0.05, pong_s=0.1, sweep_s=0.01) as served:
        with await _raw_websocket(served, role="link") as raw:
            assert await served.service.wait_ended() is CloseReason.KEEPALIVE
            received = b""
            with contextlib.suppress(ConnectionResetError):
                while data := await asyncio.get_running_loop().sock_recv(raw, 65536):
                    received += data
            assert received.count(b"\x89\x00") == 1  # one ping, and no close frame


async def test_a_link_that_answers_pings_stays_however_silent_it_is(folder: Path) -> None:
    async with serving(folder, ping_s=0.02, pong_s=2, sweep_s=0.01) as served:
        client = await served.greeted_websocket(role="link")
        with await _raw_websocket(served, role="link", host="boxb") as raw:
            for _ in range(5):
                await asyncio.get_running_loop().sock_sendall(raw, b"\x8a\x80\0\0\0\0")  # a pong
                await _until_received(raw, b"\x89\x00")  # and the ping that its silence brings
            await client.send(text("ping").decode())
            assert (await hear(client))["payload"] == {"ok": True}
            assert served.service.ends == []


async def _raw_websocket(served: Served, **members: Any) -> socket.socket:
    """Return the socket of an admitted WebSocket client with no library behind it: nobody answers for it."""
    loop = asyncio.get_running_loop()
    raw = socket.socket()
    raw.setblocking(False)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await loop.sock_connect(raw, ("127.0.0.1", int(served.url.rstrip("/").rpartition(":")[2])))
    await loop.sock_sendall(
        raw,
        b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Version: 13\r\n\r\n",
    )
    await _until_received(raw, b"\r\n\r\n")
    greeting = hello_line(**members)
    await loop.sock_sendall(raw, b"\x81\xfe" + len(greeting).to_bytes(2, "big") + b"\0\0\0\0" + greeting)
    await _until_received(raw, json.dumps("clients_connected").encode())
    return raw


async def _until_received(raw: socket.socket, ending: bytes) -> None:
    received = b""
    async with asyncio.timeout(PATIENT_S):
        while ending not in received:
            data = await asyncio.get_running_loop().sock_recv(raw, 65536)
            assert data, f"the connection ended: {received!r}"
            received += data
