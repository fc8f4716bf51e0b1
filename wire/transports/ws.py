"""WebSocket connections (WIRE section 2), on the `websockets` library.

The library keeps the handshake, the framing, ping and pong and the closing handshake. This module takes each
whole text message out of its event stream before it reaches the library's receive queue (no task is woken for
a frame), writes frames without waiting, and aborts peers that the library's own timeouts do not get rid of.
It is the only module that touches the library below its public coroutines; tests/wire/test_websocket_seam.py
pins what it uses.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterator
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.connection import Connection as LibraryConnection
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI
from websockets.frames import Frame as WebSocketFrame
from websockets.frames import Opcode
from websockets.protocol import State
from websockets.typing import Subprotocol

from wire.closing import CloseReason, reason_of_close_code, websocket_close_code
from wire.connection import Connection, FrameSink, Outgoing
from wire.frames import BadFrame, Frame, decode
from wire.inbound import Inbound
from wire.limits import BACKLOG, HELLO_DEADLINE_S, MAX_FRAME_BYTES, MAX_QUEUED_BYTES, SUBPROTOCOL

SinkFactory = Callable[[Connection], FrameSink]

_DATA = frozenset({Opcode.TEXT, Opcode.BINARY, Opcode.CONT})


class WebSocketConnection(Connection):
    """One WebSocket connection as the session sees it; `_Tapped` below is what the library sees."""

    framed = True

    def __init__(self, tapped: "_Tapped", transport_name: str) -> None:
        super().__init__()
        self.transport = transport_name
        self.peer = ""
        self.inbound = Inbound()
        self.last_received = tapped.loop.time()
        self.end: tuple[CloseReason, str] | None = None
        self._tapped = tapped

    def send(self, outgoing: Outgoing) -> None:
        tapped = self._tapped
        if self.end is not None or tapped.protocol.state is not State.OPEN:
            return
        if tapped.masks:
            # A client masks each frame with a key of its own, so nothing can be shared.
            tapped.protocol.send_text(outgoing.text)
            tapped.send_data()
            self.write_watch.sent += len(outgoing.text)
        else:
            frame = outgoing.websocket_frame
            if frame is None:
                frame = WebSocketFrame(Opcode.TEXT, outgoing.text).serialize(mask=False, extensions=[])
                outgoing.websocket_frame = frame
            tapped.transport.write(frame)
            self.write_watch.sent += len(frame)
        if tapped.transport.get_write_buffer_size() > MAX_QUEUED_BYTES:
            self.abort(CloseReason.QUEUE_FULL)

    def queued_bytes(self) -> int:
        return self._tapped.transport.get_write_buffer_size()

    def ping(self) -> bool:
        if self._tapped.protocol.state is State.OPEN:
            self._tapped.protocol.send_ping(b"")
            self._tapped.send_data()
        return True

    def pause_reading(self) -> None:
        self.inbound.paused = True
        if not self._tapped.transport.is_closing():
            self._tapped.transport.pause_reading()

    def resume_reading(self) -> None:
        self.inbound.paused = False
        self.inbound.deliver()
        if not self.inbound.paused and not self._tapped.transport.is_closing():
            self._tapped.transport.resume_reading()

    def close(self, reason: CloseReason, detail: str = "") -> None:
        if self.end is None:
            self.close_with(reason, detail, websocket_close_code(reason))

    def close_with(self, reason: CloseReason, detail: str, code: int) -> None:
        """End with this RFC 6455 close code; a connection that is not open is aborted."""
        self._stop(reason, detail)
        self.bound_the_goodbye()
        tapped = self._tapped
        if tapped.protocol.state is State.OPEN:
            tapped.protocol.send_close(code, detail.encode()[:120].decode(errors="ignore"))
            tapped.send_data()
            self._resume_for_goodbye()
        else:
            tapped.transport.abort()

    def bound_the_goodbye(self) -> None:
        """Abort unless the connection is lost in time: nothing in the library does while nobody awaits it."""
        self._bound_the_goodbye()

    def lost(self, reason: CloseReason, detail: str) -> None:
        """Tell the session, once, that the connection is gone."""
        self.end = self.end or (reason, detail)
        self._goodbye_is_over()
        self.inbound.discard()
        sink, self.inbound.sink = self.inbound.sink, None
        if sink is not None:
            sink.connection_ended(*self.end)

    def abort(self, reason: CloseReason, detail: str = "") -> None:
        self._stop(reason, detail)
        self._tapped.transport.abort()

    def _stop(self, reason: CloseReason, detail: str) -> None:
        self.end = self.end or (reason, detail)
        self.inbound.discard()

    def _resume_for_goodbye(self) -> None:
        # The peer's close frame must be read even if its requests were held back.
        if self.inbound.paused and not self._tapped.transport.is_closing():
            self.inbound.paused = False
            self._tapped.transport.resume_reading()


class _Tapped(LibraryConnection):
    """What the server and the client connection have in common: text messages go to the session."""

    masks: bool
    secure: bool = False
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.wire = WebSocketConnection(self, "wss" if self.secure else "ws")
        self.wire.peer = _address(transport.get_extra_info("peername"))
        self._text = bytearray()  # the fragments of a text message whose last one has not come

    def data_received(self, data: bytes) -> None:
        self.wire.last_received = self.loop.time()
        super().data_received(data)
        if self.protocol.close_expected():
            self.wire.bound_the_goodbye()

    def process_event(self, event: Any) -> None:
        if isinstance(event, WebSocketFrame) and event.opcode in _DATA:
            self._data_frame(event)
        else:
            super().process_event(event)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.wire.lost(*self._how_it_ended(exc))

    def _data_frame(self, event: WebSocketFrame) -> None:
        if self.wire.end is not None:
            return
        if event.opcode is Opcode.BINARY:
            self.wire.close_with(CloseReason.BAD_MESSAGE, "a frame is a text message", 1003)
            return
        if self._text or not event.fin:
            self._text += event.data
            if not event.fin:
                return
            text = bytes(self._text)
            self._text.clear()
        else:
            text = bytes(event.data)
        try:
            text.decode("utf-8")
        except UnicodeDecodeError:
            self.wire.close_with(CloseReason.BAD_MESSAGE, "a text message is UTF-8", 1007)
            return
        self.wire.inbound.add(_decoded(text))

    def _how_it_ended(self, exc: Exception | None) -> tuple[CloseReason, str]:
        if exc is not None:
            return CloseReason.CONNECTION_LOST, str(exc)
        protocol = self.protocol
        if protocol.close_rcvd is None and protocol.close_sent is not None:
            # The library refused a message: over the cap (1009), or against RFC 6455 (1002).
            return reason_of_close_code(protocol.close_sent.code), protocol.close_sent.reason
        if protocol.close_code is None:
            return CloseReason.PEER_LEFT, ""
        return reason_of_close_code(protocol.close_code), protocol.close_reason or ""


class _ServerSide(_Tapped, ServerConnection):
    masks = False
    sink_of: SinkFactory

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.wire.inbound.sink = self.sink_of(self.wire)


class _ClientSide(_Tapped, ClientConnection):
    masks = True


async def listen(
    host: str, port: int, sink_of: SinkFactory, *, tls: ssl.SSLContext | None = None
) -> tuple[Server, int]:
    """Listen for WebSockets; return the library's server and the port bound (port 0 binds a free one).

    Raises OSError when the address cannot be bound. `Server.close()` alone does not end: see
    `_WebSocketListener` in wire/server.py.
    """

    class Accepted(_ServerSide):
        secure = tls is not None

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.sink_of = sink_of

    try:
        server = await serve(
            _until_closed,
            host,
            port,
            ssl=tls,
            create_connection=Accepted,
            select_subprotocol=_select_subprotocol,
            compression=None,
            max_size=MAX_FRAME_BYTES,
            open_timeout=HELLO_DEADLINE_S,
            ping_interval=None,  # the sweep in wire/server.py is the keepalive of every transport
            close_timeout=1,
            server_header=None,
            backlog=BACKLOG,
        )
    except UnicodeError as error:
        raise OSError(f"{host} is no host name: {error}") from None
    return server, server.sockets[0].getsockname()[1]


class DialRefusedError(ConnectionError):
    """The other side answered the upgrade with an HTTP status; `status` is it."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


async def dial(
    url: str, sink_of: SinkFactory, *, timeout_s: float, tls: ssl.SSLContext | None = None
) -> Connection:
    """Connect to a WebSocket listener; returns when the upgrade is done and the session is attached.

    Raises OSError (DialRefusedError for an HTTP answer, TimeoutError past `timeout_s`). Cancelling closes the
    socket. `tls` is for `wss:` only; without it the system's own roots are trusted.
    """
    secure = url.startswith("wss:")

    class Dialled(_ClientSide):
        pass

    Dialled.secure = secure
    try:
        tapped = await connect(
            url,
            ssl=(tls or ssl.create_default_context()) if secure else None,
            create_connection=Dialled,
            subprotocols=[Subprotocol(SUBPROTOCOL)],
            compression=None,
            max_size=MAX_FRAME_BYTES,
            open_timeout=timeout_s,
            ping_interval=None,
            close_timeout=1,
            user_agent_header=None,
            proxy=None,
        )
    except InvalidStatus as error:
        status = error.response.status_code
        raise DialRefusedError(status, f"the hub answered HTTP {status} to the WebSocket upgrade") from None
    except (InvalidHandshake, InvalidURI, UnicodeError) as error:  # the last: a name that DNS cannot hold
        raise ConnectionError(f"no WebSocket answered there: {error}") from None
    assert isinstance(tapped, _Tapped)  # noqa: S101  # create_connection above made it
    if tapped.wire.end is not None or tapped.protocol.state is State.CLOSED:
        raise ConnectionError("the hub closed the connection at once")
    tapped.wire.inbound.sink = sink_of(tapped.wire)
    tapped.wire.inbound.deliver()
    return tapped.wire


async def _until_closed(connection: ServerConnection) -> None:
    # The session lives in the callbacks; the library closes a connection whose handler returns.
    await connection.wait_closed()


def _select_subprotocol(_connection: ServerConnection, offered: Any) -> Subprotocol | None:
    return Subprotocol(SUBPROTOCOL) if SUBPROTOCOL in offered else None


def _decoded(text: bytes) -> Iterator[Frame | BadFrame]:
    yield decode(text)


def _address(peername: Any) -> str:
    if isinstance(peername, tuple) and len(peername) >= 2:
        host, port = peername[0], peername[1]
        return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"
    return "?"
