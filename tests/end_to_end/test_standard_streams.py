"""A daemon's standard streams, closed, full or unread, change neither its verdicts nor its exit code."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.fleet import Fleet, command

if sys.platform == "win32":
    pytest.skip("Unix sockets", allow_module_level=True)

BOUND_S = 30.0
SENDS = 1500  # each logs a line; a pipe takes some 700 of them


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with Fleet() as made:
        yield made


def serve(fleet: Fleet, redirections: str) -> "subprocess.Popen[str]":
    """Start a hub under a shell that redirects its streams; return when it serves."""
    box = fleet.box("server")
    box.register("h")
    argv = " ".join([*command("sot-hub"), "serve", "--listen", box.endpoint])
    process = subprocess.Popen(["sh", "-c", f"exec {argv} {redirections}"], env=box.env(), text=True)
    while True:
        assert process.poll() is None, "it ended before it served"
        try:
            fleet.ask("server", "ping", {})
        except OSError:
            os.sched_yield()
        else:
            return process


def file_and_stop(fleet: Fleet, process: "subprocess.Popen[str]") -> int:
    try:
        assert fleet.ask("server", "comm.file", {"from": "me", "to": "h", "text": "x"}) == {"ok": True}
        process.send_signal(signal.SIGTERM)
        return process.wait(BOUND_S)
    finally:
        process.kill()
        process.wait(BOUND_S)


@pytest.mark.parametrize("redirections", ["<&-", "2>&-", "<&- 2>&-"])
def test_closed_streams(fleet: Fleet, redirections: str) -> None:
    assert file_and_stop(fleet, serve(fleet, redirections)) == 0


def test_a_stderr_that_takes_nothing(fleet: Fleet) -> None:
    assert file_and_stop(fleet, serve(fleet, "2>/dev/full")) == 0


def test_a_stdout_that_takes_nothing_is_named_and_ends_the_start(fleet: Fleet) -> None:
    box = fleet.box("server")
    with Path("/dev/full").open("w") as full:
        for name, arguments in (
            ("sot-hub", ["serve"]),
            ("sot-link", ["run", "--hub", f"unix:{box.folder}/nobody"]),
        ):
            done = subprocess.run(
                [*command(name), *arguments, "--listen", box.endpoint],
                env=box.env(),
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                timeout=BOUND_S,
            )
            assert done.returncode == 1
            assert "standard output takes nothing" in done.stderr
            assert "Traceback" not in done.stderr


def test_a_refused_start_keeps_its_exit_code_whatever_stderr_does(fleet: Fleet) -> None:
    box = fleet.box("server")
    for redirection, argv, code in (
        ("2>/dev/full", "serve --listen ws://127.0.0.1:0/", 1),
        ("2>&-", "serve --listen nonsense", 2),
    ):
        line = " ".join([*command("sot-hub"), argv, redirection])
        done = subprocess.run(
            ["sh", "-c", f"exec {line}"], env=box.env(), capture_output=True, timeout=BOUND_S
        )
        assert (done.returncode, done.stdout) == (code, b"")


def test_a_stderr_that_nobody_reads_holds_up_no_verdict_and_no_exit(fleet: Fleet) -> None:
    box = fleet.box("server")
    box.register("h")
    process = subprocess.Popen(
        [*command("sot-hub"), "serve", "--listen", box.endpoint],
        env=box.env(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert [process.stdout.readline(), process.stdout.readline()][1] == "ready\n"
        for number in range(SENDS):
            assert fleet.ask("server", "comm.file", {"from": "me", "to": "h", "text": str(number)}) == {
                "ok": True
            }
        process.send_signal(signal.SIGTERM)
        assert process.wait(BOUND_S) == 0
    finally:
        process.kill()
        process.communicate()
    assert len(box.inbox("h")) == SENDS
