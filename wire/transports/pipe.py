r"""`pipe:name`: a named pipe `\\.\pipe\name`, this box's own daemon on Windows (WIRE section 2).

The same interface as unix.py. The pipe's default access list admits the account that made it, and nobody
else's session writes to it; there is no file to unlink and no stale pipe.
"""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wire.connection import Connection, FrameSink
from wire.transports.line import LineConnection

SinkFactory = Callable[[Connection], FrameSink]

PREFIX = "\\\\.\\pipe\\"


def pipe_path(name: str) -> str:
    r"""Return the full path of a pipe: `name` may already carry the `\\.\pipe\` in front."""
    return name if name.startswith(PREFIX) else PREFIX + name


@dataclass(slots=True)
class PipeListener:
    """The servers of one pipe name."""

    path: str
    servers: list[Any]

    def close(self) -> None:
        """Stop accepting. Connections that exist go on."""
        for server in self.servers:
            server.close()


async def listen(name: str, sink_of: SinkFactory) -> PipeListener:
    """Serve the pipe. Raises OSError where there are no named pipes, or when the name is taken."""
    path = pipe_path(name)
    if sys.platform == "win32":
        loop: Any = asyncio.get_running_loop()  # a ProactorEventLoop, the only loop with pipes
        return PipeListener(path, await loop.start_serving_pipe(lambda: _connection(sink_of), path))
    raise OSError(f"pipe:{name} is a Windows named pipe; use unix:/path here")


async def dial(name: str, sink_of: SinkFactory, *, timeout_s: float) -> Connection:
    """Connect to the pipe. Raises OSError, TimeoutError past `timeout_s`."""
    path = pipe_path(name)
    if sys.platform == "win32":
        loop: Any = asyncio.get_running_loop()  # a ProactorEventLoop, the only loop with pipes
        async with asyncio.timeout(timeout_s):
            _, connection = await loop.create_pipe_connection(lambda: _connection(sink_of), path)
        assert isinstance(connection, LineConnection)  # noqa: S101  # made by the line above
        return connection
    raise OSError(f"pipe:{name} is a Windows named pipe; use unix:/path here")


def _connection(sink_of: SinkFactory) -> LineConnection:
    return LineConnection("pipe", sink_of, admit=lambda _transport: "this box")
