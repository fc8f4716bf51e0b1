"""A guest's one forward: what it may not append goes to the hub, once (PROTOCOL Delivery route 1)."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from filing import outcome
from filing.outcome import Outcome, read_answer
from wire.admission import hello_payload
from wire.closing import CloseReason
from wire.connection import Connection, FrameSink
from wire.frames import Frame
from wire.payloads import CommFile, offer_payload
from wire.session import ConnectionEndedError, DialledSession, HelloRefusedError, Op, Session
from wire.transports.dial import dial

log = logging.getLogger("sot.hub")


class HubForward:
    """Dials the hub for one request and hands its verdict back verbatim. Owns the session it dials."""

    def __init__(
        self, self_host: str, hub: str | None, endpoint: str | None, *, wait_s: float, ids: Iterator[int]
    ) -> None:
        """`hub` and `endpoint`: the hub's name and where it is dialled, None when nothing names one."""
        self.ids = ids
        self._self_host = self_host
        self._hub = hub
        self._endpoint = endpoint
        self._wait_s = wait_s

    @property
    def ops(self) -> Mapping[str, Op]:
        return {}

    async def __call__(self, request: CommFile) -> Outcome:
        """Return the hub's own verdict; `file_failed` when nothing was sent, `no_answer` when that is not
        known.
        """
        if self._endpoint is None or self._hub is None:
            return outcome.no_hub_named()
        sent = False
        dialled: list[DialledSession] = []
        try:
            async with asyncio.timeout(self._wait_s):
                await dial(self._endpoint, self._sink_into(dialled), timeout_s=self._wait_s)
                await dialled[0].greeting()
                sent = True
                answer = await dialled[0].request("comm.file", offer_payload(request))
        except HelloRefusedError as error:
            return outcome.hub_unreachable(self._hub, f"hello refused: {error}")
        except (TimeoutError, ConnectionEndedError, OSError) as error:
            if sent:
                return outcome.no_answer([self._hub], self._wait_s, request.to)
            if isinstance(error, TimeoutError):
                return outcome.hub_unreachable(self._hub, "it did not answer")
            return outcome.hub_unreachable(self._hub, error.strerror or str(error))
        finally:
            for session in dialled:
                # Not `close`: a hub that never says goodbye, or an ssh that hangs, would be left behind.
                session.connection.abort(CloseReason.PEER_LEFT)
        return read_answer(self._hub, answer)

    def run(self, work: Any) -> None:  # noqa: ARG002  # an Owner's name
        raise AssertionError("a forward serves no op")

    def answered(self, session: Session, frame: Frame) -> None:
        """Ignore what nobody asked for."""

    def ended(self, session: Session, reason: CloseReason, detail: str) -> None:
        """Nothing is kept for a session here."""

    def _sink_into(self, dialled: list[DialledSession]) -> Callable[[Connection], FrameSink]:
        def sink_of(connection: Connection) -> FrameSink:
            hello = hello_payload(self._self_host, role="bridge", name=f"sotd-{self._self_host}")
            dialled.append(DialledSession(connection, self, hello, watched=False))
            return dialled[0]

        return sink_of
