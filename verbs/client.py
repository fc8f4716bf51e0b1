"""One request, one answer: what a sender makes of what a daemon says (PROTOCOL "The one result", WIRE 2, 5).

`Lines` and `Conversation` are pure: bytes in, a verdict out, no clock and no socket. `ask` drives a
`Channel`, which is where each transport's I/O is.
"""

import time

from verbs.fast_json import parse
from verbs.frames import HELLO, HELLO_ID, REQUEST_ID
from wire.limits import FRAME_VERSION, MAX_FRAME_BYTES

_LAST_LOOK_S = 0.1  # past the deadline, for what had arrived; a flood of junk is not read to its end
_PROTOCOL_MISMATCH = "protocol_mismatch"


class Accepted:
    """The daemon said `ok:true`; `payload` is the whole answer."""

    __slots__ = ("payload",)
    __match_args__ = ("payload",)

    def __init__(self, payload: dict[str, object]) -> None:
        self.payload = payload


class Refused:
    """A daemon's own words; nothing was added, unless they say otherwise."""

    __slots__ = ("reason",)
    __match_args__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


class NoAnswer:
    """No verdict came, so nothing is known."""

    __slots__ = ()


Verdict = Accepted | Refused | NoAnswer


class Conversation:
    """What one daemon has said to a hello and one request (PROTOCOL "The one result").

    An answer to the request decides, whatever was said to the hello: an older daemon refuses a hello for its
    protocol and answers the request all the same. Any other refusal of a hello ends the conversation.
    """

    __slots__ = ("_answer", "_hello_refused", "_may_still_answer", "_op")

    def __init__(self, op: str) -> None:
        self._op = op
        self._answer: Verdict | None = None
        self._hello_refused: Refused | None = None
        self._may_still_answer = True

    def take(self, frame: bytes) -> None:
        """Take one frame. Events, answers to others and what is no frame are ignored."""
        answered = _answer_in(frame)
        if answered is None or self._answer is not None:
            return
        frame_id, op, payload = answered
        error = payload.get("error")
        words = error if isinstance(error, str) else ""
        if frame_id == REQUEST_ID and op == self._op:
            self._answer = _verdict(payload, words)
        elif frame_id == HELLO_ID and op == HELLO and words and self._hello_refused is None:
            self._hello_refused = Refused(f"hello refused: {words}")
            code = payload.get("code")
            # A refusal that gives no code is an older daemon's too.
            self._may_still_answer = code == _PROTOCOL_MISMATCH or not isinstance(code, str)

    def decided(self) -> Verdict | None:
        """Return the verdict if nothing that may still come can change it.

        Asked after everything that has arrived was taken, so that an answer right behind a refused hello is
        not missed.
        """
        if self._answer is None and self._may_still_answer:
            return None
        return self.ended()

    def ended(self) -> Verdict:
        """Return the verdict when nothing more will come: the daemon closed, or the window did."""
        if self._answer is not None and not isinstance(self._answer, NoAnswer):
            return self._answer
        return self._hello_refused or NoAnswer()


def _answer_in(frame: bytes) -> tuple[int, str, dict[str, object]] | None:
    try:
        document = parse(frame)
    except ValueError:
        return None
    if not isinstance(document, dict) or document.get("v") != FRAME_VERSION or document.get("kind") != "res":
        return None
    frame_id, op, payload = document.get("id"), document.get("op"), document.get("payload")
    # type() and not isinstance(): a JSON true is a Python int.
    if type(frame_id) is not int or not isinstance(op, str) or not isinstance(payload, dict):
        return None
    return frame_id, op, payload


def _verdict(payload: dict[str, object], words: str) -> Verdict:
    # The presence of an error decides, never its code, and never an `ok` beside it.
    if words:
        return Refused(words)
    return Accepted(payload) if payload.get("ok") is True else NoAnswer()


class Lines:
    """Cuts a byte stream into frames at LF (WIRE section 1); it never holds more than one frame's bytes.

    A line over the cap sets `broken`, and nothing more is cut: a stream that broke is not trusted.
    """

    __slots__ = ("_held", "broken")

    def __init__(self) -> None:
        self._held = bytearray()
        self.broken = False

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames that `data` completes."""
        if self.broken:
            return []
        self._held += data
        frames: list[bytes] = []
        if b"\n" in data:
            *lines, rest = bytes(self._held).split(b"\n")
            self._held = bytearray(rest)
            for line in lines:
                if len(line) > MAX_FRAME_BYTES:
                    self.broken = True
                    break
                if line:
                    frames.append(line)
        if self.broken or len(self._held) > MAX_FRAME_BYTES:
            self.broken = True
            self._held.clear()
        return frames

    def rest(self) -> list[bytes]:
        """Return the unterminated last line, if there is one: at the end of input it is a frame."""
        frames = [bytes(self._held)] if self._held else []
        self._held.clear()
        return frames


class Channel:
    """One connection to a daemon. Deadlines are points on the monotonic clock, in seconds.

    No method raises for what a peer or a network does: a connection that breaks has ended, and `words` are
    what the transport itself then said.
    """

    sent = False  # whether any byte of the request may have left
    words = ""

    def send(self, frames: tuple[bytes, ...], deadline: float) -> None:
        """Write all frames, one after the other, without waiting for an answer."""
        raise NotImplementedError

    def receive(self, deadline: float) -> list[bytes] | None:
        """Return the next frames (perhaps none yet), None when the connection or the window has ended."""
        raise NotImplementedError

    def close(self) -> None:
        """Leave nothing behind: no descriptor, no process."""


def ask(channel: Channel, frames: tuple[bytes, ...], op: str, deadline: float) -> Verdict:
    """Write the hello and the request, read until the verdict on `op` is known or the window closes."""
    conversation = Conversation(op)
    channel.send(frames, deadline)
    while (verdict := conversation.decided()) is None:
        received = channel.receive(deadline)
        if received is None:
            return conversation.ended()
        for frame in received:
            conversation.take(frame)
            if time.monotonic() > deadline + _LAST_LOOK_S:
                return conversation.ended()
    return verdict
