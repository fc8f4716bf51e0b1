"""What every daemon process does the same way: its loop, its log, its signals."""

import asyncio
import logging
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from wire.log_writer import LogWriter
from wire.standard_streams import say

_NO_LIMIT = 1_000_000  # open files


class _OneLine(logging.Formatter):
    """One line a fact: whatever a peer put into a field, it cannot end the line or move the terminal.

    A stack follows on lines of its own, each indented: whatever an exception quotes, none passes for a fact.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        return escape_controls(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802  # logging's name
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802  # logging's name
        return _indented(super().formatStack(stack_info))


def escape_controls(text: str) -> str:
    r"""Return `text` with whatever is not printable written as \n, \xNN or \uNNNN, the rest as it is.

    That is every control character, line and paragraph separators, and what turns the direction of text.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == " " else ascii(char)[1:-1] for char in text)


def _indented(lines: str) -> str:
    return "\n".join("    " + escape_controls(line) for line in lines.split("\n"))


def log_to_stderr(level: str) -> None:
    """Send the daemon's log to stderr. `level` is a name such as INFO; ValueError for another word."""
    handler = LogWriter()
    formatter = _OneLine("%(asctime)s %(levelname)s %(name)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # A port scan is no error of ours, and the library would log each with its stack.
    logging.getLogger("websockets").setLevel(logging.CRITICAL)


def run(main: Coroutine[Any, Any, int]) -> int:
    """Run a daemon on uvloop where it exists, else on asyncio; return its exit code."""
    if sys.platform == "win32":
        return asyncio.run(main)
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


async def until_told_to_stop(work: Callable[[asyncio.Event], Awaitable[int]]) -> int:
    """Run `work` with an event that SIGTERM or SIGINT sets; return what it returns."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    if sys.platform == "win32":
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))
    else:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
    return await work(stop)


def announce(line: str) -> bool:
    """Say one line of WIRE section 8 on stdout; False, and a line in the log, if stdout does not take it."""
    error = say(line)
    if error is not None:
        logging.getLogger("sot").error("standard output takes nothing: %s", error.strerror or error)
    return error is None


def raise_descriptor_limit() -> int:
    """Allow this process as many open files as it may have; return how many that are."""
    if sys.platform == "win32":
        return _NO_LIMIT
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):  # macOS refuses "unlimited"; the soft limit stands then
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _NO_LIMIT if soft == resource.RLIM_INFINITY else soft
