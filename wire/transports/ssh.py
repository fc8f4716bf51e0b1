"""`ssh:target`: lines over `ssh target sot-hub stdio-bridge` (WIRE section 2).

ssh itself is the system's; the user's ssh configuration says how the target is reached. It must not ask for
anything: there is nobody to answer.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from wire.connection import Connection, FrameSink
from wire.transports.line import LineConnection

SinkFactory = Callable[[Connection], FrameSink]

REMOTE_COMMAND = "sot-hub stdio-bridge"
_STDERR_KEPT = 400  # characters of ssh's own words in a reason


def command(target: str) -> list[str]:
    """Return the argument list that reaches the hub's socket through a login on `target`."""
    return ["ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "--", target, REMOTE_COMMAND]


async def dial(target: str, sink_of: SinkFactory) -> Connection:
    """Start ssh and speak lines over its stdio. Returns at once: ssh connects while the hello waits.

    Raises OSError when ssh cannot be started. What ssh writes on stderr becomes the detail of the
    connection's end.
    """
    loop = asyncio.get_running_loop()
    _, protocol = await loop.subprocess_exec(lambda: _SshProtocol(target, sink_of), *command(target))
    return protocol.connection


class _Stdio:
    """ssh's stdin and stdout as the one transport that a LineConnection writes to and pauses."""

    def __init__(self, process: asyncio.SubprocessTransport) -> None:
        self._process = process
        self._writer = cast("asyncio.WriteTransport", process.get_pipe_transport(0))
        self._reader = cast("asyncio.ReadTransport", process.get_pipe_transport(1))

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    def get_write_buffer_size(self) -> int:
        return self._writer.get_write_buffer_size()

    def is_closing(self) -> bool:
        return self._writer.is_closing()

    def can_write_eof(self) -> bool:
        return False  # ssh ends when its input does, so the end of ours is the end of both

    def pause_reading(self) -> None:
        self._reader.pause_reading()

    def resume_reading(self) -> None:
        self._reader.resume_reading()

    def close(self) -> None:
        # ssh ends when its input does; one that does not is aborted when the goodbye is over.
        self._writer.close()

    def abort(self) -> None:
        self._process.close()  # kills ssh


class _SshProtocol(asyncio.SubprocessProtocol):
    def __init__(self, target: str, sink_of: SinkFactory) -> None:
        self.connection = LineConnection("ssh", sink_of, admit=lambda _transport: f"ssh:{target}")
        self._process: asyncio.SubprocessTransport | None = None
        self._stderr = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._process = cast("asyncio.SubprocessTransport", transport)
        self.connection.connection_made(cast("Any", _Stdio(self._process)))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self.connection.data_received(data)
        else:
            self._stderr = (self._stderr + data)[-4 * _STDERR_KEPT :]

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002  # asyncio's name
        if fd != 2:
            # Not killed at once: ssh may still have to say on stderr why it ends. (On uvloop this comes only
            # with ssh's exit, since its children hold a second copy of their ends.)
            self.connection.stream_ended()

    def connection_lost(self, exc: Exception | None) -> None:
        words = " ".join(self._stderr.decode(errors="replace").split())[-_STDERR_KEPT:]
        code = None
        if self._process is not None:
            code = self._process.get_returncode()
            self._process.close()  # it has ended; asyncio wants to be told
        error = exc
        if error is None and (words or code):
            error = ConnectionError(words or f"ssh ended with code {code}")
        self.connection.connection_lost(error)
