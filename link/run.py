"""One run of a link's daemon: from its settings to its exit code (WIRE sections 6 and 8)."""

import asyncio
import itertools
import logging
from contextlib import suppress

from filing.filer import Filer, FilerSettings, TopologyState
from link.dialler import Dialler
from link.mail import COMM_FILE, LinkDesk
from link.service import LinkService, ping
from link.settings import LinkSettings
from topology.endpoints import UnixEndpoint
from topology.model import Topology
from wire.limits import DRAIN_S, DRAIN_TOTAL_S
from wire.runtime import announce
from wire.server import Server
from wire.session import PING

log = logging.getLogger("sot.link")


async def hold_link(settings: LinkSettings, topology: Topology | None, stop: asyncio.Event) -> int:
    """Hold the link until `stop` is set; return 0, or 1 when this box's own socket could not be bound.

    At the stop: what this box's clients asked is answered, then what the hub offered, then the link is
    closed.
    """
    filer = Filer(
        FilerSettings(
            home=settings.comm_home,
            self_host=settings.self_host,
            topology=TopologyState.of(topology),
            lock_wait_s=settings.lock_wait_s,
            file_wait_s=settings.file_wait_s,
        )
    )
    await filer.start()
    desk = LinkDesk(filer, hand_on_wait_s=settings.hand_on_wait_s, max_filings=settings.max_filings)
    ids = itertools.count(1)
    dialler = Dialler(settings.self_host, settings.hub, {COMM_FILE: desk.offered, PING: ping}, ids)
    desk.dialler = dialler
    service = LinkService(settings.self_host, topology.sha256 if topology is not None else "", desk)
    server = Server(settings.self_host, service, ids=ids, limits=settings.server)
    let_go = asyncio.Event()
    code = 0
    end_by: float | None = None  # loop time, once told to stop
    loop = asyncio.get_running_loop()
    try:
        async with server.running():
            try:
                if isinstance(settings.listen, UnixEndpoint):
                    listening = await server.listen_unix(settings.listen.path)
                else:
                    listening = await server.listen_pipe(settings.listen.name)
            except OSError as error:
                log.error("cannot listen on %s: %s", settings.listen, error.strerror or error)  # noqa: TRY400
                return 1
            if not announce(f"listening {listening}"):
                return 1
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(dialler.keep(let_go), name="keep the link")
                if announce("ready"):
                    await stop.wait()
                else:
                    code = 1
                dialler.finish_by = loop.time() + DRAIN_S
                end_by = loop.time() + DRAIN_TOTAL_S
                desk.draining = True
                # The link stays up meanwhile: what was handed on to the hub is answered over it.
                await server.drain()
                let_go.set()
    finally:
        with suppress(TimeoutError):  # a filing whose end is not known: a flush that hangs, a long lock wait
            async with asyncio.timeout_at(end_by):
                await filer.close()
    return code
