"""Sessions on a connection that only notes what is sent: for rules that need a peer and no socket."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from wire.closing import CloseReason
from wire.connection import Connection, Outgoing
from wire.frames import Frame, Kind
from wire.payloads import Hello, fit
from wire.session import Session


class NotedConnection(Connection):
    """Keeps what was sent, and why it was closed."""

    transport = "unix"
    peer = "pid 1"

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[Any] = []
        self.closed: CloseReason | None = None

    def send(self, outgoing: Outgoing) -> None:
        self.sent.append(json.loads(outgoing.text))

    def queued_bytes(self) -> int:
        return 0

    def ping(self) -> bool:
        return True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self, reason: CloseReason, detail: str = "") -> None:
        self.closed = reason

    def abort(self, reason: CloseReason, detail: str = "") -> None:
        self.closed = reason


def session_of(host: str, **members: Any) -> Session:
    """An admitted session of this host, that nobody owns."""
    session = Session(NotedConnection(), owner=None)  # type: ignore[arg-type]  # nothing here asks the owner
    session.hello = hello_of(host, **members)
    return session


def hello_of(host: str, **members: Any) -> Hello:
    return fit(Hello, {"client_id": "t", "protocol": 3, "host": host, "os_user": "uid:1", **members})


def sent_to(session: Session) -> list[Any]:
    assert isinstance(session.connection, NotedConnection)
    return session.connection.sent


def res(frame_id: int, payload: dict[str, Any], op: str = "comm.file") -> Frame:
    return Frame(frame_id, Kind.RES, op, payload)


class Clock:
    """The loop's time, which `skip` moves forward: what was due in between is due now."""

    def __init__(self) -> None:
        self.skipped_s = 0.0

    def skip(self, seconds: float) -> None:
        self.skipped_s += seconds


@contextmanager
def fake_clock() -> Iterator[Clock]:
    loop, clock = asyncio.get_running_loop(), Clock()
    real = loop.time
    with patch.object(loop, "time", lambda: real() + clock.skipped_s):
        yield clock
