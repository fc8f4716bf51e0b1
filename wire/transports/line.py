"""Lines over a byte stream: `unix:`, the stdio of `ssh:`, and `pipe:` (WIRE section 2).

One frame a line. End of input is not the end of the connection: answers are still written.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, cast

from wire.closing import CloseReason
from wire.connection import Connection, FrameSink, Outgoing
from wire.frames import BadFrame, Frame, LineDecoder
from wire.inbound import Inbound
from wire.limits import LINGER_S, MAX_QUEUED_BYTES

SinkFactory = Callable[[Connection], FrameSink]


class LineConnection(Connection, asyncio.Protocol):
    """One line connection, as asyncio's protocol for one stream transport."""

    def __init__(
        self, transport_name: str, sink_of: SinkFactory, *, admit: Callable[[Any], str | None]
    ) -> None:
        """`admit` looks at the raw transport first: the peer's printable name, or None to drop it."""
        super().__init__()
        self.transport = transport_name
        self.peer = ""
        self.local = True
        self._sink_of = sink_of
        self._admit = admit
        self._stream: asyncio.Transport | None = None
        self._decoder = LineDecoder()
        self._inbound = Inbound()
        self._loop = asyncio.get_running_loop()
        self._end: tuple[CloseReason, str] | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._input_over = False

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._stream = cast("asyncio.Transport", transport)
        peer = self._admit(transport)
        if peer is None:
            self._end = (CloseReason.OTHER_ACCOUNT, "")
            self._stream.abort()
            return
        self.peer = peer
        self.last_received = self._loop.time()
        self._inbound.sink = self._sink_of(self)

    def data_received(self, data: bytes) -> None:
        if self._end is None:
            self._inbound.add(self._heard(self._decoder.feed(data)))

    def _heard(self, frames: Iterator[Frame | BadFrame]) -> Iterator[Frame | BadFrame]:
        # A frame is a sign of life, and bytes that complete none are not (section 6).
        for frame in frames:
            self.last_received = self._loop.time()
            yield frame

    def eof_received(self) -> bool:
        if self._end is not None:
            return False
        if not self._input_over:
            self._input_over = True
            self._inbound.end(self._decoder.end())
        return True  # keep the writing side open: section 2

    def connection_lost(self, exc: Exception | None) -> None:
        self._end = self._end or _lost(exc)
        self._goodbye_is_over()
        if self._linger is not None:
            self._linger.cancel()
        self._inbound.discard()
        sink, self._inbound.sink = self._inbound.sink, None
        if sink is not None:
            sink.connection_ended(*self._end)

    def stream_ended(self) -> None:
        """Take the word of a stream of two pipes that one of them is gone: the other must go soon."""
        if self._stream is not None:
            self._stream.close()
            self._bound_the_goodbye()

    # Connection

    def send(self, outgoing: Outgoing) -> None:
        if self._stream is None or self._end is not None or self._stream.is_closing():
            return
        self._stream.write(outgoing.text + b"\n")
        self.write_watch.sent += len(outgoing.text) + 1
        if self._stream.get_write_buffer_size() > MAX_QUEUED_BYTES:
            self.abort(CloseReason.QUEUE_FULL)

    def queued_bytes(self) -> int:
        return self._stream.get_write_buffer_size() if self._stream is not None else 0

    def ping(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self._inbound.paused = True
        if self._stream is not None and not self._stream.is_closing():
            self._stream.pause_reading()

    def resume_reading(self) -> None:
        self._inbound.paused = False
        self._inbound.deliver()
        if self._inbound.paused or self._input_over or self._stream is None or self._stream.is_closing():
            return
        self._stream.resume_reading()

    def close(self, reason: CloseReason, detail: str = "") -> None:
        if self._end is None:
            self._stop(reason, detail)
            if self._stream is not None:
                self._say_goodbye(self._stream)
                self._bound_the_goodbye()

    def abort(self, reason: CloseReason, detail: str = "") -> None:
        self._stop(reason, detail)
        if self._stream is not None:
            self._stream.abort()

    def _say_goodbye(self, stream: asyncio.Transport) -> None:
        """Write what is queued, then the end. For LINGER_S, what the peer still sends is read and dropped.

        A close with unread bytes is a reset, and many a client loses the answer that stands in front of one.
        """
        if self._input_over or stream.is_closing() or not stream.can_write_eof():
            stream.close()
            return
        stream.write_eof()
        self._linger = self._loop.call_later(LINGER_S, stream.close)
        if self._inbound.paused:
            self._inbound.paused = False
            stream.resume_reading()

    def _stop(self, reason: CloseReason, detail: str) -> None:
        self._end = self._end or (reason, detail)
        self._decoder.abandon()
        self._inbound.discard()


def _lost(exc: Exception | None) -> tuple[CloseReason, str]:
    if exc is None:
        return CloseReason.PEER_LEFT, ""
    return CloseReason.CONNECTION_LOST, str(exc)
