"""What wire/transports/ws.py uses of the `websockets` library below its public coroutines.

Each test pins one thing that no documentation promises. When an upgrade of the library fails here, look at
ws.py before anything else.
"""

import asyncio
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.connection import Connection
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import Protocol, State
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from wire.limits import MAX_FRAME_BYTES

UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class FakeTransport(asyncio.Transport):
    """Takes what is written and remembers it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.ended = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        raise AssertionError("the library paused reading; only the session may")

    def resume_reading(self) -> None:
        raise AssertionError("the library resumed reading; only the session may")


class Listening(Connection):
    """A connection that remembers its events, as `_Tapped` takes them."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.heard: list[Any] = []

    def process_event(self, event: Any) -> None:
        self.heard.append(event)


def opened(protocol: Protocol) -> tuple[Listening, FakeTransport]:
    connection, transport = Listening(protocol), FakeTransport()
    connection.connection_made(transport)
    return connection, transport


def server_side() -> tuple[Listening, FakeTransport]:
    protocol = ServerProtocol(max_size=MAX_FRAME_BYTES)
    protocol.receive_data(UPGRADE)
    (request,) = protocol.events_received()
    assert isinstance(request, Request)
    protocol.send_response(protocol.accept(request))
    assert len(protocol.data_to_send()) == 1
    assert protocol.state is State.OPEN
    return opened(protocol)


def client_side() -> tuple[Listening, FakeTransport]:
    protocol = ClientProtocol(parse_uri("ws://x/"))
    protocol.state = State.OPEN
    return opened(protocol)


def masked(opcode: Opcode, data: bytes, *, fin: bool = True) -> bytes:
    return Frame(opcode, data, fin).serialize(mask=True, extensions=[])


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, MAX_FRAME_BYTES])
def test_a_server_s_frame_may_be_serialized_apart_and_is_what_the_protocol_would_write(size: int) -> None:
    protocol = ServerProtocol()
    protocol.state = State.OPEN
    protocol.send_text(b"y" * size)
    apart = Frame(Opcode.TEXT, b"y" * size).serialize(mask=False, extensions=[])
    assert b"".join(protocol.data_to_send()) == apart
    assert type(apart) is bytes


async def test_the_transport_is_an_attribute_once_connection_made_has_returned() -> None:
    connection, transport = server_side()
    assert connection.transport is transport


async def test_send_text_and_send_data_write_one_masked_frame_at_once() -> None:
    connection, transport = client_side()
    connection.protocol.send_text(b"hi")
    assert transport.written == []
    connection.send_data()
    assert len(transport.written) == 1
    assert transport.written[0][:2] == b"\x81\x82"


async def test_send_ping_writes_a_ping_and_its_answer_needs_nobody_who_waits() -> None:
    connection = Connection(ServerProtocol())
    connection.protocol.state = State.OPEN
    transport = FakeTransport()
    connection.connection_made(transport)
    connection.protocol.send_ping(b"")
    connection.send_data()
    assert transport.written == [b"\x89\x00"]
    connection.data_received(masked(Opcode.PONG, b""))
    assert connection.protocol.state is State.OPEN


async def test_each_event_is_given_to_process_event_in_order_and_as_a_frame() -> None:
    connection, _ = server_side()
    connection.data_received(
        masked(Opcode.TEXT, b"a", fin=False) + masked(Opcode.PING, b"p") + masked(Opcode.CONT, b"b")
    )
    heard = [(event.opcode, bytes(event.data), event.fin) for event in connection.heard]
    assert heard == [(Opcode.TEXT, b"a", False), (Opcode.PING, b"p", True), (Opcode.CONT, b"b", True)]
    assert all(isinstance(event, Frame) for event in connection.heard)


async def test_a_ping_is_answered_before_its_event_is_given() -> None:
    connection, transport = server_side()
    connection.data_received(masked(Opcode.PING, b"p"))
    assert transport.written == [b"\x8a\x01p"]


async def test_a_frame_that_never_reaches_the_library_s_queue_is_not_counted_by_it() -> None:
    # FakeTransport would raise if the library's own flow control woke up.
    connection, _ = server_side()
    for _ in range(1000):
        connection.data_received(masked(Opcode.TEXT, b"x"))
    assert len(connection.heard) == 1000


async def test_text_frames_are_given_as_they_came_with_no_look_at_utf_8() -> None:
    connection, _ = server_side()
    connection.data_received(masked(Opcode.TEXT, b"\xff"))
    assert bytes(connection.heard[0].data) == b"\xff"
    assert connection.protocol.state is State.OPEN


async def test_send_close_writes_a_close_frame_and_the_connection_is_expected_to_end() -> None:
    connection, transport = server_side()
    assert not connection.protocol.close_expected()
    connection.protocol.send_close(4001, "why")
    connection.send_data()
    assert transport.written == [b"\x88\x05\x0f\xa1why"]
    assert connection.protocol.state is State.CLOSING
    assert connection.protocol.close_expected()
    assert connection.protocol.close_rcvd is None
    assert connection.protocol.close_code is None


async def test_a_peer_s_close_is_echoed_and_its_code_and_words_are_kept() -> None:
    connection, transport = server_side()
    connection.data_received(masked(Opcode.CLOSE, b"\x03\xf4bye"))
    assert transport.written == [b"\x88\x05\x03\xf4bye"]
    assert transport.ended
    assert connection.protocol.close_expected()
    connection.connection_lost(None)
    assert (connection.protocol.state, connection.protocol.close_code) == (State.CLOSED, 1012)
    assert connection.protocol.close_reason == "bye"


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"\x81\xff" + (MAX_FRAME_BYTES + 1).to_bytes(8, "big"), 1009),
        (b"\x83\x80\0\0\0\0", 1002),
    ],
)
async def test_what_the_library_refuses_itself_is_a_close_of_ours_without_one_received(
    sent: bytes, code: int
) -> None:
    connection, _ = server_side()
    connection.data_received(sent)
    assert connection.protocol.close_rcvd is None
    assert connection.protocol.close_sent is not None
    assert connection.protocol.close_sent.code == code
    assert connection.protocol.close_expected()


async def test_a_connection_that_is_cut_has_code_1006_and_sent_no_close() -> None:
    connection, _ = server_side()
    connection.connection_lost(None)
    assert connection.protocol.close_code == 1006
    assert connection.protocol.close_sent is None


async def test_the_first_event_of_a_server_s_connection_is_the_request_and_the_rest_are_frames() -> None:
    seen: list[Any] = []

    class Accepted(ServerConnection):
        def process_event(self, event: Any) -> None:
            seen.append(event)
            super().process_event(event)

    async with _served(Accepted) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        writer.write(UPGRADE)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        writer.write(masked(Opcode.TEXT, b"x") + masked(Opcode.CLOSE, b""))
        await reader.read()
        writer.close()
    assert isinstance(seen[0], Request)
    assert [event.opcode for event in seen[1:]] == [Opcode.TEXT, Opcode.CLOSE]


async def test_a_server_s_connection_is_made_before_its_upgrade_and_aborting_it_there_is_harmless() -> None:
    made = []

    class Accepted(ServerConnection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            made.append(self.protocol.state)
            self.transport.abort()

    async with _served(Accepted) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        with pytest.raises(ConnectionResetError):
            writer.write(UPGRADE)
            if await reader.read() == b"":
                raise ConnectionResetError
        writer.close()
    assert made == [State.CONNECTING]


async def test_closing_the_inner_server_stops_accepting_and_leaves_connections_alone() -> None:
    async with _served(ServerConnection) as server:
        address = server.sockets[0].getsockname()[:2]
        reader, writer = await asyncio.open_connection(*address)
        writer.write(UPGRADE)
        await reader.readuntil(b"\r\n\r\n")
        server.server.close()
        with pytest.raises(OSError):
            await asyncio.open_connection(*address)
        writer.write(masked(Opcode.PING, b"p"))
        assert await reader.readexactly(3) == b"\x8a\x01p"
        writer.close()


def test_the_classes_that_are_subclassed_share_one_base_and_errors_one_root() -> None:
    assert issubclass(ServerConnection, Connection)
    assert issubclass(ClientConnection, Connection)
    assert issubclass(InvalidStatus, InvalidHandshake)
    assert not issubclass(InvalidURI, InvalidHandshake)


def _served(accepted: type[ServerConnection]) -> Server:
    async def until_closed(connection: ServerConnection) -> None:
        await connection.wait_closed()

    return serve(
        until_closed, "127.0.0.1", 0, create_connection=accepted, compression=None, ping_interval=None
    )
