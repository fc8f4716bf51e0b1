"""The side that knocks: dialling any endpoint, the greeting, and why a connection ended (WIRE 2, 3 and 6)."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from tests.wire.support import PATIENT_S, Caller, Served, line, serving
from wire.closing import CloseReason
from wire.connection import Patience
from wire.session import ConnectionEndedError, DialledSession, HelloRefusedError
from wire.transports.dial import dial
from wire.transports.ws import DialRefusedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

if sys.platform == "win32":
    pytest.skip("Unix sockets", allow_module_level=True)

Endpoint = Callable[[Served], str]
both_transports = pytest.mark.parametrize(
    "endpoint", [lambda served: f"unix:{served.path}", lambda served: served.url], ids=["unix", "ws"]
)


async def ended(session: DialledSession) -> tuple[CloseReason, str]:
    async with asyncio.timeout(PATIENT_S):
        return await session.wait_ended()


@both_transports
async def test_a_greeted_session_asks_and_is_asked(folder: Path, endpoint: Endpoint) -> None:
    async with serving(folder) as served:
        session = await Caller().dial(endpoint(served), role="link", watched=True)
        assert (await session.greeting())["host"] == "hub"
        assert await session.request("echo", {"t": "é"}) == {"ok": True, "t": "é"}
        assert await served.service.sessions[0].request("ping", {}) == {"ok": True}
        session.close(CloseReason.SHUTDOWN)
        assert await ended(session) == (CloseReason.SHUTDOWN, "")
        await served.service.wait_ended()


@both_transports
async def test_a_refused_hello_is_told_with_its_code_and_words(folder: Path, endpoint: Endpoint) -> None:
    async with serving(folder) as served:
        session = await Caller().dial(endpoint(served), protocol=2)
        with pytest.raises(HelloRefusedError, match="protocol") as refused:
            await session.greeting()
        assert refused.value.code == "protocol_mismatch"
        await ended(session)


@both_transports
async def test_the_hub_s_shutdown_ends_it_and_what_was_asked(folder: Path, endpoint: Endpoint) -> None:
    caller = Caller()
    async with serving(folder, drain_s=0.01, drain_total_s=2) as served:
        session = await caller.dial(endpoint(served))
        await session.greeting()
        asking = asyncio.ensure_future(session.request("slow", {}))
        await served.service.wait_begun(1)
        await served.server.drain()
        reason, _ = await ended(session)
        assert reason is (CloseReason.PEER_SHUTDOWN if session.connection.framed else CloseReason.PEER_LEFT)
        with pytest.raises(ConnectionEndedError) as told:
            await asking
        assert told.value.reason is reason
        assert [each for each, _ in caller.ends] == [reason]


@both_transports
async def test_a_superseded_link_knows_it(folder: Path, endpoint: Endpoint) -> None:
    async with serving(folder) as served:
        session = await Caller().dial(endpoint(served), role="link", watched=True)
        await session.greeting()
        older = served.service.sessions[0]
        if not older.connection.framed:
            older.event("link.superseded", {"host": "boxa"})
        older.close(CloseReason.SUPERSEDED, "a newer link")
        assert (await ended(session))[0] is CloseReason.SUPERSEDED


async def test_a_superseded_event_with_another_id_than_0_is_ignored(folder: Path) -> None:
    async with _line_hub(folder) as (path, hub):
        session = await Caller().dial(f"unix:{path}", role="link", watched=True)
        reader, writer = await hub
        await reader.readline()
        writer.write(line("link.superseded", frame_id=3, kind="evt"))
        writer.close()
        assert (await ended(session))[0] is CloseReason.PEER_LEFT


async def test_a_link_serves_nothing_before_its_greeting_and_all_that_stands_right_behind_it(
    folder: Path,
) -> None:
    async with _line_hub(folder) as (path, hub):
        session = await Caller().dial(f"unix:{path}", role="link", watched=True)
        reader, writer = await hub
        await reader.readline()
        writer.write(line("ping", frame_id=7))
        # Another id or op is no greeting.
        writer.write(line("hello", {"host": "no"}, frame_id=1, kind="res"))
        writer.write(line("ping", {"host": "no"}, frame_id=1000, kind="res"))
        writer.write(line("hello", {"host": "hub"}, frame_id=1000, kind="res") + line("ping", frame_id=8))
        assert b'"id":8,"kind":"res"' in await reader.readline()
        assert (await session.greeting())["host"] == "hub"
        session.close(CloseReason.PEER_LEFT)
        await ended(session)
        writer.close()


async def test_a_hub_that_breaks_the_stream_is_told_and_left(folder: Path) -> None:
    async with _line_hub(folder) as (path, hub):
        session = await Caller().dial(f"unix:{path}")
        reader, writer = await hub
        await reader.readline()
        writer.write(b"no frame\n")
        assert b'"op":"bad_frame"' in await reader.readline()
        assert (await ended(session))[0] is CloseReason.BAD_FRAME
        writer.close()


async def test_a_hub_that_falls_silent_is_pinged_and_given_up(folder: Path) -> None:
    soon = Patience(ping_s=1, pong_s=1)
    async with _line_hub(folder) as (path, hub):
        session = await Caller().dial(f"unix:{path}", role="link", watched=True, patience=soon)
        reader, writer = await hub
        await reader.readline()
        writer.write(line("hello", {"host": "hub"}, frame_id=1000, kind="res"))
        await session.greeting()
        since = session.connection.last_received
        session.sweep(since + 0.5, 0.25)
        session.sweep(since + 0.8, 0.25)
        session.sweep(since + 1.7, 0.25)
        assert b'"op":"ping"' in await reader.readline()
        session.sweep(since + 1.8, 0.25)
        assert (await ended(session))[0] is CloseReason.KEEPALIVE
        assert await reader.read() == b""
        writer.close()


# What can be wrong with an endpoint


async def test_nobody_there_is_an_os_error(folder: Path) -> None:
    async with serving(folder) as served:
        url = served.url
    for endpoint in (f"unix:{folder}/hub.sock", url):
        caller = Caller()
        with pytest.raises(OSError):
            await caller.dial(endpoint)
        assert caller.sessions == []


@pytest.mark.parametrize("endpoint", ["http://x/", "", "nonsense", "ssh:hub/boxa", "pipe:sot", "ws://"])
async def test_what_is_no_endpoint_to_dial_here_is_an_os_error(endpoint: str) -> None:
    with pytest.raises(OSError):
        await Caller().dial(endpoint)


@pytest.mark.parametrize("status", [401, 403, 404, 503])
async def test_an_http_answer_to_the_upgrade_is_told_with_its_status(status: int) -> None:
    async with _tcp(f"HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n".encode()) as port:
        with pytest.raises(DialRefusedError, match=f"HTTP {status}") as refused:
            await Caller().dial(f"ws://127.0.0.1:{port}/")
        assert refused.value.status == status


@pytest.mark.parametrize("said", [b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b""])
async def test_what_is_no_websocket_is_a_connection_error(said: bytes) -> None:
    async with _tcp(said) as port:
        with pytest.raises(ConnectionError):
            await Caller().dial(f"ws://127.0.0.1:{port}/")


async def test_wss_without_a_context_trusts_the_system_s_roots_and_fails_as_an_os_error() -> None:
    async with _tcp(b"no TLS here\r\n") as port:
        with pytest.raises(OSError):
            await Caller().dial(f"wss://127.0.0.1:{port}/")


async def test_a_listener_that_never_answers_is_a_timeout() -> None:
    async with _tcp(None) as port:
        with pytest.raises(TimeoutError):
            await dial(f"ws://127.0.0.1:{port}/", _no_sink, timeout_s=0.05)


async def test_a_hub_that_hangs_up_right_after_the_upgrade_is_an_end_and_no_hang() -> None:
    async def hang_up(connection: ServerConnection) -> None:
        connection.transport.abort()

    async with serve(hang_up, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        caller = Caller()
        try:
            session = await caller.dial(f"ws://127.0.0.1:{port}/")
        except ConnectionError:
            return
        with pytest.raises(ConnectionEndedError):
            async with asyncio.timeout(PATIENT_S):
                await session.greeting()


async def test_the_subprotocol_is_offered_and_no_compression_and_no_version() -> None:
    heard: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def listen(connection: ServerConnection) -> None:
        assert connection.request is not None
        heard.set_result(connection.request.headers)
        await connection.wait_closed()

    async with serve(listen, "127.0.0.1", 0) as server:
        session = await Caller().dial(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        headers = await heard
        assert headers["Sec-WebSocket-Protocol"] == "sot-comm"
        assert "Sec-WebSocket-Extensions" not in headers
        assert "User-Agent" not in headers
        session.close(CloseReason.PEER_LEFT)
        await ended(session)


def _no_sink(_connection: Any) -> Any:
    raise AssertionError("nothing was dialled")


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def _line_hub(folder: Path) -> "AsyncIterator[tuple[Path, Awaitable[Streams]]]":
    """Listen as a hub that says only what the test says for it."""
    path = folder / "hub.sock"
    met: asyncio.Future[Streams] = asyncio.get_running_loop().create_future()
    server = await asyncio.start_unix_server(lambda *streams: met.set_result(streams), path)
    try:
        yield path, met
    finally:
        server.close()


@asynccontextmanager
async def _tcp(said: bytes | None) -> "AsyncIterator[int]":
    """Listen as something that says `said` and hangs up, or for None says nothing."""
    writers = []

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        if said is not None:
            await reader.read(1)
            writer.write(said)
            writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            writer.close()
