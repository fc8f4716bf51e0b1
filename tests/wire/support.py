"""A small service to serve, and raw clients to be served: what this room's connection tests stand on."""

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from wire.admission import AccountRecord, Door, RefusedHello
from wire.closing import CloseReason
from wire.connection import PATIENCE, Connection, FrameSink, Patience
from wire.frames import Frame, refusal
from wire.limits import MAX_FRAME_BYTES
from wire.payloads import CommFile, Hello, fit
from wire.server import Server, ServerLimits
from wire.session import Answer, DialledSession, Op, ServedSession, Session
from wire.transports.dial import dial

PATIENT_S = 20.0  # a test that waits longer for one thing is broken

HELLO = {"client_id": "c", "protocol": 3, "host": "boxa", "os_user": "uid:1", "role": "cli", "name": "me"}


def text(op: str, payload: Mapping[str, Any] | None = None, *, frame_id: int = 1, kind: str = "req") -> bytes:
    """Return one frame's JSON text."""
    frame = {"v": 1, "id": frame_id, "kind": kind, "op": op, "payload": payload or {}}
    return json.dumps(frame, ensure_ascii=False, separators=(",", ":")).encode()


def line(op: str, payload: Mapping[str, Any] | None = None, *, frame_id: int = 1, kind: str = "req") -> bytes:
    """Return one frame as a line."""
    return text(op, payload, frame_id=frame_id, kind=kind) + b"\n"


def hello_line(**members: Any) -> bytes:
    return line("hello", {**HELLO, **members})


class Happenings:
    """What happened so far, and a way to wait for the next of it."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def changed(self) -> None:
        self._changed.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until `holds()`; it is looked at whenever something happened."""
        async with asyncio.timeout(PATIENT_S):
            while not holds():
                self._changed.clear()
                await self._changed.wait()


class FakeService(Happenings):
    """Serves ops of every temper, and remembers what it was told.

    `slow` waits until `release` is set, or until `release_one` was called for its `n`.
    """

    def __init__(self, door: Door | None = None) -> None:
        super().__init__()
        self.sessions: list[ServedSession] = []
        self.greeted_sessions: list[ServedSession] = []
        self.refusals: list[str] = []
        self.answers: list[Frame] = []
        self.ends: list[tuple[CloseReason, str]] = []
        self.begun: list[int] = []
        self.finished: list[int] = []
        self.release = asyncio.Event()
        self._one = asyncio.Condition()
        self._ones: set[int] = set()
        self._door = door or Door("hub", AccountRecord())
        self._ops: dict[str, Op] = {
            "ping": lambda _session, _payload: {"ok": True},
            "echo": lambda _session, payload: {"ok": True, **payload},
            "slow": lambda _session, payload: self._slow(payload),
            "file": _file,
            "file_later": _later,
            "fails": _fails,
            "fails_later": lambda _session, payload: _fails_later(payload),
            "no_json": lambda _session, _payload: {"ok": "\ud800"},
            "no_json_later": lambda _session, _payload: _this_later({"ok": {1, 2}}),
            "too_long": lambda _session, _payload: {"ok": "y" * MAX_FRAME_BYTES},
            "too_long_refusal": lambda _session, _payload: refusal("a_code", "é" * MAX_FRAME_BYTES),
        }

    # wire.server.Service

    @property
    def ops(self) -> Mapping[str, Op]:
        return self._ops

    def door(self) -> Door:
        return self._door

    def admitted(self, session: ServedSession, hello: Hello) -> None:
        session.is_link = hello.role == "link"
        self.sessions.append(session)
        self.changed()

    def greeted(self, session: ServedSession) -> None:
        self.greeted_sessions.append(session)
        self.changed()

    def refused(self, _session: ServedSession, refused: RefusedHello) -> None:
        self.refusals.append(refused.code)
        self.changed()

    def answered(self, _session: Session, frame: Frame) -> None:
        self.answers.append(frame)
        self.changed()

    def ended(self, _session: ServedSession, reason: CloseReason, detail: str) -> None:
        self.ends.append((reason, detail))
        self.changed()

    # What a test says and asks

    async def release_one(self, n: int) -> None:
        async with self._one:
            self._ones.add(n)
            self._one.notify_all()

    async def wait_begun(self, count: int) -> None:
        await self.until(lambda: len(self.begun) >= count)

    async def wait_ended(self, count: int = 1) -> CloseReason:
        await self.until(lambda: len(self.ends) >= count)
        return self.ends[-1][0]

    async def _slow(self, payload: dict[str, Any]) -> Answer:
        n = int(payload.get("n", 0))
        self.begun.append(n)
        self.changed()
        releases = (self.release.wait(), self._wait_one(n))
        await _first(*releases)
        self.finished.append(n)
        self.changed()
        return {"ok": True, "n": n}

    async def _wait_one(self, n: int) -> None:
        async with self._one:
            await self._one.wait_for(lambda: n in self._ones)


async def _first(*ways: Awaitable[Any]) -> None:
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _file(_session: Session, payload: dict[str, Any]) -> Answer:
    fit(CommFile, payload)
    return {"ok": True}


async def _later(session: Session, payload: dict[str, Any]) -> Answer:
    await asyncio.sleep(0)
    return _file(session, payload)


def _fails(_session: Session, payload: dict[str, Any]) -> Answer:
    raise RuntimeError(f"a secret of the daemon: {payload}")


async def _fails_later(payload: dict[str, Any]) -> Answer:
    await asyncio.sleep(0)
    raise RuntimeError(f"a secret of the daemon: {payload}")


async def _this_later(answer: Any) -> Answer:
    await asyncio.sleep(0)
    return {"answer": answer}


class Caller(Happenings):
    """The owner of sessions that this test dials: serves `ping` and remembers what it hears."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: Iterator[int] = itertools.count(1000)
        self.sessions: list[DialledSession] = []
        self.ends: list[tuple[CloseReason, str]] = []
        self.answers: list[Frame] = []
        self._work: set[asyncio.Future[None]] = set()

    @property
    def ops(self) -> Mapping[str, Op]:
        return {"ping": lambda _session, _payload: {"ok": True}}

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        self._work.add(asyncio.ensure_future(work))

    def answered(self, _session: Session, frame: Frame) -> None:
        self.answers.append(frame)
        self.changed()

    def ended(self, _session: Session, reason: CloseReason, detail: str) -> None:
        self.ends.append((reason, detail))
        self.changed()

    async def dial(
        self, endpoint: str, *, watched: bool = False, patience: Patience = PATIENCE, **hello: Any
    ) -> DialledSession:
        """Dial, and return the session that has said hello."""

        def sink_of(connection: Connection) -> FrameSink:
            greeting = {**HELLO, **hello}
            session = DialledSession(connection, self, greeting, watched=watched, patience=patience)
            self.sessions.append(session)
            return session

        await dial(endpoint, sink_of, timeout_s=PATIENT_S)
        return self.sessions[-1]


class LineClient:
    """A client of a line transport that sends whatever bytes it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, path: Path) -> "LineClient":
        if sys.platform == "win32":
            raise OSError("no Unix sockets here")
        return cls(*await asyncio.open_unix_connection(path, limit=2 * MAX_FRAME_BYTES))

    async def send(self, *lines: bytes) -> None:
        """Send `lines` in one write."""
        self.writer.write(b"".join(lines))
        await self.writer.drain()

    async def receive(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENT_S):
            received = await self.reader.readline()
        assert received.endswith(b"\n"), f"the connection ended: {received!r}"
        frame: dict[str, Any] = json.loads(received)
        return frame

    async def answer(self) -> dict[str, Any]:
        """Return the payload of the next frame."""
        payload: dict[str, Any] = (await self.receive())["payload"]
        return payload

    async def greet(self, **members: Any) -> dict[str, Any]:
        await self.send(hello_line(**members))
        return await self.answer()

    async def rest(self) -> bytes:
        """Return all bytes until the other side ends the connection."""
        async with asyncio.timeout(PATIENT_S):
            try:
                return await self.reader.read()
            except (ConnectionResetError, BrokenPipeError):
                return b""  # a close while bytes of ours were on their way

    async def wait_closed(self) -> None:
        assert await self.rest() == b""

    def half_close(self) -> None:
        self.writer.write_eof()

    def hang_up(self) -> None:
        self.writer.transport.abort()


class Served:
    """A running server with one Unix socket and one WebSocket listener, and ways to reach it."""

    def __init__(self, server: Server, service: FakeService, path: Path, url: str) -> None:
        self.server = server
        self.service = service
        self.path = path
        self.url = url
        self.stays = False  # whether clients and requests are left as they are when the server is left
        self._clients: list[LineClient] = []
        self._websockets: list[ClientConnection] = []

    async def line_client(self) -> LineClient:
        client = await LineClient.connect(self.path)
        self._clients.append(client)
        return client

    async def greeted_line(self, **members: Any) -> LineClient:
        client = await self.line_client()
        assert "error" not in await client.greet(**members)
        return client

    async def websocket(self, **options: Any) -> ClientConnection:
        client = await connect(self.url, proxy=None, ping_interval=None, compression=None, **options)
        self._websockets.append(client)
        return client

    async def greeted_websocket(self, **members: Any) -> ClientConnection:
        client = await self.websocket()
        await client.send(hello_line(**members).decode())
        assert "error" not in (await hear(client))["payload"]
        return client

    def leave(self) -> None:
        for client in self._clients:
            client.hang_up()
        for websocket in self._websockets:
            websocket.transport.abort()


async def hear(client: ClientConnection) -> dict[str, Any]:
    """Return the next frame that came as a text message."""
    async with asyncio.timeout(PATIENT_S):
        frame: dict[str, Any] = json.loads(await client.recv())
    return frame


@asynccontextmanager
async def serving(folder: Path, *, door: Door | None = None, **limits: Any) -> AsyncIterator[Served]:
    """Run a server with `limits`, which are ServerLimits."""
    service = FakeService(door)
    server = Server("hub", service, ids=itertools.count(1), limits=ServerLimits(**limits))
    async with server.running():
        path = folder / "hub.sock"
        await server.listen_unix(str(path))
        served = Served(server, service, path, await server.listen_websocket("127.0.0.1", 0))
        try:
            yield served
        finally:
            if not served.stays:
                served.leave()
                service.release.set()
