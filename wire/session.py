"""One connection's conversation: hello first, then requests both ways (WIRE sections 1, 3, 4).

A session hears its connection (`FrameSink`) and owns what is said on it. It runs on the loop's thread;
nothing in it waits. A request whose op answers later runs as a task of the owner's TaskGroup, so that one
slow verdict holds up no other. `ServedSession` is the side that admits, `DialledSession` the side that
knocks.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, Protocol

from wire import codes
from wire.admission import HELLO, Door, RefusedHello, reply
from wire.closing import CloseReason
from wire.connection import PATIENCE, Connection, Keepalive, Outgoing, Patience, keepalive
from wire.frames import (
    BAD_FRAME,
    TOO_LARGE,
    AnswerTooLargeError,
    BadFrame,
    Frame,
    Kind,
    Payload,
    encode,
    encode_answer,
    is_refusal,
    refusal,
)
from wire.limits import MAX_FILINGS, MAX_FRAME_BYTES, MAX_IN_FLIGHT
from wire.payloads import BadPayloadError, Hello

log = logging.getLogger("sot.wire")

PING = "ping"

Answer = dict[str, Any]
Op = Callable[["Session", Answer], Answer | Coroutine[Any, Any, Answer]]


class ConnectionEndedError(ConnectionError):
    """The connection ended before a request of ours was answered; `reason` says why it ended."""

    def __init__(self, reason: CloseReason, detail: str) -> None:
        super().__init__(f"{reason.value}: {detail}" if detail else reason.value)
        self.reason = reason


class Owner(Protocol):
    """Who a session belongs to: the hub's server, or a link's dialler."""

    ids: Iterator[int]  # numbers every request this side makes, on whatever connection

    @property
    def ops(self) -> Mapping[str, Op]: ...

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run one request's work as a task that somebody awaits."""

    def answered(self, session: "Session", frame: Frame) -> None:
        """Hear a `res` that no `request()` of the session waits for: the answer to an offer, or nobody's."""

    def ended(self, session: "Session", reason: CloseReason, detail: str) -> None: ...


class Session:
    """What both sides share: serving requests, asking, and ending."""

    most_in_flight = MAX_IN_FLIGHT

    def __init__(self, connection: Connection, owner: Owner, patience: Patience = PATIENCE) -> None:
        self.connection = connection
        connection.patience = patience
        self.hello: Hello | None = None  # the peer's, once it is admitted
        self.in_flight = 0
        self.is_link = False  # watched by the keepalive
        self.closing = False
        self._owner = owner
        self._patience = patience
        self._input_over = False
        self._close_when_answered: tuple[CloseReason, str] | None = None
        self._asked: dict[tuple[int, str], asyncio.Future[Answer]] = {}
        self._pinged_at = float("-inf")

    # What the connection says

    def frame_received(self, frame: Frame | BadFrame) -> None:
        try:
            self._hear(frame)
        except Exception:  # one connection's surprise must not touch another
            log.exception("internal error on a frame from %s; its connection is closed", self.connection.peer)
            self.close(CloseReason.INTERNAL_ERROR)

    def input_ended(self) -> None:
        self._input_over = True
        self._close_if_done()

    def connection_ended(self, reason: CloseReason, detail: str) -> None:
        self.closing = True
        for waiting in self._asked.values():
            if not waiting.done():
                waiting.set_exception(ConnectionEndedError(reason, detail))
        self._asked.clear()
        self._owner.ended(self, reason, detail)

    # What the owner says

    def send(self, outgoing: Outgoing) -> None:
        self.connection.send(outgoing)

    def event(self, op: str, payload: Payload) -> None:
        """Send an event: id 0, never answered."""
        self.send(Outgoing(encode(Kind.EVT, 0, op, payload)))

    async def request(self, op: str, payload: Payload) -> Answer:
        """Ask the peer and return its answer's payload. Bound it with `asyncio.timeout`; a late answer is
        ignored.

        A request that would pass the cap is not sent: the refusal `too_large` is its answer, as the peer
        would have said it, and the connection lives on. Raises ConnectionEndedError when the connection ends
        first.
        """
        if self.closing:
            raise ConnectionEndedError(CloseReason.CONNECTION_LOST, "")
        frame_id = next(self._owner.ids)
        text = encode(Kind.REQ, frame_id, op, payload)
        if len(text) > MAX_FRAME_BYTES:
            return refusal(TOO_LARGE, f"the request is {len(text)} bytes; the cap is {MAX_FRAME_BYTES}")
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._asked[frame_id, op] = waiting
        try:
            self.send(Outgoing(text))
            return await waiting
        finally:
            self._asked.pop((frame_id, op), None)

    def close(self, reason: CloseReason, detail: str = "") -> None:
        """Send what is queued and end. What is still in flight is answered to nobody."""
        self.closing = True
        self.connection.close(reason, detail)

    def close_when_answered(self, reason: CloseReason, detail: str = "") -> None:
        """Read and serve nothing more; end as soon as every earlier request is answered."""
        self._close_when_answered = (reason, detail)
        self.connection.pause_reading()
        self._close_if_done()

    def sweep(self, now: float, sweep_s: float) -> None:
        """Look for a peer that takes nothing, or a link that has gone silent. Called every `sweep_s`."""
        connection = self.connection
        if connection.write_watch.is_slow(now, connection.queued_bytes(), self._patience):
            self.closing = True
            connection.abort(CloseReason.SLOW_PEER, f"{connection.queued_bytes()} bytes not taken in time")
        elif self.is_link and not self.closing:
            self._watch_silence(now, sweep_s)

    # How it works

    def _hear(self, frame: Frame | BadFrame) -> None:
        if self.closing or self._close_when_answered is not None:
            return
        if isinstance(frame, BadFrame):
            self._refuse_bad_frame(frame)
        elif frame.kind is Kind.REQ:
            self._hear_request(frame)
        elif frame.kind is Kind.RES:
            self._hear_answer(frame)
        elif frame.id == 0:  # an event with another id is ignored
            self._hear_event(frame)

    def _hear_request(self, frame: Frame) -> None:
        if not self.connection.framed and "blob" in frame.payload:
            self._answer(frame, refusal(codes.BAD_REQUEST, codes.NO_BLOB))
            self.close_when_answered(CloseReason.BLOB)
        elif frame.op == HELLO:
            self.close_when_answered(CloseReason.SECOND_HELLO)
        else:
            self._serve(frame)

    def _hear_answer(self, frame: Frame) -> None:
        waiting = self._asked.get((frame.id, frame.op))
        if waiting is None:
            self._owner.answered(self, frame)
        elif not waiting.done():
            waiting.set_result(frame.payload)

    def _hear_event(self, frame: Frame) -> None:
        pass

    def _refuse_bad_frame(self, bad: BadFrame) -> None:
        self.send(Outgoing(encode_answer(0, BAD_FRAME, refusal(BAD_FRAME, bad.why))))
        if not self.connection.framed:
            # A stream that broke is not trusted, but what was asked before it broke is still answered.
            self.close_when_answered(CloseReason.BAD_FRAME, bad.why)

    def _serve(self, frame: Frame) -> None:
        op = self._owner.ops.get(frame.op)
        if op is None:
            self._answer(frame, refusal(codes.UNKNOWN_OP, codes.unknown_op(frame.op)))
            return
        try:
            answer = op(self, frame.payload)
        except Exception as error:  # noqa: BLE001  # logged and answered; it must touch nothing else
            answer = self._failure(frame, error)
        if isinstance(answer, dict):
            self._answer(frame, answer)
        else:
            self._begin()
            self._owner.run(self._answer_later(frame, answer))

    async def _answer_later(self, frame: Frame, work: Coroutine[Any, Any, Answer]) -> None:
        try:
            answer = await work
        except Exception as error:  # noqa: BLE001  # logged and answered; it must touch nothing else
            answer = self._failure(frame, error)
        self._answer(frame, answer)
        self._finish()

    def _failure(self, frame: Frame, error: Exception) -> Answer:
        if isinstance(error, BadPayloadError):
            return refusal(codes.BAD_REQUEST, f"{frame.op}: {error}")
        log.error("internal error serving %s from %s", frame.op, self.connection.peer, exc_info=error)
        return refusal(codes.INTERNAL_ERROR, codes.INTERNAL)

    def _answer(self, frame: Frame, answer: Answer) -> None:
        try:
            text = encode_answer(frame.id, frame.op, answer)
        except AnswerTooLargeError as error:
            text = encode_answer(frame.id, frame.op, refusal(TOO_LARGE, str(error)))
        except (TypeError, ValueError) as error:  # no JSON: a file name's lone surrogate in a sentence, say
            text = encode_answer(frame.id, frame.op, self._failure(frame, error))
        self.send(Outgoing(text))

    def _begin(self) -> None:
        self.in_flight += 1
        if self.in_flight >= self.most_in_flight:
            self.connection.pause_reading()

    def _finish(self) -> None:
        self.in_flight -= 1
        held_back = self.in_flight == self.most_in_flight - 1
        if held_back and not self.closing and self._close_when_answered is None:
            self.connection.resume_reading()
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self.in_flight or self.closing:
            return
        if self._close_when_answered is not None:
            self.close(*self._close_when_answered)
        elif self._input_over:
            self.close(CloseReason.PEER_LEFT)

    def _watch_silence(self, now: float, sweep_s: float) -> None:
        connection = self.connection
        silent_s = now - connection.last_received
        pinged = connection.last_received < self._pinged_at
        match keepalive(silent_s, pinged=pinged, sweep_s=sweep_s, patience=self._patience):
            case Keepalive.DEAD:
                self.closing = True
                connection.abort(CloseReason.KEEPALIVE, f"silent for {silent_s:.0f} s")
            case Keepalive.PING:
                self._pinged_at = now
                if not connection.ping():
                    self.send(Outgoing(encode(Kind.REQ, next(self._owner.ids), PING, {})))
            case Keepalive.NOTHING:
                pass


class ServingOwner(Owner, Protocol):
    """The owner of sessions that knock here."""

    self_host: str

    def door(self) -> Door: ...

    def full(self) -> bool:
        """Tell whether a connection limit leaves no room for one more admitted connection."""

    def admitted(self, session: "ServedSession", hello: Hello) -> int:
        """Take an admitted session in; return how many connections are admitted now, this one included."""

    def greeted(self, session: "ServedSession") -> None:
        """Go on after the hello's answer was sent."""

    def refused(self, session: "ServedSession", refused: RefusedHello) -> None: ...


class ServedSession(Session):
    """The side that admits: the first frame is a hello, whole, within `patience.hello_s` (section 3)."""

    def __init__(self, connection: Connection, owner: ServingOwner, patience: Patience = PATIENCE) -> None:
        super().__init__(connection, owner, patience)
        self.session_id = ""
        self._serving: ServingOwner = owner
        loop = asyncio.get_running_loop()
        self._hello_timer: asyncio.TimerHandle | None = loop.call_later(patience.hello_s, self._too_late)

    def connection_ended(self, reason: CloseReason, detail: str) -> None:
        self._stop_hello_timer()
        super().connection_ended(reason, detail)

    def input_ended(self) -> None:
        if self.hello is None and not self.closing:
            self.close(CloseReason.PEER_LEFT)
        else:
            super().input_ended()

    def _hear(self, frame: Frame | BadFrame) -> None:
        if self.hello is not None or isinstance(frame, BadFrame) or self.closing:
            super()._hear(frame)
        elif self._close_when_answered is None:
            self._hear_hello(frame)

    def _hear_hello(self, frame: Frame) -> None:
        owner, connection = self._serving, self.connection
        if not connection.framed and "blob" in frame.payload:
            verdict: Hello | RefusedHello = RefusedHello(
                codes.UNAUTHENTICATED, refusal(codes.UNAUTHENTICATED, codes.NO_BLOB)
            )
        else:
            verdict = owner.door().admit(frame, credential_host=connection.credential_host, full=owner.full())
        self._stop_hello_timer()
        if isinstance(verdict, RefusedHello):
            owner.refused(self, verdict)
            self._answer(frame, verdict.payload)
            self.close(CloseReason.HELLO_REFUSED, verdict.code)
            return
        self.hello = verdict
        self.session_id = secrets.token_hex(8)
        count = owner.admitted(self, verdict)
        self._answer(frame, reply(owner.self_host, self.session_id, count))
        owner.greeted(self)

    def _too_late(self) -> None:
        self._hello_timer = None
        self.closing = True
        self.connection.abort(CloseReason.HELLO_TIMEOUT, f"no hello within {self._patience.hello_s:g} s")

    def _stop_hello_timer(self) -> None:
        if self._hello_timer is not None:
            self._hello_timer.cancel()
            self._hello_timer = None


class HelloRefusedError(ConnectionError):
    """The peer refused our hello: its code and its own words."""

    def __init__(self, code: str, words: str) -> None:
        super().__init__(words)
        self.code = code


class DialledSession(Session):
    """The side that knocks: says hello, serves requests once it is let in."""

    most_in_flight = MAX_FILINGS  # a link files each offer as it comes; 64 held locks delay no other answer

    def __init__(
        self,
        connection: Connection,
        owner: Owner,
        hello: Payload,
        *,
        watched: bool,
        patience: Patience = PATIENCE,
    ) -> None:
        """`watched` puts the connection under the keepalive of section 6."""
        super().__init__(connection, owner, patience)
        loop = asyncio.get_running_loop()
        self.superseded = False
        self._watched = watched
        self._let_in: asyncio.Future[Answer] = loop.create_future()
        self._ended: asyncio.Future[tuple[CloseReason, str]] = loop.create_future()
        self._hello_id = next(owner.ids)
        self.send(Outgoing(encode(Kind.REQ, self._hello_id, HELLO, hello)))

    async def greeting(self) -> Answer:
        """Wait for the hello's answer. Raises HelloRefusedError, ConnectionEndedError; bound it with a
        timeout.
        """
        answer = await asyncio.shield(self._let_in)
        if is_refusal(answer):
            code = answer.get("code")
            raise HelloRefusedError(code if isinstance(code, str) else "", answer["error"])
        return answer

    async def wait_ended(self) -> tuple[CloseReason, str]:
        """Wait for the end of the connection and return why it ended."""
        return await asyncio.shield(self._ended)

    def connection_ended(self, reason: CloseReason, detail: str) -> None:
        if self.superseded and reason is CloseReason.PEER_LEFT:
            reason = CloseReason.SUPERSEDED
        if not self._let_in.done():
            self._let_in.set_exception(ConnectionEndedError(reason, detail))
            self._let_in.exception()  # nobody may be waiting for it any more
        if not self._ended.done():
            self._ended.set_result((reason, detail))
        super().connection_ended(reason, detail)

    def _hear_request(self, frame: Frame) -> None:
        if self.is_link or not self._watched:
            super()._hear_request(frame)

    def _hear_answer(self, frame: Frame) -> None:
        if frame.op == HELLO and frame.id == self._hello_id and not self._let_in.done():
            self._let_in.set_result(frame.payload)
            # Serve from this very frame on: an offer may stand right behind the greeting.
            self.is_link = self._watched and not is_refusal(frame.payload)
        else:
            super()._hear_answer(frame)

    def _hear_event(self, frame: Frame) -> None:
        if frame.op == "link.superseded":
            self.superseded = True
