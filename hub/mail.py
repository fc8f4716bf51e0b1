"""comm.file at the hub: its own folder first, then the offer (PROTOCOL Delivery, WIRE section 5)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from filing import outcome
from filing.filer import Filer, FileRequest, Forward
from filing.outcome import Filed, Outcome, Refused, as_payload
from hub.offers import Offers, refuse_if_too_large
from hub.roster import Roster
from wire.payloads import CommFile, fit
from wire.session import Answer, Session

log = logging.getLogger("sot.hub")

ForwardToHub = Callable[[CommFile], Awaitable[Outcome]]


class MailDesk:
    """Gives each comm.file its one verdict, inside the sender's window, or says `busy` and tries nothing."""

    def __init__(
        self,
        filer: Filer,
        offers: Offers,
        roster: Roster,
        *,
        should_hold: tuple[str, ...],
        forward: ForwardToHub,
        window_s: float,
        max_filings: int,
    ) -> None:
        """`should_hold`: the boxes that should hold a link. `window_s`: how long a sender waits in all."""
        self.in_flight = 0
        self.draining = False
        self._filer = filer
        self._offers = offers
        self._roster = roster
        self._should_hold = should_hold
        self._forward = forward
        self._max_filings = max_filings
        # Past this much of the window, who is asked could not be given their time and still be in time.
        self._ask_by_s = window_s - offers.wait_s - _MARGIN_S

    def comm_file(self, session: Session, payload: dict[str, Any]) -> Any:
        """Serve the op. Raises BadPayloadError."""
        request = fit(CommFile, payload)
        if self.draining:
            return as_payload(outcome.busy("this hub is shutting down"))
        if self.in_flight >= self._max_filings:
            return as_payload(outcome.busy(f"this hub has {self.in_flight} filings in flight"))
        self.in_flight += 1
        return self._answer(session, request, asyncio.get_running_loop().time())

    async def _answer(self, session: Session, request: CommFile, arrived: float) -> Answer:
        loop = asyncio.get_running_loop()
        try:
            verdict = await self._verdict(request, arrived + self._ask_by_s)
        finally:
            self.in_flight -= 1
        log.info(
            "comm.file from=%s to=%s peer=%s outcome=%s ms=%.1f",
            request.sender,
            request.to[:_LOGGED_CHARS],
            session.connection.peer,
            "filed" if isinstance(verdict, Filed) else verdict.code,
            (loop.time() - arrived) * 1000,
        )
        return as_payload(verdict)

    async def _verdict(self, request: CommFile, ask_by: float) -> Outcome:
        match await self._filer.file(FileRequest.of(request)):
            case Forward():
                ask = self._forward
            case Refused(code=outcome.NOT_HERE) if not request.forwarded:
                ask = self._offer
            case verdict:
                return verdict
        if (refused := refuse_if_too_large(request)) is not None:
            return refused
        if asyncio.get_running_loop().time() > ask_by:
            return outcome.busy("this daemon is too loaded to ask another one inside the sender's window")
        return await ask(request)

    async def _offer(self, request: CommFile) -> Outcome:
        return await self._offers.offer(
            request, self._roster.links(), self._roster.not_linked(self._should_hold)
        )


_MARGIN_S = 0.25  # of the sender's window, for the way back
_LOGGED_CHARS = 64  # of a `to`, which may be no handle and a megabyte long
