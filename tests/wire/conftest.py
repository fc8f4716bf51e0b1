"""Every test of this room that waits runs on asyncio and on uvloop, the loop a daemon has."""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def pytest_asyncio_loop_factories() -> Mapping[str, LoopFactory]:
    loops: dict[str, LoopFactory] = {"asyncio": asyncio.new_event_loop}
    if sys.platform != "win32":
        import uvloop

        loops["uvloop"] = uvloop.new_event_loop
    return loops


@pytest.fixture
def folder() -> Iterator[Path]:
    """A 0700 folder whose path is short enough for a Unix socket in it."""
    made = Path(tempfile.mkdtemp(prefix="w"))
    yield made
    shutil.rmtree(made)
