"""Daemons that are not on a Unix socket of this box: `ssh:`, `ws:`, `wss:` and `pipe:` (WIRE section 2).

Imported only when such an endpoint was chosen. The calls of these transports block with no deadline that
covers all of them (looking up a name, a write to a peer that stopped reading, a Windows pipe), so they run in
threads, and the sender waits for what they tell for as long as its window is open. The threads are daemonic:
one that never returns does not keep the process.
"""

import contextlib
import logging
import os
import queue
import subprocess
import sys
import threading
import time
from typing import IO

from topology.endpoints import (
    EndpointError,
    PipeEndpoint,
    SshEndpoint,
    UnixEndpoint,
    WebSocketEndpoint,
    parse_endpoint,
)
from verbs.client import Channel, Lines
from wire.limits import MAX_FRAME_BYTES, SUBPROTOCOL

_CHUNK = 65_536
_WORDS_KEPT = 400  # characters of a transport's own words in a reason
_LAST_WORDS_S = 0.5  # what ssh wrote before it ended is in its pipe already
_GOODBYE_S = 0.05  # a close frame leaves at once; its answer is of no use
_MOST_TOLD = 8  # a reader ahead of the sender waits: what a flooding peer sends stays with the peer
_PIPE_BUSY_PAUSE_S = 0.01
_ERROR_PIPE_BUSY = 231  # Windows: all instances of the pipe are taken, for the moment
_PIPES = "\\\\.\\pipe\\"


def dial(text: str, deadline: float) -> Channel:
    """Begin a connection. Raises EndpointError for what is no endpoint a sender can reach, OSError."""
    match parse_endpoint(text):
        case SshEndpoint(target, None):
            return SshChannel(target)
        case SshEndpoint(target, box):
            raise EndpointError(
                f"{text} names the daemon of {box} behind {target}, which nothing serves; "
                f"name the hub's own login, ssh:{target}, which passes mail on to every box"
            )
        case WebSocketEndpoint() as endpoint:
            return WebSocketChannel(str(endpoint))
        case PipeEndpoint(name):
            return PipeChannel(name, deadline)
        case UnixEndpoint(path):
            from verbs.unix import UnixChannel

            return UnixChannel(path, deadline)


class _ThreadedChannel(Channel):
    """A channel one of whose threads tells what arrives; None is its last word."""

    def __init__(self) -> None:
        self._told: queue.Queue[list[bytes] | None] = queue.Queue(_MOST_TOLD)
        self._left = False  # nobody receives any more
        self._over = False

    def receive(self, deadline: float) -> list[bytes] | None:
        if self._over:
            return None
        left = deadline - time.monotonic()
        # Past the deadline one look is left, at what came while the sender was held up.
        self._over = left <= 0
        try:
            told = self._told.get(timeout=max(left, 0))
        except queue.Empty:
            told = None
        self._over = self._over or told is None
        return told

    def close(self) -> None:
        self._left = True
        with contextlib.suppress(queue.Empty):  # a reader that waits for room gets it, and ends
            while True:
                self._told.get_nowait()

    def _tell(self, frames: list[bytes] | None) -> bool:
        """Hand frames over, and return whether somebody may still want more."""
        if not self._left:
            self._told.put(frames)
        return not self._left

    def _tell_lines(self, descriptor: int) -> None:
        lines = Lines()
        with contextlib.suppress(OSError):
            while not lines.broken and (data := os.read(descriptor, _CHUNK)):
                if not self._tell(lines.feed(data)):
                    return
        self._tell(lines.rest())
        self._tell(None)


class SshChannel(_ThreadedChannel):
    """Lines over `ssh target sot-hub stdio-bridge`. ssh's exit status decides nothing (PROTOCOL Delivery)."""

    def __init__(self, target: str) -> None:
        """Start ssh. Raises OSError when it cannot be started."""
        super().__init__()
        self._process = subprocess.Popen(
            ssh_command(target),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        self._stderr = bytearray()
        self._listener = _thread("ssh stderr", self._keep_stderr)
        self._threads = [self._listener]

    def send(self, frames: tuple[bytes, ...], deadline: float) -> None:  # noqa: ARG002  # threads wait, not this
        self.sent = True
        lines = b"".join(frame + b"\n" for frame in frames)
        self._threads += [_thread("ssh stdin", self._write, lines), _thread("ssh stdout", self._read)]

    def receive(self, deadline: float) -> list[bytes] | None:
        told = super().receive(deadline)
        if told is None:
            self.words = self._last_words(deadline)
        return told

    def close(self) -> None:
        super().close()
        self._process.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join(_LAST_WORDS_S)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _write(self, data: bytes) -> None:
        # The pipe stays open: an input that ends would make ssh hurry the other side.
        left = memoryview(data)
        with contextlib.suppress(OSError):
            while left:
                left = left[os.write(_descriptor(self._process.stdin), left) :]

    def _read(self) -> None:
        self._tell_lines(_descriptor(self._process.stdout))

    def _keep_stderr(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(_descriptor(self._process.stderr), _CHUNK):
                self._stderr = (self._stderr + data)[-4 * _WORDS_KEPT :]

    def _last_words(self, deadline: float) -> str:
        try:
            code = self._process.wait(max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            code = 0  # it was not ssh that ended
            self._process.kill()
        # Bounded: a connection that ssh shares with later logins keeps its stderr open.
        self._listener.join(_LAST_WORDS_S)
        words = self._stderr.decode(errors="replace").strip()[-_WORDS_KEPT:]
        return words or (f"ssh ended with code {code}" if code else "")


def ssh_command(target: str) -> list[str]:
    """Return the argument list of `wire.transports.ssh.command`, which asyncio comes with."""
    remote_command = "sot-hub stdio-bridge"
    return ["ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "--", target, remote_command]


class WebSocketChannel(_ThreadedChannel):
    """One text message a frame, over TCP or TLS."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._close = _nothing

    def send(self, frames: tuple[bytes, ...], deadline: float) -> None:
        _thread("websocket", self._talk, frames, deadline)

    def close(self) -> None:
        super().close()
        # A write that a peer does not take would hold this up too, so it is a thread's.
        goodbye = _thread("websocket close", self._close)
        if not self._over:  # else the window has closed: the person is told at once
            goodbye.join(_GOODBYE_S)

    def _talk(self, frames: tuple[bytes, ...], deadline: float) -> None:
        from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
        from websockets.sync.client import connect
        from websockets.typing import Subprotocol

        # What the library thinks of a peer is said in our one sentence, and never as its stack.
        library_log = logging.getLogger("websockets")
        library_log.setLevel(logging.CRITICAL)
        library_log.addHandler(logging.NullHandler())
        try:
            with connect(
                self._url,
                subprotocols=[Subprotocol(SUBPROTOCOL)],
                compression=None,
                proxy=None,
                max_size=MAX_FRAME_BYTES,
                open_timeout=max(deadline - time.monotonic(), 0),
                ping_interval=None,  # the window is shorter than any keepalive
                close_timeout=_GOODBYE_S,
                user_agent_header=None,
            ) as connection:
                self._close = connection.close
                self.sent = True
                with contextlib.suppress(ConnectionClosed):  # what came before the close is still read
                    for frame in frames:
                        connection.send(frame.decode())
                for message in connection:
                    if isinstance(message, str) and not self._tell([message.encode()]):
                        break
        except InvalidStatus as error:
            self.words = f"HTTP {error.response.status_code} to the WebSocket upgrade"
        except ConnectionClosed as error:
            self.words = error.rcvd.reason if error.rcvd is not None else ""
        except TimeoutError:
            pass  # the window closed: that is said already
        except (OSError, ValueError, WebSocketException) as error:
            self.words = getattr(error, "strerror", None) or str(error)
        finally:
            self._tell(None)


class PipeChannel(_ThreadedChannel):
    """Lines over a named pipe of this box (Windows)."""

    def __init__(self, name: str, deadline: float) -> None:
        """Open the pipe. Raises OSError; TimeoutError when it stayed busy past the deadline."""
        super().__init__()
        self._descriptor = _open_pipe(_PIPES + name, deadline)

    def send(self, frames: tuple[bytes, ...], deadline: float) -> None:  # noqa: ARG002  # a thread waits, not this
        self.sent = True
        _thread("pipe", self._talk, b"".join(frame + b"\n" for frame in frames))

    def _talk(self, data: bytes) -> None:
        # One thread writes and then reads: Windows serializes the calls on one synchronous handle.
        left = memoryview(data)
        with contextlib.suppress(OSError):
            while left:
                left = left[os.write(self._descriptor, left) :]
        self._tell_lines(self._descriptor)


def _open_pipe(path: str, deadline: float) -> int:
    if sys.platform != "win32":
        raise OSError("a Windows named pipe, and this is not Windows; name unix:/path")
    while True:
        try:
            return os.open(path, os.O_RDWR | os.O_BINARY | os.O_NOINHERIT)
        except OSError as error:
            if error.winerror != _ERROR_PIPE_BUSY:
                raise
        if time.monotonic() >= deadline:
            raise TimeoutError("the pipe stayed busy")
        time.sleep(_PIPE_BUSY_PAUSE_S)  # the daemon offers the next instance when it has taken the last one


def _thread(name: str, target: object, *args: object) -> threading.Thread:
    thread = threading.Thread(target=target, args=args, name=name, daemon=True)  # type: ignore[arg-type]
    thread.start()
    return thread


def _descriptor(stream: IO[bytes] | None) -> int:
    assert stream is not None  # noqa: S101  # each of the three was asked for
    return stream.fileno()


def _nothing() -> None:
    """Close what was never opened."""
