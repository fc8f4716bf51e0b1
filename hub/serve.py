"""One run of the hub: from its settings to its exit code (WIRE section 8)."""

import asyncio
import itertools
import logging
from collections.abc import Callable
from contextlib import suppress

from filing.filer import Filer, FilerSettings, TopologyState
from hub.forward import HubForward
from hub.mail import MailDesk
from hub.offers import Offers
from hub.roster import Roster
from hub.service import HubService
from hub.settings import HubSettings
from topology.endpoints import Endpoint, PipeEndpoint, UnixEndpoint, WebSocketEndpoint
from topology.model import Topology
from wire.limits import DRAIN_TOTAL_S
from wire.runtime import announce
from wire.server import Server

log = logging.getLogger("sot.hub")


async def serve(
    settings: HubSettings, topology: Topology | None, forward_endpoint: str | None, stop: asyncio.Event
) -> int:
    """Serve until `stop` is set, then drain; return the exit code: 0, or 1 when a listener could not be
    bound.
    """
    filer = Filer(
        FilerSettings(
            home=settings.comm_home,
            self_host=settings.self_host,
            topology=TopologyState.of(topology),
            lock_wait_s=settings.lock_wait_s,
            file_wait_s=settings.offer_wait_s,
        )
    )
    await filer.start()
    roster = Roster()
    in_file_order: Callable[..., list[str]] = topology.in_file_order if topology is not None else sorted
    should_hold = topology.link_holders() if topology is not None else ()
    ids = itertools.count(1)
    forward = HubForward(
        settings.self_host,
        topology.hub if topology is not None else None,
        forward_endpoint,
        wait_s=settings.offer_wait_s,
        ids=ids,
    )
    offers = Offers(ids, wait_s=settings.offer_wait_s, in_file_order=in_file_order)
    desk = MailDesk(
        filer,
        offers,
        roster,
        should_hold=should_hold,
        forward=forward,
        window_s=settings.window_s,
        max_filings=settings.max_filings,
    )
    service = HubService(settings.self_host, topology, roster, offers, desk)
    server = Server(settings.self_host, service, limits=settings.server, ids=ids)
    service.server = server
    end_by: float | None = None  # loop time, once told to stop
    loop = asyncio.get_running_loop()
    try:
        async with server.running():
            for endpoint in settings.listen:
                try:
                    listening = await _listen(server, endpoint)
                except OSError as error:
                    log.error("cannot listen on %s: %s", endpoint, error.strerror or error)  # noqa: TRY400
                    return 1
                if not announce(f"listening {listening}"):
                    return 1
            if not announce("ready"):
                return 1
            await stop.wait()
            end_by = loop.time() + DRAIN_TOTAL_S - _EXIT_S
            desk.draining = True
            await server.drain()
    finally:
        with suppress(TimeoutError):  # a filing whose end is not known: a flush that hangs, a long lock wait
            async with asyncio.timeout_at(end_by):
                await filer.close()
    return 0


async def _listen(server: Server, endpoint: Endpoint) -> str:
    match endpoint:
        case UnixEndpoint(path=path):
            return await server.listen_unix(path)
        case PipeEndpoint(name=name):
            return await server.listen_pipe(name)
        case WebSocketEndpoint(host=host, port=port):
            return await server.listen_websocket(host, port)
        case _:
            raise OSError(f"{endpoint} is no endpoint to listen on")


_EXIT_S = 0.5  # of DRAIN_TOTAL_S, for the interpreter to end
