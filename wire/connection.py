"""What a transport is to the one who serves it, and the two rules that keep a connection honest.

A `Connection` is the byte side (line.py, ws.py); a `FrameSink` is the one thing that hears from it
(session.py). Everything here runs on the loop's thread and nothing in it waits.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

from wire.closing import CloseReason
from wire.frames import BadFrame, Frame
from wire.limits import (
    HELLO_DEADLINE_S,
    LINK_PING_S,
    LINK_PONG_S,
    WRITE_DEADLINE_S,
    WRITE_DEADLINE_S_PER_MIB,
)

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a peer is waited for. Each default is the contract's."""

    hello_s: float = HELLO_DEADLINE_S
    write_s: float = WRITE_DEADLINE_S
    write_s_per_mib: float = WRITE_DEADLINE_S_PER_MIB
    ping_s: float = LINK_PING_S
    pong_s: float = LINK_PONG_S

    def time_for(self, queued: int) -> float:
        """Return how long a peer may take for `queued` bytes (WIRE section 6)."""
        return self.write_s + self.write_s_per_mib * (queued / _MIB)


PATIENCE = Patience()


class Outgoing:
    """One encoded frame on its way to one peer or to many: serialized once for all of them."""

    __slots__ = ("text", "websocket_frame")

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.websocket_frame: bytes | None = None  # filled by the first unmasked WebSocket that sends it


class FrameSink(Protocol):
    """Hears what happens on one connection, in order; the last call is always `connection_ended`."""

    def frame_received(self, frame: Frame | BadFrame) -> None: ...

    def input_ended(self) -> None:
        """Nothing more will come, but answers are still taken."""

    def connection_ended(self, reason: CloseReason, detail: str) -> None: ...


class Connection(ABC):
    """One connection's byte side. All calls are for the loop's thread and none of them blocks."""

    transport: str  # "unix", "ws", "wss", "ssh", "stdio", "pipe": for logs and hub.status
    peer: str  # printable: an address, or "pid 123"
    local: bool = False  # an operating-system login of this very account stands behind it
    framed: bool = False  # the transport keeps message boundaries, so one bad message spoils no other
    credential_host: str | None = None  # the host its token or client certificate belongs to
    last_received: float = 0.0  # loop time of the last byte

    def __init__(self) -> None:
        self.patience = PATIENCE
        self.write_watch = WriteWatch()
        self._goodbye: asyncio.TimerHandle | None = None

    @abstractmethod
    def send(self, outgoing: Outgoing) -> None:
        """Queue one frame. A connection that is closing, or whose peer takes nothing, drops it."""

    @abstractmethod
    def queued_bytes(self) -> int:
        """Return how many bytes were sent here and not yet taken by the operating system."""

    @abstractmethod
    def ping(self) -> bool:
        """Ask the peer for a sign of life below the frames; False where only a frame can ask."""

    @abstractmethod
    def pause_reading(self) -> None: ...

    @abstractmethod
    def resume_reading(self) -> None: ...

    @abstractmethod
    def close(self, reason: CloseReason, detail: str = "") -> None:
        """Send what is queued, say goodbye, end. A peer that does not let it in time is aborted."""

    @abstractmethod
    def abort(self, reason: CloseReason, detail: str = "") -> None:
        """End it now; what is queued is lost. The one way that works on a peer that stopped reading."""

    def _bound_the_goodbye(self) -> None:
        # Without it a peer that never reads, or never closes its side, would keep the connection for ever.
        if self._goodbye is None:
            wait_s = self.patience.time_for(self.queued_bytes())
            self._goodbye = asyncio.get_running_loop().call_later(
                wait_s, self.abort, CloseReason.SLOW_PEER, "it did not let the connection end"
            )

    def _goodbye_is_over(self) -> None:
        if self._goodbye is not None:
            self._goodbye.cancel()
            self._goodbye = None


@dataclass(slots=True)
class WriteWatch:
    """Finds a peer that has not drained a frame in time: 10 s, and 1 s for each MiB queued (WIRE section 6).

    `sent` counts every byte handed to the transport. Each look at it remembers, once, by when what was sent
    since the last look must be taken; so no more is remembered than there are looks in one deadline.
    """

    sent: int = 0
    _due: deque[tuple[int, float]] = field(default_factory=deque)  # (`sent` then, when it must be taken)

    def is_slow(self, now: float, queued: int, patience: Patience = PATIENCE) -> bool:
        """Tell whether bytes that were queued a whole deadline ago are queued still."""
        due = self._due
        if queued <= 0:
            due.clear()
            return False
        while due and due[0][0] <= self.sent - queued:
            due.popleft()
        if not due or due[-1][0] < self.sent:
            due.append((self.sent, now + patience.time_for(queued)))
        return now >= due[0][1]


class Keepalive(Enum):
    """What a link's silence asks for."""

    NOTHING = auto()
    PING = auto()
    DEAD = auto()


def keepalive(silent_s: float, *, pinged: bool, sweep_s: float, patience: Patience = PATIENCE) -> Keepalive:
    """Decide on a link that has been silent for `silent_s`; looked at every `sweep_s` (WIRE section 6).

    The end comes one sweep early, so that a half-open link is gone within the 20 s.
    """
    if pinged and silent_s >= patience.ping_s + patience.pong_s - sweep_s:
        return Keepalive.DEAD
    if not pinged and silent_s >= patience.ping_s:
        return Keepalive.PING
    return Keepalive.NOTHING
