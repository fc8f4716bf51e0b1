"""The offer: one request written to every link at once, its answers folded as they come (WIRE section 5)."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from filing.outcome import Filed, Outcome, Refused, read_answer, too_large
from hub.fold import Fold
from hub.roster import Link
from wire.connection import Outgoing
from wire.frames import Frame, Kind, encode
from wire.limits import MAX_FRAME_BYTES, MAX_FRAME_ID
from wire.payloads import CommFile, offer_payload
from wire.session import Session

COMM_FILE = "comm.file"


def refuse_if_too_large(request: CommFile) -> Refused | None:
    """Refuse a request whose offer would pass the cap (section 1).

    Judged with the longest id there is, so that the same text always gets the same verdict.
    """
    size = len(encode(Kind.REQ, MAX_FRAME_ID, COMM_FILE, offer_payload(request)))
    return too_large(size, MAX_FRAME_BYTES) if size > MAX_FRAME_BYTES else None


@dataclass(slots=True)
class _Open:
    """An offer that is out."""

    fold: Fold
    links: dict[Session, Link]
    verdict: asyncio.Future[Outcome]
    offered_at: float  # time.monotonic: the loop's own clock may tick in milliseconds


class Offers:
    """The offers that are out, by id. One counter numbers them, so one serialization serves every link."""

    def __init__(
        self, ids: Iterator[int], *, wait_s: float, in_file_order: Callable[[Iterable[str]], list[str]]
    ) -> None:
        """`wait_s`: a link's time, the lock wait plus 1 s."""
        self.wait_s = wait_s
        self.late_answers = 0
        self._ids = ids
        self._in_file_order = in_file_order
        self._open: dict[int, _Open] = {}
        self._last_id = 0

    async def offer(self, request: CommFile, links: Sequence[Link], not_linked: Sequence[str]) -> Outcome:
        """Offer to `links` and return the verdict, at the first moment it is determined and within `wait_s`.

        Every link's copy is written before any answer is waited for; none waits for another.
        """
        loop = asyncio.get_running_loop()
        asked = {link.session: link for link in links}
        fold = Fold(
            request.to,
            {session: link.host for session, link in asked.items()},
            not_linked=not_linked,
            wait_s=self.wait_s,
            in_file_order=self._in_file_order,
        )
        if fold.verdict is not None:
            return fold.verdict
        offer_id = self._last_id = next(self._ids)
        outgoing = Outgoing(encode(Kind.REQ, offer_id, COMM_FILE, offer_payload(request)))
        out = self._open[offer_id] = _Open(fold, asked, loop.create_future(), time.monotonic())
        deadline = loop.call_later(self.wait_s, self._out_of_time, out)
        try:
            for link in links:
                link.offers += 1
                link.session.send(outgoing)
            return await out.verdict
        finally:
            deadline.cancel()
            del self._open[offer_id]

    def answered(self, session: Session, frame: Frame) -> None:
        """Take a `res` from a link. One that answers no open offer of its own is late, or nobody's."""
        if frame.op != COMM_FILE:
            return
        out = self._open.get(frame.id)
        if out is None or not out.fold.waits_for(session):
            if frame.id <= self._last_id:
                self.late_answers += 1
            return
        link = out.links[session]
        link.last_answer_ms = (time.monotonic() - out.offered_at) * 1000
        if isinstance(read_answer(link.host, frame.payload), Filed):
            link.filed += 1
        _settle(out, out.fold.answered(session, frame.payload))

    def link_ended(self, session: Session) -> None:
        """Take the end of a link: every offer that waits for it goes on without it."""
        for out in list(self._open.values()):
            _settle(out, out.fold.ended(session))

    def _out_of_time(self, out: _Open) -> None:
        _settle(out, out.fold.out_of_time())


def _settle(out: _Open, verdict: Outcome | None) -> None:
    if verdict is not None and not out.verdict.done():
        out.verdict.set_result(verdict)
