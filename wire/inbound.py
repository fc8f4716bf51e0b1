"""Frames that were read and not yet heard: handed to the sink one by one, until it asks to wait."""

from collections import deque
from collections.abc import Iterator

from wire.connection import FrameSink
from wire.frames import BadFrame, Frame


class Inbound:
    """The reading half of a connection, between the bytes and the sink.

    `paused` may be set by the sink in the middle of a delivery: the frames behind it wait here, in order, so
    that a peer's burst past MAX_IN_FLIGHT is held back to the frame. A transport stops reading while it is
    paused, so no more waits here than one read brought.
    """

    __slots__ = ("_delivering", "_ended", "_told", "_waiting", "paused", "sink")

    def __init__(self) -> None:
        self.sink: FrameSink | None = None
        self.paused = False
        self._waiting: deque[Iterator[Frame | BadFrame]] = deque()
        self._ended = False
        self._told = False
        self._delivering = False

    def add(self, frames: Iterator[Frame | BadFrame]) -> None:
        """Take what one read brought, cut lazily, and deliver as far as the sink lets it."""
        self._waiting.append(frames)
        self.deliver()

    def end(self, last: Iterator[Frame | BadFrame]) -> None:
        """Take the end of input, and the frame it terminates if any."""
        self._waiting.append(last)
        self._ended = True
        self.deliver()

    def discard(self) -> None:
        """Forget what waits: the connection is about to be closed."""
        self._waiting.clear()
        self._told = True

    def deliver(self) -> None:
        """Go on where a pause stopped. Safe to call from inside a delivery."""
        if self._delivering:
            return
        self._delivering = True
        try:
            while self._waiting and not self.paused and self.sink is not None:
                frame = next(self._waiting[0], None)
                if frame is not None:
                    self.sink.frame_received(frame)
                elif self._waiting:
                    self._waiting.popleft()
            if self._ended and not (self._waiting or self._told or self.paused) and self.sink is not None:
                self._told = True
                self.sink.input_ended()
        finally:
            self._delivering = False
