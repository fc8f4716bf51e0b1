"""The frame: WIRE section 1. Bytes in, a Frame or a BadFrame out; and the way back.

Both transports use this: a WebSocket hands over each text message, a line transport what `LineDecoder` cut.
Nothing here knows a socket or a clock.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from wire.limits import FRAME_VERSION, MAX_FRAME_BYTES, MAX_FRAME_ID, MAX_OP_CHARS
from wire.strict_json import NotStrictJsonError, dump, parse

BAD_FRAME = "bad_frame"
TOO_LARGE = "too_large"

Payload = Mapping[str, Any]


class Kind(StrEnum):
    """What a frame is: a request, the answer to one, or an event that is never answered."""

    REQ = "req"
    RES = "res"
    EVT = "evt"


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame, its members checked against the table of section 1."""

    id: int
    kind: Kind
    op: str
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class BadFrame:
    """What a transport got instead of a frame. `why` is a sentence for the peer."""

    why: str


class AnswerTooLargeError(ValueError):
    """A frame of ours would pass the cap, and it is not a refusal whose sentence could be cut."""


def decode(text: bytes) -> Frame | BadFrame:
    """Read one frame from `text` (a line without its LF, or a WebSocket text message)."""
    if len(text) > MAX_FRAME_BYTES:
        return over_the_cap(len(text))
    try:
        document = parse(text)
    except NotStrictJsonError as error:
        return BadFrame(f"not a frame: {error}")
    if not isinstance(document, dict):
        return BadFrame("not a frame: the document is no object")
    version, frame_id, kind = document.get("v"), document.get("id"), document.get("kind")
    op, payload = document.get("op"), document.get("payload")
    # type() and not isinstance(): a JSON true is a Python int.
    if type(version) is not int or version != FRAME_VERSION:
        return BadFrame(f"not a frame: 'v' is not {FRAME_VERSION}")
    if type(frame_id) is not int or not 0 <= frame_id <= MAX_FRAME_ID:
        return BadFrame("not a frame: 'id' is no integer from 0 to 2^63-1")
    if not isinstance(kind, str) or kind not in _KINDS:
        return BadFrame("not a frame: 'kind' is none of req, res, evt")
    if not isinstance(op, str) or not 1 <= len(op) <= MAX_OP_CHARS:
        return BadFrame(f"not a frame: 'op' is no string of 1 to {MAX_OP_CHARS} characters")
    if not isinstance(payload, dict):
        return BadFrame("not a frame: 'payload' is no object")
    return Frame(frame_id, _KINDS[kind], op, payload)


def over_the_cap(size: int | None = None) -> BadFrame:
    """Return what a frame past the cap is answered with; `size` in bytes when it is known."""
    known = f"{size} bytes" if size is not None else "longer than the cap"
    return BadFrame(f"the frame is {known}; the cap is {MAX_FRAME_BYTES}")


def encode(kind: Kind, frame_id: int, op: str, payload: Payload) -> bytes:
    """Return the compact JSON text of one frame, members in the contract's order, without a line end."""
    return dump({"v": FRAME_VERSION, "id": frame_id, "kind": kind.value, "op": op, "payload": payload})


def refusal(code: str, sentence: str, extra: Payload | None = None) -> dict[str, Any]:
    """Return the payload of a refusal."""
    return {"error": sentence, "code": code, **(extra or {})}


def is_refusal(payload: Payload) -> bool:
    """Tell whether an answer is a refusal: a non-empty string `error`, whatever else it says (section 5)."""
    error = payload.get("error")
    return isinstance(error, str) and error != ""


def encode_answer(frame_id: int, op: str, payload: Payload) -> bytes:
    """Return the `res` to a request, never over the cap (section 1).

    A refusal that would pass it has its sentence cut at a character and ended in '…'; its code stays. (If
    that alone does not do, what else it carries is left out; only a code of absurd length is replaced.) A
    success that would pass it raises AnswerTooLargeError: only the op that built it knows what to say
    instead.
    """
    text = encode(Kind.RES, frame_id, op, payload)
    if len(text) <= MAX_FRAME_BYTES:
        return text
    if not is_refusal(payload):
        raise AnswerTooLargeError(f"an answer of {len(text)} bytes; the cap is {MAX_FRAME_BYTES}")
    return _cut_refusal(frame_id, op, payload)


def _cut_refusal(frame_id: int, op: str, payload: Payload) -> bytes:
    sentence = str(payload["error"])

    def text_of(kept: int) -> bytes:
        return encode(Kind.RES, frame_id, op, {**payload, "error": sentence[:kept] + "…"})

    if len(text_of(0)) > MAX_FRAME_BYTES:
        # Whatever made it so long, the refusal itself must still arrive.
        code = payload.get("code", TOO_LARGE)
        bare = refusal(code, sentence)
        return encode_answer(frame_id, op, bare if bare != payload else refusal(TOO_LARGE, sentence))
    fits, passes = 0, len(sentence)
    while passes - fits > 1:
        middle = (fits + passes) // 2
        if len(text_of(middle)) <= MAX_FRAME_BYTES:
            fits = middle
        else:
            passes = middle
    return text_of(fits)


class LineDecoder:
    """Cuts a byte stream into frames at LF: section 1 and 2.

    Feed it what was read; it yields a Frame or a BadFrame for each line, in order. An empty line is skipped.
    After a BadFrame nothing more is cut: a stream that broke is not trusted. It never keeps more than one
    line.
    """

    __slots__ = ("_broken", "_held", "_scanned")

    def __init__(self) -> None:
        self._held = bytearray()
        self._scanned = 0
        self._broken = False

    @property
    def held_bytes(self) -> int:
        """Bytes of a line whose LF has not come yet."""
        return len(self._held)

    def feed(self, data: bytes) -> Iterator[Frame | BadFrame]:
        """Yield what `data` completes. The iterator must be exhausted before the next call."""
        if self._broken:
            return
        if not self._held and data.endswith(b"\n") and len(data) <= MAX_FRAME_BYTES:
            # The common case: whole lines, nothing left over, nothing to copy.
            for line in data[:-1].split(b"\n"):
                if line and not self._broken:
                    yield self._decode(line)
            return
        self._held += data
        while not self._broken:
            end = self._held.find(b"\n", self._scanned)
            if end < 0:
                self._scanned = len(self._held)
                break
            line = bytes(self._held[:end])
            del self._held[: end + 1]
            self._scanned = 0
            if line:
                yield self._decode(line)
        if not self._broken and len(self._held) > MAX_FRAME_BYTES:
            self._broken = True
            yield over_the_cap()
        if self._broken:
            self._held.clear()

    def abandon(self) -> None:
        """Cut nothing more and forget what is held: the connection is about to be closed."""
        self._broken = True
        self._held.clear()

    def end(self) -> Iterator[Frame | BadFrame]:
        """Yield the unterminated last line, if there is one: at the end of input it is a frame."""
        if self._held and not self._broken:
            line = bytes(self._held)
            self._held.clear()
            yield self._decode(line)

    def _decode(self, line: bytes) -> Frame | BadFrame:
        frame = decode(line)
        if isinstance(frame, BadFrame):
            self._broken = True
        return frame


_KINDS = {kind.value: kind for kind in Kind}
