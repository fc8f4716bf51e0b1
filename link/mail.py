"""comm.file at a link: the hub's offers, and what this box's own clients send (WIRE section 5)."""

import asyncio
import logging
from typing import Any

from filing.filer import Filer, FileRequest, Forward

from filing import outcome
from filing.outcome import Filed, Outcome, Refused, as_payload, read_answer
from link.dialler import Dialler
from wire.limits import MAX_IN_FLIGHT
from wire.payloads import CommFile, fit
from wire.session import Answer, ConnectionEndedError, Session

log = logging.getLogger("sot.link")

COMM_FILE = "comm.file"


class LinkDesk:
    """Files through `filing/`, and hands on to the hub what this box's folder does not list."""

    def __init__(self, filer: Filer, *, hand_on_wait_s: float, max_filings: int) -> None:
        """`hand_on_wait_s`: how long the hub's verdict is waited for."""
        self.dialler: Dialler | None = None
        self.draining = False
        self._filer = filer
        self._wait_s = hand_on_wait_s
        self._max_filings = max_filings
        self._in_flight = 0
        # At MAX_IN_FLIGHT the hub stops reading this link, and with it the answers to its own offers.
        self._hand_on_slots = asyncio.Semaphore(MAX_IN_FLIGHT - 1)

    def offered(self, _session: Session, payload: dict[str, Any]) -> Any:
        """Serve the hub's offer. Raises BadPayloadError. Never offered or forwarded again."""
        request = fit(CommFile, payload)
        if (busy := self._busy()) is not None:
            return busy
        self._in_flight += 1
        return self._answer_offer(request)

    def comm_file(self, _session: Session, payload: dict[str, Any]) -> Any:
        """Serve a client of this box. Raises BadPayloadError."""
        request = fit(CommFile, payload)
        if (busy := self._busy()) is not None:
            return busy
        self._in_flight += 1
        return self._answer_client(request)

    def _busy(self) -> Answer | None:
        if self.draining:
            return as_payload(outcome.busy("this box's daemon is shutting down"))
        if self._in_flight >= self._max_filings:
            return as_payload(outcome.busy(f"this box's daemon has {self._in_flight} filings in flight"))
        return None

    async def _answer_offer(self, request: CommFile) -> Answer:
        try:
            verdict = await self._filer.file(_file_request(request), offered=True)
        finally:
            self._in_flight -= 1
        if isinstance(verdict, Forward):
            verdict = outcome.not_here(request.to)
        _log("offer", request, verdict)
        return as_payload(verdict)

    async def _answer_client(self, request: CommFile) -> Answer:
        try:
            verdict = await self._verdict(request)
        finally:
            self._in_flight -= 1
        _log("client", request, verdict)
        return as_payload(verdict)

    async def _verdict(self, request: CommFile) -> Outcome:
        match await self._filer.file(_file_request(request)):
            case Forward():
                return await self._ask_hub(request, forwarded=True)
            case Refused(code=outcome.NOT_HERE) if not request.forwarded:
                return await self._ask_hub(request, forwarded=False)
            case verdict:
                return verdict

    async def _ask_hub(self, request: CommFile, *, forwarded: bool) -> Outcome:
        """Return the hub's verdict, verbatim."""
        dialler = self.dialler
        if dialler is None or dialler.session is None:
            return outcome.link_down(dialler.down_why if dialler is not None else "it was never dialled")
        payload = {
            "from": request.sender,
            "to": request.to,
            "text": request.text,
            "broadcast": request.broadcast,
            "forwarded": forwarded,
        }
        sent = False
        try:
            async with asyncio.timeout(self._wait_s), self._hand_on_slots:
                session = dialler.session
                if session is None:
                    return outcome.link_down(dialler.down_why)
                sent = True
                answer = await session.request(COMM_FILE, payload)
        except TimeoutError:
            if not sent:
                return outcome.busy("this box's link has as many requests with the hub as it may")
            return outcome.no_answer([dialler.hub_host], self._wait_s, request.to)
        except ConnectionEndedError:
            return outcome.no_answer([dialler.hub_host], self._wait_s, request.to)
        return read_answer(dialler.hub_host, answer)


def _file_request(request: CommFile) -> FileRequest:
    return FileRequest(
        sender=request.sender,
        to=request.to,
        text=request.text,
        broadcast=request.broadcast,
        forwarded=request.forwarded,
    )


def _log(way: str, request: CommFile, verdict: Outcome) -> None:
    told = "filed" if isinstance(verdict, Filed) else verdict.code
    log.info("comm.file way=%s from=%s to=%s outcome=%s", way, request.sender, request.to, told)
