"""The serving side of a daemon: its listeners, the sessions it admitted, the sweep, and the way it stops.

The hub has one for its sockets, a link's daemon has one for its own. What an op does is the `Service`'s; who
may come in is the `Door`'s. Everything runs on one loop, and every task belongs to the TaskGroup of `run`.
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from wire.admission import Door, RefusedHello
from wire.closing import CloseReason
from wire.connection import Connection, FrameSink, Patience
from wire.frames import Frame
from wire.limits import DRAIN_S, DRAIN_TOTAL_S, MAX_CONNECTIONS, SWEEP_S
from wire.payloads import Hello
from wire.session import Op, ServedSession, Session

log = logging.getLogger("sot.wire")


class Listener(Protocol):
    """Something that accepts; `close` stops it and leaves the connections it made alone."""

    def close(self) -> None: ...


class Service(Protocol):
    """What the daemon does with admitted sessions."""

    @property
    def ops(self) -> Mapping[str, Op]: ...

    def door(self) -> Door: ...

    def admitted(self, session: ServedSession, hello: Hello) -> None:
        """Take in a session whose hello is about to be answered."""

    def greeted(self, session: ServedSession) -> None:
        """Go on after the hello's answer was sent: a link may be offered mail from here on."""

    def refused(self, session: ServedSession, refused: RefusedHello) -> None: ...

    def answered(self, session: Session, frame: Frame) -> None: ...

    def ended(self, session: ServedSession, reason: CloseReason, detail: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits(Patience):
    """The server's bounds, its patience with a peer among them; each default is the contract's."""

    connections: int = MAX_CONNECTIONS
    sockets: int = 2 * MAX_CONNECTIONS  # connections that have not been admitted yet included
    sweep_s: float = SWEEP_S
    drain_s: float = DRAIN_S
    drain_total_s: float = DRAIN_TOTAL_S


class Server:
    """Listeners and their sessions. Use: `async with server.running(): await server.listen_unix(…)`."""

    def __init__(
        self, self_host: str, service: Service, *, ids: Iterator[int], limits: ServerLimits | None = None
    ) -> None:
        """`ids` numbers every request that this daemon makes."""
        self.self_host = self_host
        self.ids = ids
        self.limits = limits or ServerLimits()
        self.draining = False
        self.sessions: dict[
            ServedSession, None
        ] = {}  # every connection, admitted or not, in order of arrival
        self.admitted_count = 0
        self._service = service
        self._listeners: list[Listener] = []
        self._tasks: asyncio.TaskGroup | None = None
        self._nobody_left: asyncio.Event = asyncio.Event()
        self._idle = asyncio.Event()
        self._work: set[asyncio.Task[None]] = set()

    # Owner of the sessions

    @property
    def ops(self) -> Mapping[str, Op]:
        return self._service.ops

    def door(self) -> Door:
        return self._service.door()

    def full(self) -> bool:
        return self.admitted_count >= self.limits.connections

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._tasks is not None  # noqa: S101  # nothing is accepted outside `running`
        self._idle.clear()
        task = self._tasks.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work_done)

    def admitted(self, session: ServedSession, hello: Hello) -> int:
        self.admitted_count += 1
        self._service.admitted(session, hello)
        return self.admitted_count

    def greeted(self, session: ServedSession) -> None:
        self._service.greeted(session)

    def refused(self, session: ServedSession, refused: RefusedHello) -> None:
        self._service.refused(session, refused)

    def answered(self, session: Session, frame: Frame) -> None:
        self._service.answered(session, frame)

    def ended(self, session: Session, reason: CloseReason, detail: str) -> None:
        assert isinstance(session, ServedSession)  # noqa: S101  # _new_session makes no other
        self.sessions.pop(session, None)
        if session.hello is not None:
            self.admitted_count -= 1
        if not self.sessions:
            self._nobody_left.set()
        self._service.ended(session, reason, detail)

    # Listening

    async def listen_unix(self, path: str) -> str:
        """Listen on a Unix socket; return the endpoint. Raises OSError with the way out in its words."""
        from wire.transports import unix

        self._listeners.append(await unix.listen(path, self._new_session))
        return f"unix:{path}"

    async def listen_pipe(self, name: str) -> str:
        """Listen on a Windows named pipe; return the endpoint. Raises OSError."""
        from wire.transports import pipe

        self._listeners.append(await pipe.listen(name, self._new_session))
        return f"pipe:{name}"

    async def listen_websocket(self, host: str, port: int, *, tls: ssl.SSLContext | None = None) -> str:
        """Listen for WebSockets; return the endpoint with the port that was bound. Raises OSError."""
        from wire.transports import ws

        server, bound = await ws.listen(host, port, self._new_session, tls=tls)
        self._listeners.append(_WebSocketListener(server))
        printable = f"[{host}]" if ":" in host else host
        return f"{'wss' if tls else 'ws'}://{printable}:{bound}/"

    # Running and stopping

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Own the sweep and every request's task. On leaving, whatever is left is aborted and cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            sweep = tasks.create_task(self._sweep(), name="sweep")
            try:
                yield
            finally:
                sweep.cancel()
                self._stop_listening()
                self._abort_all()
                for task in self._work:
                    task.cancel()

    async def drain(self) -> None:
        """Stop (section 6): accept nothing, finish what is in flight, close, abort what does not."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        self.draining = True
        self._stop_listening()
        if self._work:
            log.info("draining: %d requests in flight", len(self._work))
            await wait_until(self._idle, started + self.limits.drain_s)
        for session in list(self.sessions):
            session.close(CloseReason.SHUTDOWN)
        if self.sessions:
            self._nobody_left.clear()
            await wait_until(self._nobody_left, min(started + self.limits.drain_total_s - 1, loop.time() + 1))
        self._abort_all()

    def _new_session(self, connection: Connection) -> FrameSink:
        session = ServedSession(connection, self, self.limits)
        if self.draining or len(self.sessions) >= self.limits.sockets:
            # Past this, even a refusal costs more than there is.
            connection.abort(CloseReason.SHUTDOWN if self.draining else CloseReason.CROWDED)
        self.sessions[session] = None
        return session

    def _work_done(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not self._work:
            self._idle.set()

    def _stop_listening(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()

    def _abort_all(self) -> None:
        for session in list(self.sessions):
            session.closing = True
            session.connection.abort(CloseReason.SHUTDOWN)

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        sweep_s = self.limits.sweep_s
        due = loop.time() + sweep_s
        while True:
            await asyncio.sleep(max(0.0, due - loop.time()))
            now = loop.time()
            # After a stall of this process nobody's silence means anything until the sockets are read.
            stalled = now - due > sweep_s
            due = now + sweep_s
            if not stalled:
                self._sweep_once(now, sweep_s)

    def _sweep_once(self, now: float, sweep_s: float) -> None:
        for session in list(self.sessions):
            try:
                session.sweep(now, sweep_s)
            except Exception:  # one connection's surprise must not touch another
                log.exception("internal error sweeping %s; it is dropped", session.connection.peer)
                session.connection.abort(CloseReason.INTERNAL_ERROR)


class _WebSocketListener:
    def __init__(self, server: Any) -> None:
        self._server = server

    def close(self) -> None:
        # The library's own close would also close the connections, and wait for them without a bound.
        self._server.server.close()


async def wait_until(event: asyncio.Event, deadline: float) -> None:
    """Wait for `event`, but not past `deadline` (loop time)."""
    try:
        async with asyncio.timeout_at(deadline):
            await event.wait()
    except TimeoutError:
        pass
