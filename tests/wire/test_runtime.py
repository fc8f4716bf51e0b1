"""What every daemon does the same way: its log cannot be forged, its settings are checked."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from wire.env import SettingError, count, lock_wait
from wire.limits import LOCK_WAIT_S
from wire.runtime import escape_controls, log_to_stderr, run, until_told_to_stop
from wire.settings import server_limits

ROOT = Path(__file__).parents[2]
FORGED = "2026-12-01T00:00:00Z INFO sot.hub link up host=evil"


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("plain words", "plain words"),
        ("é 漢 😀", "é 漢 😀"),
        ("", ""),
        ("a\nb", "a\\nb"),
        ("a\r\tb", "a\\r\\tb"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x00\x07\x7f", "\\x00\\x07\\x7f"),
        ("\x85\x9b1m", "\\x85\\x9b1m"),
        ("\u2028\u2029", "\\u2028\\u2029"),
        ("\u202eabc\u2066\u200f", "\\u202eabc\\u2066\\u200f"),
        ("\ufeff\u200b", "\\ufeff\\u200b"),
        ("\ud800", "\\ud800"),
        ("\U000e0001", "\\U000e0001"),
    ],
)
def test_what_is_not_printable_is_written_out(text: str, escaped: str) -> None:
    assert escape_controls(text) == escaped
    assert escaped.isprintable()


def logged(program: str) -> list[str]:
    """Return what a daemon that runs `program` writes on stderr, line by line."""
    start = "import logging; from wire.runtime import log_to_stderr; log_to_stderr('info')\n"
    command = [sys.executable, "-c", f"{start}log = logging.getLogger('sot.test')\n{program}", FORGED]
    ran = subprocess.run(command, stderr=subprocess.PIPE, check=True, cwd=ROOT)
    return ran.stderr.decode().splitlines()


def test_a_field_cannot_end_its_line() -> None:
    lines = logged("import sys; log.info('from=%s', 'x\\n' + sys.argv[1] + '\\x1b[2J\\u2028')")
    assert len(lines) == 1
    assert lines[0].endswith(f" INFO sot.test from=x\\n{FORGED}\\x1b[2J\\u2028")


def test_a_stack_s_lines_are_indented_so_that_none_passes_for_a_fact() -> None:
    head, *stack = logged(
        """
import sys
forged = "\\n" + sys.argv[1] + "\\x1b[2J"
try:
    raise ValueError(forged)
except ValueError:
    log.exception("failed for %s", forged, stack_info=True)
"""
    )
    assert head.endswith(f"failed for \\n{FORGED}\\x1b[2J")
    assert any(FORGED in line for line in stack)
    assert all(line.startswith("    ") and line.isprintable() for line in stack)


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError):
        log_to_stderr("loud")


def test_a_daemon_s_loop_is_uvloop_where_it_exists() -> None:
    async def name() -> int:
        return "uvloop" in type(asyncio.get_running_loop()).__module__

    assert run(name()) == (sys.platform != "win32")


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot send itself SIGTERM there")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_sets_the_event_and_the_work_s_code_is_returned(number: signal.Signals) -> None:
    async def work(stop: asyncio.Event) -> int:
        os.kill(os.getpid(), number)
        await stop.wait()
        return 7

    assert await until_told_to_stop(work) == 7
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(each)


# Settings


def test_a_setting_that_is_unset_or_empty_has_its_default() -> None:
    assert lock_wait({}) == lock_wait({"SOT_INBOX_LOCK_WAIT_SECS": ""}) == LOCK_WAIT_S
    assert count({}, "SOT_X", 5) == 5
    assert server_limits({}, 100_000).connections == 8192
    assert server_limits({"SOT_MAX_CONNECTIONS": "10"}, 100_000).connections == 10


@pytest.mark.parametrize("open_files", [16, 64, 256, 1024, 20_000])
def test_the_connections_stay_within_the_files_that_may_be_open(open_files: int) -> None:
    limits = server_limits({}, open_files)
    assert 4 <= limits.connections < limits.sockets <= max(8, open_files - 64)


@pytest.mark.parametrize("text", ["x", "-1", "nan", "inf", "1e9", "0x10"])
def test_a_setting_that_is_no_number_in_range_is_refused_by_name_and_value(text: str) -> None:
    with pytest.raises(SettingError, match="SOT_INBOX_LOCK_WAIT_SECS is") as caught:
        lock_wait({"SOT_INBOX_LOCK_WAIT_SECS": text})
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["0", "1.5", "-3", "1e12"])
def test_a_count_is_a_whole_number_of_at_least_one(text: str) -> None:
    with pytest.raises(SettingError, match="SOT_X"):
        count({"SOT_X": text}, "SOT_X", 5)
