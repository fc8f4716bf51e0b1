"""How a daemon stops: WIRE section 6, at SIGTERM."""

import asyncio
import socket
import sys
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from tests.wire.support import PATIENT_S, hear, hello_line, line, serving, text
from wire.closing import CloseReason

if sys.platform == "win32":
    pytest.skip("Unix sockets", allow_module_level=True)


async def test_what_is_in_flight_is_answered_and_then_every_connection_is_closed(folder: Path) -> None:
    async with serving(folder) as served:
        client, websocket = await served.greeted_line(), await served.greeted_websocket()
        await client.send(line("slow", {"n": 1}))
        await websocket.send(text("slow", {"n": 2}).decode())
        await served.service.wait_begun(2)
        draining = asyncio.ensure_future(served.server.drain())
        await asyncio.sleep(0)
        assert served.server.draining
        served.service.release.set()
        assert await client.answer() == {"ok": True, "n": 1}
        assert (await hear(websocket))["payload"] == {"ok": True, "n": 2}
        await client.wait_closed()
        with pytest.raises(ConnectionClosed) as closed:
            await websocket.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1012
        await draining
        assert [reason for reason, _ in served.service.ends] == [CloseReason.SHUTDOWN] * 2


async def test_nothing_new_is_accepted_while_the_rest_is_finished(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.greeted_line()
        await client.send(line("slow", {"n": 1}))
        await served.service.wait_begun(1)
        draining = asyncio.ensure_future(served.server.drain())
        await asyncio.sleep(0)
        with pytest.raises(OSError):
            await served.line_client()
        with pytest.raises(OSError):
            await served.websocket()
        assert not served.path.exists()
        # A connection that is still there is still heard; what it may still do, the op decides.
        await client.send(line("ping", frame_id=2))
        assert (await client.receive())["id"] == 2
        served.service.release.set()
        await draining


async def test_a_request_that_does_not_end_is_given_up_at_the_bound_and_its_work_cancelled(
    folder: Path,
) -> None:
    async with serving(folder, drain_s=0.05, drain_total_s=1) as served:
        client = await served.greeted_line()
        await client.send(line("slow", {"n": 1}))
        await served.service.wait_begun(1)
        await served.server.drain()
        await client.wait_closed()
    assert served.service.finished == []


async def test_leaving_without_a_drain_cuts_every_connection_and_cancels_every_request(folder: Path) -> None:
    async with serving(folder) as served:
        client, websocket = await served.greeted_line(), await served.greeted_websocket()
        await client.send(line("slow", {"n": 1}))
        await served.service.wait_begun(1)
        served.stays = True
    await client.wait_closed()
    with pytest.raises(ConnectionClosed):
        await websocket.recv()
    served.leave()
    assert served.service.finished == []


async def test_peers_that_never_close_or_never_read_do_not_keep_the_daemon(folder: Path) -> None:
    async with serving(folder, drain_s=0.05, drain_total_s=1) as served:
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX) as never_reads, socket.socket() as never_upgrades:
            for raw, address in (
                (never_reads, str(served.path)),
                (never_upgrades, ("127.0.0.1", int(served.url.rstrip("/").rpartition(":")[2]))),
            ):
                raw.setblocking(False)
                await loop.sock_connect(raw, address)
            await loop.sock_sendall(never_reads, hello_line())
            websocket = await served.greeted_websocket()
            websocket.transport.pause_reading()  # no answer to our close frame will come
            await served.service.until(lambda: len(served.service.sessions) == 2)
            for session in served.service.sessions:
                for _ in range(10):
                    session.event("much", {"t": "y" * 1_000_000})
            async with asyncio.timeout(PATIENT_S):
                await served.server.drain()
            await served.service.wait_ended(3)
            assert dict(served.server.sessions) == {}
            assert {reason for reason, _ in served.service.ends} == {CloseReason.SHUTDOWN}


async def test_a_drain_with_nobody_connected_returns(folder: Path) -> None:
    async with serving(folder) as served:
        await served.server.drain()
