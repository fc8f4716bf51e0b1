"""`ssh:target` with a program named ssh that runs the bridge on this very box (WIRE section 2)."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from tests.wire.support import PATIENT_S, Caller, serving
from wire.closing import CloseReason
from wire.connection import Patience
from wire.session import ConnectionEndedError, DialledSession
from wire.transports import ssh

if sys.platform == "win32":
    pytest.skip("Unix sockets", allow_module_level=True)

ROOT = Path(__file__).parents[2]
_PROGRAM = "import sys; from wire.transports.stdio_bridge import bridge; sys.exit(bridge(sys.argv[1]))"
BRIDGE = f"{sys.executable} -c '{_PROGRAM}'"

# uvloop leaves a child a second copy of its ends of the pipes, so that there only its exit ends them.
sees_a_half_end = pytest.mark.asyncio(loop_factories=["asyncio"])

SOON = Patience(write_s=0.1, write_s_per_mib=0)


@pytest.fixture
def path_of_ssh(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return folder / "ssh"


def install(path_of_ssh: Path, script: str) -> None:
    path_of_ssh.write_text(f"#!/bin/sh\n{script}\n")
    path_of_ssh.chmod(0o700)


def pid_of(session: DialledSession) -> int:
    process = cast("Any", session.connection)._stream._process
    return int(process.get_pid())


def is_gone(pid: int) -> bool:
    """Tell whether the process ended and was reaped: a zombie still has its pid."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def ended(session: DialledSession) -> tuple[CloseReason, str]:
    async with asyncio.timeout(PATIENT_S):
        return await session.wait_ended()


def test_ssh_is_told_to_ask_nothing_and_to_take_the_target_as_nothing_but_a_target() -> None:
    words = ssh.command("-oProxyCommand=evil")
    assert words[0] == "ssh"
    assert words[-3:] == ["--", "-oProxyCommand=evil", "sot-hub stdio-bridge"]
    assert "BatchMode=yes" in words
    assert "-T" in words


async def test_a_hello_and_requests_both_ways_go_through_it(folder: Path, path_of_ssh: Path) -> None:
    async with serving(folder) as served:
        install(path_of_ssh, f'echo "$@" > {folder}/told; exec {BRIDGE} {served.path}')
        session = await Caller().dial("ssh:me@hub.example", role="link", watched=True)
        assert (session.connection.transport, session.connection.peer) == ("ssh", "ssh:me@hub.example")
        assert (await session.greeting())["host"] == "hub"
        assert await session.request("echo", {"t": "é" * 400_000}) == {"ok": True, "t": "é" * 400_000}
        assert await served.service.sessions[0].request("ping", {}) == {"ok": True}
        assert (folder / "told").read_text().endswith("-- me@hub.example sot-hub stdio-bridge\n")
        pid = pid_of(session)
        session.close(CloseReason.SHUTDOWN)
        assert await ended(session) == (CloseReason.SHUTDOWN, "")
        assert is_gone(pid)
        assert await served.service.wait_ended() is CloseReason.PEER_LEFT


async def test_a_hub_that_closes_ends_it(folder: Path, path_of_ssh: Path) -> None:
    async with serving(folder) as served:
        install(path_of_ssh, f"exec {BRIDGE} {served.path}")
        session = await Caller().dial("ssh:hub")
        await session.greeting()
        pid = pid_of(session)
        served.service.sessions[0].close(CloseReason.SHUTDOWN)
        assert await ended(session) == (CloseReason.PEER_LEFT, "")
        assert is_gone(pid)


async def test_a_request_is_held_back_and_let_go_through_its_pipes(folder: Path, path_of_ssh: Path) -> None:
    async with serving(folder) as served:
        install(path_of_ssh, f"exec {BRIDGE} {served.path}")
        session = await Caller().dial("ssh:hub")
        await session.greeting()
        session.connection.pause_reading()
        session.connection.pause_reading()
        asking = asyncio.ensure_future(session.request("ping", {}))
        await asyncio.sleep(0)
        session.connection.resume_reading()
        session.connection.resume_reading()
        assert await asking == {"ok": True}
        session.close(CloseReason.PEER_LEFT)
        await ended(session)


@pytest.mark.parametrize(
    ("script", "detail"),
    [
        (
            'echo "me@hub: Permission denied (publickey)." >&2; exit 255',
            "me@hub: Permission denied (publickey).",
        ),
        ("exec 1>&-; echo 'sot-hub: command not found' >&2; exit 127", "sot-hub: command not found"),
        ('printf "two\\r\\nlines\\n" >&2; exit 1', "two lines"),
        ("exit 7", "ssh ended with code 7"),
        ("kill -9 $$", "ssh ended with code -9"),
        ("i=0; while [ $i -lt 400 ]; do echo 0123456789 >&2; i=$((i+1)); done; exit 1", "0123456789"),
    ],
)
async def test_what_ssh_says_as_it_fails_is_why_the_connection_ended(
    path_of_ssh: Path, script: str, detail: str
) -> None:
    install(path_of_ssh, script)
    caller = Caller()
    session = await caller.dial("ssh:hub")
    reason, words = await ended(session)
    assert reason is CloseReason.CONNECTION_LOST
    assert words.endswith(detail)
    assert len(words) <= 400
    with pytest.raises(ConnectionEndedError) as told:
        await session.greeting()
    assert words in str(told.value)
    assert caller.ends == [(reason, words)]


async def test_the_bridge_s_own_words_come_back_when_no_hub_listens(folder: Path, path_of_ssh: Path) -> None:
    install(path_of_ssh, f"exec {BRIDGE} {folder}/nothing.sock")
    _, words = await ended(await Caller().dial("ssh:hub"))
    assert f"no hub listens on {folder}/nothing.sock" in words


async def test_no_ssh_at_all_is_an_os_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(folder))
    caller = Caller()
    with pytest.raises(OSError):
        await caller.dial("ssh:hub")
    assert caller.sessions == []


async def test_an_abort_kills_ssh_and_leaves_no_zombie(path_of_ssh: Path) -> None:
    install(path_of_ssh, "exec sleep 1000")
    session = await Caller().dial("ssh:hub")
    pid = pid_of(session)
    session.connection.abort(CloseReason.KEEPALIVE, "silent")
    assert await ended(session) == (CloseReason.KEEPALIVE, "silent")
    assert is_gone(pid)


async def test_an_ssh_that_does_not_end_with_its_input_is_killed(path_of_ssh: Path) -> None:
    install(path_of_ssh, "exec sleep 1000")
    session = await Caller().dial("ssh:hub", patience=SOON)
    pid = pid_of(session)
    session.close(CloseReason.SHUTDOWN)
    assert await ended(session) == (CloseReason.SHUTDOWN, "")
    assert is_gone(pid)


@sees_a_half_end
async def test_an_ssh_that_does_not_end_with_its_output_is_killed(path_of_ssh: Path) -> None:
    install(path_of_ssh, "exec 1>&-; exec sleep 1000")
    session = await Caller().dial("ssh:hub", patience=SOON)
    pid = pid_of(session)
    assert (await ended(session))[0] is CloseReason.SLOW_PEER
    assert is_gone(pid)


async def test_an_ssh_that_takes_nothing_is_killed_by_the_sweep(path_of_ssh: Path) -> None:
    install(path_of_ssh, "exec sleep 1000")
    session = await Caller().dial("ssh:hub", patience=SOON)
    pid = pid_of(session)
    session.event("much", {"t": "y" * 1_000_000})
    session.sweep(1, sweep_s=1)
    session.sweep(2, sweep_s=1)
    assert (await ended(session))[0] is CloseReason.SLOW_PEER
    assert is_gone(pid)


@sees_a_half_end
async def test_an_ssh_that_ended_one_half_ends_by_itself_once_it_lost_the_other(path_of_ssh: Path) -> None:
    install(path_of_ssh, "exec 1>&-; cat > /dev/null")
    session = await Caller().dial("ssh:hub")
    assert await ended(session) == (CloseReason.PEER_LEFT, "")
