"""comm.file at a link: the hub's offers, and what this box's own clients send (WIRE section 5)."""

import asyncio
import logging
from typing import Any

from filing import outcome
from filing.filer import Filer, FileRequest, Forward
from filing.outcome import Filed, Outcome, Refused, as_payload, read_answer
from link.dialler import Dialler
from wire.frames import Kind, encode
from wire.limits import MAX_FRAME_BYTES, MAX_FRAME_ID, MAX_IN_FLIGHT
from wire.payloads import CommFile, fit, offer_payload
from wire.session import Answer, ConnectionEndedError, Session

log = logging.getLogger("sot.link")

COMM_FILE = "comm.file"


class LinkDesk:
    """Files through `filing/`, and hands on to the hub what this box's folder does not list."""

    def __init__(self, filer: Filer, *, hand_on_wait_s: float, max_filings: int) -> None:
        """`hand_on_wait_s`: how long after a client's request the hub's verdict on it is waited for."""
        self.dialler: Dialler  # set before anything is served: it needs this desk's ops to be made
        self.draining = False
        self._filer = filer
        self._wait_s = hand_on_wait_s
        self._max_filings = max_filings
        self._in_flight = 0
        # At MAX_IN_FLIGHT the hub stops reading this link, and with it the answers to its own offers.
        self._hand_on_slots = asyncio.Semaphore(MAX_IN_FLIGHT - 1)

    def offered(self, _session: Session, payload: dict[str, Any]) -> Any:
        """Serve the hub's offer. Raises BadPayloadError. Never offered or forwarded again.

        Also while draining: a `busy` here would stand as the verdict on a handle that another box files.
        """
        request = fit(CommFile, payload)
        if (busy := self._busy()) is not None:
            return busy
        self._in_flight += 1
        return self._answer_offer(request)

    def comm_file(self, _session: Session, payload: dict[str, Any]) -> Any:
        """Serve a client of this box. Raises BadPayloadError."""
        request = fit(CommFile, payload)
        if self.draining:
            return as_payload(outcome.busy("this box's daemon is shutting down"))
        if (busy := self._busy()) is not None:
            return busy
        self._in_flight += 1
        return self._answer_client(request, asyncio.get_running_loop().time() + self._wait_s)

    def _busy(self) -> Answer | None:
        if self._in_flight >= self._max_filings:
            return as_payload(outcome.busy(f"this box's daemon has {self._in_flight} filings in flight"))
        return None

    async def _answer_offer(self, request: CommFile) -> Answer:
        try:
            verdict = await self._filer.file(FileRequest.of(request), offered=True)
        finally:
            self._in_flight -= 1
        if isinstance(verdict, Forward):
            verdict = outcome.not_here(request.to)
        _log("offer", request, verdict)
        return as_payload(verdict)

    async def _answer_client(self, request: CommFile, answer_by: float) -> Answer:
        try:
            verdict = await self._verdict(request, answer_by)
        finally:
            self._in_flight -= 1
        _log("client", request, verdict)
        return as_payload(verdict)

    async def _verdict(self, request: CommFile, answer_by: float) -> Outcome:
        match await self._filer.file(FileRequest.of(request)):
            case Forward():
                return await self._ask_hub(offer_payload(request), request.to, answer_by)
            case Refused(code=outcome.NOT_HERE) if not request.forwarded:
                payload = {**offer_payload(request), "forwarded": False}
                return await self._ask_hub(payload, request.to, answer_by)
            case verdict:
                return verdict

    async def _ask_hub(self, payload: Answer, handle: str, answer_by: float) -> Outcome:
        """Return the hub's verdict, verbatim, or why there is none by `answer_by` (loop time)."""
        dialler = self.dialler
        size = len(encode(Kind.REQ, MAX_FRAME_ID, COMM_FILE, payload))
        if size > MAX_FRAME_BYTES:
            # The hub would close the link on it, and with it every other box's mail to this one.
            return outcome.too_large(size, MAX_FRAME_BYTES)
        sent = False
        try:
            async with asyncio.timeout_at(answer_by), self._hand_on_slots:
                session = dialler.session
                if session is None or session.closing:
                    return outcome.link_down(dialler.down_why)
                sent = True
                answer = await session.request(COMM_FILE, payload)
        except TimeoutError:
            if not sent:
                return outcome.busy("this box's link has as many requests with the hub as it may")
            return outcome.no_answer([dialler.hub_host], self._wait_s, handle)
        except ConnectionEndedError:
            return outcome.no_answer([dialler.hub_host], self._wait_s, handle)
        return read_answer(dialler.hub_host, answer)


def _log(way: str, request: CommFile, verdict: Outcome) -> None:
    told = "filed" if isinstance(verdict, Filed) else verdict.code
    log.info(
        "comm.file way=%s from=%s to=%s outcome=%s", way, request.sender, request.to[:_LOGGED_CHARS], told
    )


_LOGGED_CHARS = 64  # of a `to`, which may be no handle and a megabyte long
