"""Hubs as real processes. A patient one never runs out of time inside a test, so that an answer which comes
at all came at once; a hasty one makes every deadline short.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from deploy.fleet import Box, Daemon, Fleet
from tests.support.peers import Peers, open_peers

if sys.platform == "win32":
    collect_ignore_glob = ["test_*.py"]  # Unix sockets, signals and real nc; tests/wire has the pipes

HUB = "hub"
LOCK_WAIT = "SOT_INBOX_LOCK_WAIT_SECS"
PATIENT = {LOCK_WAIT: "600"}
HASTY = {LOCK_WAIT: "0.3"}
DRAIN_BOUND_S = 12  # for an exit that section 6 bounds at 8 s
HASTY_LINK_TIME = "1.3s"  # the lock wait and 1 s, as sentences say it


@dataclass
class Hub:
    """A hub on box 'hub' that listens on its Unix socket and on a free WebSocket port."""

    fleet: Fleet
    daemon: Daemon

    @property
    def box(self) -> Box:
        return self.fleet.box(HUB)

    @property
    def unix(self) -> str:
        return self.box.endpoint

    @property
    def ws(self) -> str:
        return self.daemon.endpoint("ws")

    @property
    def both(self) -> tuple[str, str]:
        return self.unix, self.ws

    def status(self) -> dict[str, Any]:
        return self.fleet.ask(HUB, "hub.status", {})

    def log(self) -> str:
        return self.daemon.log.read_text(errors="replace")


async def exit_code(daemon: Daemon) -> int:
    """Wait for a daemon that was told to stop; section 6 bounds its end, and past that the test fails."""
    return await asyncio.to_thread(daemon.process.wait, DRAIN_BOUND_S)


def hub_in(fleet: Fleet, **how: Any) -> Hub:
    return Hub(fleet, fleet.start_hub(HUB, web_socket=True, **how))


@pytest.fixture(scope="module")
def patient() -> Iterator[Hub]:
    with Fleet(PATIENT) as fleet:
        yield hub_in(fleet)


@pytest.fixture(scope="module")
def hasty() -> Iterator[Hub]:
    with Fleet(HASTY) as fleet:
        yield hub_in(fleet)


@pytest.fixture(scope="module")
def default() -> Iterator[Hub]:
    with Fleet() as fleet:
        yield hub_in(fleet)


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with Fleet(PATIENT) as fleet:
        yield fleet


@pytest.fixture
async def peers(request: pytest.FixtureRequest) -> AsyncIterator[Peers]:
    """Connections of one test; the hubs that modules share have seen the end of each link when it is over."""
    hubs = [
        request.getfixturevalue(name)
        for name in ("patient", "hasty", "default")
        if name in request.fixturenames
    ]
    async with open_peers() as opened:
        yield opened
    for hub in hubs:
        hub.fleet.wait_linked(HUB, [])
