"""The link itself: dials the hub, says hello, stays, and comes back (WIRE section 6)."""

import asyncio
import logging
import math
import random
import secrets
from collections.abc import Coroutine, Iterator, Mapping
from typing import Any

from link.backoff import Backoff
from wire.admission import ROLE_LINK, hello_payload
from wire.closing import CloseReason
from wire.connection import Connection, FrameSink
from wire.frames import Frame
from wire.limits import HELLO_DEADLINE_S, RECONNECT_RESET_S, SWEEP_S
from wire.server import wait_until
from wire.session import DialledSession, HelloRefusedError, Op, Session
from wire.transports.dial import dial

log = logging.getLogger("sot.link")

_REFUSED_STATUSES = frozenset({401, 403})
_GOODBYE_S = 1.0
_WHY_CHARS = 500  # of a reason, which may hold the other side's own words


class Dialler:
    """Holds one link to the hub. Owns the sessions it dials; `session` is the one that is up, if any."""

    def __init__(
        self,
        self_host: str,
        endpoint: str,
        ops: Mapping[str, Op],
        ids: Iterator[int],
        *,
        connect_wait_s: float = HELLO_DEADLINE_S,
        sweep_s: float = SWEEP_S,
    ) -> None:
        self.ids = ids
        self.session: DialledSession | None = None
        self.down_why = "not connected yet"
        self.hub_host = ""  # as the hub's greeting names it
        self.finish_by = math.inf  # loop time, for what is being filed when `keep` is told to stop
        self._self_host = self_host
        self._endpoint = endpoint
        self._ops = ops
        self._connect_wait_s = connect_wait_s
        self._sweep_s = sweep_s
        self._instance = secrets.token_hex(8)
        self._tasks: asyncio.TaskGroup | None = None
        self._idle = asyncio.Event()
        self._work: set[asyncio.Task[None]] = set()
        self._said = ""

    # Owner of the sessions

    @property
    def ops(self) -> Mapping[str, Op]:
        return self._ops

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._tasks is not None  # noqa: S101  # sessions exist only inside `keep`
        self._idle.clear()
        task = self._tasks.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work_done)

    def answered(self, session: Session, frame: Frame) -> None:
        """Ignore a `res` that nobody asked for, or that comes too late."""

    def ended(self, session: Session, reason: CloseReason, detail: str) -> None:  # noqa: ARG002  # an Owner's
        if session is self.session:
            self.session = None

    # The link's life

    async def keep(self, stop: asyncio.Event) -> None:
        """Hold the link until `stop` is set; then answer what is being filed, until `finish_by`, and close.

        What is not answered by then is cancelled.
        """
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            holding = tasks.create_task(self._hold(), name="link")
            await stop.wait()
            session = self.session
            holding.cancel()
            await self._finish(session)
            for task in self._work:
                task.cancel()

    async def _hold(self) -> None:
        backoff = Backoff()
        while True:
            lasted_s, at_cap, why = 0.0, False, ""
            try:
                session = await self._connect()
            except HelloRefusedError as error:
                at_cap, why = True, f"hello refused: {error}"
            except TimeoutError:
                why = f"{self._endpoint} did not answer within {self._connect_wait_s:g} s"
            except OSError as error:
                at_cap = getattr(error, "status", None) in _REFUSED_STATUSES
                why = f"{self._endpoint}: {error.strerror or error}"
            else:
                reason, why, lasted_s = await self._stay(session)
                at_cap = session.superseded or reason is CloseReason.SUPERSEDED
            why = self.down_why = why[:_WHY_CHARS]
            backoff = backoff.after(lasted_s)
            delay_s = backoff.delay_s(random.random(), at_cap=at_cap)  # noqa: S311  # spreads load, hides nothing
            self._say_down(why, delay_s)
            await asyncio.sleep(delay_s)

    async def _connect(self) -> DialledSession:
        made: list[DialledSession] = []

        def sink_of(connection: Connection) -> FrameSink:
            hello = hello_payload(
                self._self_host, role=ROLE_LINK, name=f"sotd-{self._self_host}", instance=self._instance
            )
            made.append(DialledSession(connection, self, hello, watched=True))
            return made[0]

        try:
            async with asyncio.timeout(self._connect_wait_s):
                await dial(self._endpoint, sink_of, timeout_s=self._connect_wait_s)
                greeting = await made[0].greeting()
        except BaseException:
            for session in made:
                session.connection.abort(CloseReason.PEER_LEFT)
            raise
        host = greeting.get("host")
        self.hub_host = host if isinstance(host, str) and host else self._endpoint
        return made[0]

    async def _stay(self, session: DialledSession) -> tuple[CloseReason, str, float]:
        loop = asyncio.get_running_loop()
        since = loop.time()
        self.session = session
        log.info("link up hub=%s endpoint=%s", self.hub_host, self._endpoint)
        try:
            reason, detail = await self._watch(session)
        finally:
            if self.session is session:
                self.session = None
        why = f"{reason.value}: {detail}" if detail else reason.value
        lasted_s = loop.time() - since
        if lasted_s >= RECONNECT_RESET_S:
            self._said = ""  # what ends a connection that lasted is news, even in the same words
        return reason, why, lasted_s

    async def _watch(self, session: DialledSession) -> tuple[CloseReason, str]:
        loop = asyncio.get_running_loop()
        due = loop.time() + self._sweep_s
        while True:
            try:
                async with asyncio.timeout_at(due):
                    return await session.wait_ended()
            except TimeoutError:
                now = loop.time()
                # After a stall of this process the hub's silence means nothing until its bytes were read.
                if now - due <= self._sweep_s:
                    session.sweep(now, self._sweep_s)
                due = now + self._sweep_s

    async def _finish(self, session: DialledSession | None) -> None:
        if self._work:
            await wait_until(self._idle, self.finish_by)
        if session is None:
            return
        session.close(CloseReason.SHUTDOWN)
        try:
            async with asyncio.timeout(_GOODBYE_S):
                await session.wait_ended()
        except TimeoutError:
            session.connection.abort(CloseReason.SHUTDOWN)

    def _work_done(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not self._work:
            self._idle.set()

    def _say_down(self, why: str, delay_s: float) -> None:
        level = logging.DEBUG if why == self._said else logging.WARNING
        self._said = why
        log.log(level, "link down: %s; dialling again in %.1f s", why, delay_s)
