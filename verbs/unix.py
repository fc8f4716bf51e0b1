"""A daemon on a Unix socket of this box, as a sender sees it (WIRE section 2).

`_socket`, the C module under `socket`, is used by itself: `socket` imports `enum` and `selectors`, which a
send would pay for at each start.
"""

import sys
import time

from verbs.client import Channel, Lines

try:
    import _socket
except ImportError:  # a Python without the C module
    import socket as _socket  # type: ignore[no-redef]  # the same names

_CHUNK = 262_144
_FIRST_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.05


class UnixChannel(Channel):
    """A connection to a daemon's Unix socket."""

    def __init__(self, path: str, deadline: float) -> None:
        """Connect. Raises OSError; TimeoutError past the deadline."""
        self._lines = Lines()
        self._over = False
        self._connection = _connected(path, deadline)

    def send(self, frames: tuple[bytes, ...], deadline: float) -> None:
        self.sent = True
        self._connection.settimeout(max(deadline - time.monotonic(), 0))
        try:  # noqa: SIM105  # contextlib costs start-up time
            self._connection.sendall(b"".join(frame + b"\n" for frame in frames))
        except OSError:
            pass  # what the daemon said before it stopped reading still decides

    def receive(self, deadline: float) -> list[bytes] | None:
        if self._over:
            return None
        left = deadline - time.monotonic()
        # Past the deadline one look is left, at what came while a long message was being written.
        self._over = left <= 0
        self._connection.settimeout(max(left, 0))
        try:
            data = self._connection.recv(_CHUNK)
        except OSError:
            data = b""
        if data:
            frames = self._lines.feed(data)
            self._over = self._over or self._lines.broken
            return frames
        self._over = True
        return self._lines.rest()

    def close(self) -> None:
        self._connection.close()


def _connected(path: str, deadline: float) -> "_socket.socket":
    if sys.platform == "win32":
        raise OSError("Python reaches no Unix socket on Windows; name a pipe:")
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        _connect(connection, path, deadline)
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(connection: "_socket.socket", path: str, deadline: float) -> None:
    pause = _FIRST_PAUSE_S
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("its queue of connections stayed full")
        connection.settimeout(left)
        try:
            connection.connect(path)
            return
        except BlockingIOError:
            # The daemon's backlog is full (Linux): nothing tells when it has room, so ask again.
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE_S)
