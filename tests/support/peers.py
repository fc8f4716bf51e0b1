"""The other end of a daemon's socket, in the test's hands: a client, a link that follows a script, a hub.

Every wait is bounded by BOUND_S, which no assertion depends on: it is there so that a hang ends as a failure.
A link's `answer` returns when the hub has folded it: a ping behind it on the same connection was answered.
"""

import asyncio
import json
import socket
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from wire.account import os_user

BOUND_S = 30.0
CAP = 1_048_575
LONGEST_ID = 2**63 - 1
OS_USER = os_user()

Json = dict[str, Any]
T = TypeVar("T")

OK: Json = {"ok": True}
NOT_HERE: Json = {"error": "no box knows that handle: h", "code": "not_here"}
STALE: Json = {"error": "no live session holds @h", "code": "no_live_session"}


async def bounded(work: Awaitable[T]) -> T:
    async with asyncio.timeout(BOUND_S):
        return await work


async def until(true: Callable[[], bool], what: str) -> None:
    """Wait for something that nothing tells of."""
    try:
        async with asyncio.timeout(BOUND_S):
            while not true():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"still not so after {BOUND_S:g} s: {what}") from None


def refuses_connections(path: Path) -> bool:
    """Tell whether nobody accepts on this Unix socket (any more)."""
    if sys.platform == "win32":
        raise AssertionError("conftest.py leaves these tests out there")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            client.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return True
    return False


def encode(op: str, payload: Mapping[str, Any], *, frame_id: int = 1, kind: str = "req") -> bytes:
    frame = {"v": 1, "id": frame_id, "kind": kind, "op": op, "payload": payload}
    return json.dumps(frame, ensure_ascii=False, separators=(",", ":")).encode()


def hello(host: str = "box", *, role: str = "cli", **members: Any) -> Json:
    told = {"client_id": "test", "protocol": 3, "host": host, "os_user": OS_USER, "role": role, "name": host}
    return {**told, **members}


def mail(to: str, text: str = "hi", sender: str = "tester", **members: Any) -> Json:
    return {"from": sender, "to": to, "text": text, **members}


def mail_of_size(size: int, to: str, *, frame_id: int = 1, fill: str = "x", **members: Any) -> bytes:
    """A comm.file request whose frame is exactly `size` bytes of JSON text."""
    empty = len(encode("comm.file", mail(to, "", **members), frame_id=frame_id))
    count, rest = divmod(size - empty, len(fill.encode()))
    text = encode("comm.file", mail(to, fill * count + "x" * rest, **members), frame_id=frame_id)
    assert len(text) == size
    return text


class PeerClosedError(Exception):
    """The daemon ended the connection; `code` is the WebSocket close code, None on a line transport."""

    def __init__(self, code: int | None = None, reason: str = "") -> None:
        super().__init__(f"closed {code} {reason}")
        self.code = code


class Peer(ABC):
    """One connection to a daemon, or one that a daemon made to us."""

    def __init__(self) -> None:
        self._ids = iter(range(2, 1_000_000))
        self._aside: list[Json] = []  # frames that an `ask` met while it looked for its answer

    @abstractmethod
    async def send_text(self, text: bytes) -> None:
        """Send one frame's JSON text, or what is to pass for one."""

    @abstractmethod
    async def send_all(self, *texts: bytes) -> None:
        """Send several frames at once: the daemon may close on the first before a second write."""

    @abstractmethod
    async def _read(self) -> bytes: ...

    @abstractmethod
    async def close(self) -> None: ...

    async def send(
        self, op: str, payload: Mapping[str, Any], *, frame_id: int | None = None, kind: str = "req"
    ) -> int:
        """Send a frame; return its id."""
        frame_id = next(self._ids) if frame_id is None else frame_id
        await self.send_text(encode(op, payload, frame_id=frame_id, kind=kind))
        return frame_id

    async def next(self) -> Json:
        """The next frame. Raises PeerClosedError."""
        if self._aside:
            return self._aside.pop(0)
        return await self._frame()

    async def answer_to(self, frame_id: int, op: str) -> Json:
        """The payload of the answer with this id and op; other frames are kept for `next`."""
        for frame in self._aside:
            if (frame["kind"], frame["id"], frame["op"]) == ("res", frame_id, op):
                self._aside.remove(frame)
                return dict(frame["payload"])
        while True:
            frame = await self._frame()
            if (frame["kind"], frame["id"], frame["op"]) == ("res", frame_id, op):
                return dict(frame["payload"])
            self._aside.append(frame)

    async def ask(self, op: str, payload: Mapping[str, Any]) -> Json:
        """Ask one thing; return the answer's payload."""
        return await self.answer_to(await self.send(op, payload), op)

    async def file(self, to: str, text: str = "hi", **members: Any) -> Json:
        """Send mail; return the verdict."""
        return await self.ask("comm.file", mail(to, text, **members))

    async def ended(self) -> int | None:
        """Wait for the daemon to end the connection; return the close code. Frames before it are dropped."""
        try:
            while True:
                await self._frame()
        except PeerClosedError as error:
            return error.code

    async def _frame(self) -> Json:
        frame: Json = json.loads(await bounded(self._read()))
        assert frame["v"] == 1
        return frame


class LinePeer(Peer):
    """A line connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__()
        self.reader, self.writer = reader, writer

    async def send_text(self, text: bytes) -> None:
        await self.send_bytes(text + b"\n")

    async def send_all(self, *texts: bytes) -> None:
        await self.send_bytes(b"".join(text + b"\n" for text in texts))

    async def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are, with no line end."""
        self.writer.write(data)
        await self.writer.drain()

    async def half_close(self) -> None:
        self.writer.write_eof()

    async def _read(self) -> bytes:
        try:
            line = await self.reader.readline()
        except ConnectionError:
            # A daemon that closes with bytes of ours unread resets; StreamReader then hides what came before.
            buffer: bytearray = self.reader._buffer  # type: ignore[attr-defined]
            line = bytes(buffer[: buffer.find(b"\n") + 1])
            del buffer[: len(line)]
        if not line:
            raise PeerClosedError
        assert line.endswith(b"\n")
        assert len(line) <= CAP + 1, "no frame may pass the cap"
        return line

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await bounded(self.writer.wait_closed())


class WebSocketPeer(Peer):
    """A WebSocket connection."""

    def __init__(self, connection: ClientConnection) -> None:
        super().__init__()
        self.connection = connection

    async def send_text(self, text: bytes) -> None:
        await self.connection.send(text, text=True)

    async def send_all(self, *texts: bytes) -> None:
        with suppress(ConnectionClosed):
            for text in texts:
                await self.send_text(text)

    async def _read(self) -> bytes:
        try:
            message = await self.connection.recv(decode=False)
        except ConnectionClosed:
            raise PeerClosedError(self.connection.close_code, self.connection.close_reason or "") from None
        assert isinstance(message, bytes)
        assert len(message) <= CAP, "no frame may pass the cap"
        return message

    async def close(self) -> None:
        await bounded(self.connection.close())


@dataclass(frozen=True)
class Offer:
    """An offer as a link got it."""

    id: int
    payload: Json


class FakeLink:
    """A link that does what the test says."""

    def __init__(self, peer: Peer, host: str) -> None:
        self.peer = peer
        self.host = host
        self.offers: list[Offer] = []  # that `always` answered

    async def offer(self) -> Offer:
        """The next offer."""
        while True:
            frame = await self.peer.next()
            if (frame["kind"], frame["op"]) == ("req", "comm.file"):
                return Offer(frame["id"], frame["payload"])
            if frame["kind"] == "req":
                await self.peer.send(frame["op"], OK, frame_id=frame["id"], kind="res")

    async def answer(self, offer: Offer, payload: Json, *, op: str = "comm.file") -> None:
        """Answer, and wait until the hub has heard it."""
        await self.peer.send(op, payload, frame_id=offer.id, kind="res")
        assert await self.peer.ask("ping", {}) == OK

    async def offers_so_far(self) -> list[Offer]:
        """What the hub has offered until now: all that stands before a pong."""
        await self.peer.ask("ping", {})
        aside, self.peer._aside = self.peer._aside, []
        return [Offer(frame["id"], frame["payload"]) for frame in aside if frame["op"] == "comm.file"]


class Peers:
    """Opens connections and closes them all."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack

    async def close(self) -> None:
        """Close every connection made so far."""
        await self._stack.pop_all().aclose()

    async def knock(self, endpoint: str) -> Any:
        """Connect, say nothing: a LinePeer on `unix:`, a WebSocketPeer on `ws:`."""
        if sys.platform == "win32":
            raise AssertionError("conftest.py leaves these tests out there")
        peer: Peer
        if endpoint.startswith("unix:"):
            path = endpoint.removeprefix("unix:")
            peer = LinePeer(*await bounded(asyncio.open_unix_connection(path, limit=4 * CAP)))
        else:
            connection = await bounded(
                connect(
                    endpoint, compression=None, max_size=None, max_queue=None, ping_interval=None, proxy=None
                )
            )
            peer = WebSocketPeer(connection)
        self._stack.push_async_callback(peer.close)
        return peer

    async def client(self, endpoint: str, host: str = "box", **members: Any) -> Any:
        """Connect and say hello."""
        peer = await self.knock(endpoint)
        answer = await peer.ask("hello", hello(host, **members))
        assert "error" not in answer, answer
        return peer

    async def link(self, endpoint: str, host: str) -> FakeLink:
        """Connect and say hello as a link. The hub offers to it from here on."""
        return FakeLink(await self.client(endpoint, host, role="link"), host)

    async def always(self, link: FakeLink, payload: Json) -> None:
        """From now on answer each offer of this link so."""

        async def answer_each() -> None:
            with suppress(PeerClosedError):
                while True:
                    offer = await link.offer()
                    link.offers.append(offer)
                    await link.peer.send("comm.file", payload, frame_id=offer.id, kind="res")

        task = asyncio.create_task(answer_each())

        async def stop() -> None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

        self._stack.push_async_callback(stop)


@asynccontextmanager
async def open_peers() -> AsyncIterator[Peers]:
    async with AsyncExitStack() as stack:
        yield Peers(stack)


class FakeHub:
    """A hub that does what the test says: `accept` gives each daemon that dials, before its hello is read."""

    def __init__(self, path: Path) -> None:
        self.endpoint = f"unix:{path}"
        self.hellos: list[Json] = []
        self._path = path
        self._accepted: asyncio.Queue[LinePeer] = asyncio.Queue()

    async def accept(self) -> LinePeer:
        return await bounded(self._accepted.get())

    async def greet(self, refusal: Json | None = None) -> LinePeer:
        """Take the next daemon's hello and answer it."""
        peer = await self.accept()
        frame = await peer.next()
        self.hellos.append(frame["payload"])
        await peer.send("hello", refusal or {"host": "fakehub"}, frame_id=frame["id"], kind="res")
        return peer

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["FakeHub"]:
        if sys.platform == "win32":
            raise AssertionError("conftest.py leaves these tests out there")
        peers: list[LinePeer] = []

        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            peers.append(LinePeer(reader, writer))
            self._accepted.put_nowait(peers[-1])

        server = await asyncio.start_unix_server(accepted, self._path, limit=4 * CAP)
        try:
            yield self
        finally:
            server.close()
            for peer in peers:
                await peer.close()
            self._path.unlink(missing_ok=True)
