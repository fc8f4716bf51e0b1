"""`sot-hub stdio-bridge`: bytes between stdin, stdout and the hub's socket, as they are (WIRE section 2)."""

import asyncio
import os
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from tests.wire.support import PATIENT_S, hello_line, line, serving

if sys.platform == "win32":
    pytest.skip("Unix sockets", allow_module_level=True)

ROOT = Path(__file__).parents[2]
BRIDGE = "import sys; from wire.transports.stdio_bridge import bridge; sys.exit(bridge(sys.argv[1]))"

# More than every buffer on the way takes at once, with each byte value in it.
MUCH = random.Random(1).randbytes(3_000_000)


class Bridged:
    """A bridge that runs, and the hub's end of the connection that it made."""

    def __init__(self, process: subprocess.Popen[bytes], hub: socket.socket) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.stdin: IO[bytes] = process.stdin
        self.stdout: IO[bytes] = process.stdout
        self.hub = hub

    def hub_reads_all(self) -> bytes:
        chunks = []
        while chunk := self.hub.recv(65_536):
            chunks.append(chunk)
        return b"".join(chunks)

    def wait(self) -> int:
        return self.process.wait(PATIENT_S)


def run(path: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", BRIDGE, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        cwd=ROOT,
    )


@contextmanager
def bridged(folder: Path) -> Iterator[Bridged]:
    path = folder / "hub.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.settimeout(PATIENT_S)
        listening.bind(str(path))
        listening.listen()
        with run(path) as process:
            hub, _ = listening.accept()
            hub.settimeout(PATIENT_S)
            try:
                with hub:
                    yield Bridged(process, hub)
            finally:
                process.kill()


def test_bytes_come_whole_both_ways_at_once(folder: Path) -> None:
    with bridged(folder) as ends:
        sending = threading.Thread(target=ends.hub.sendall, args=(MUCH,))
        feeding = threading.Thread(target=_write_all_and_close, args=(ends.stdin, MUCH))
        read: list[bytes] = []
        reading = threading.Thread(target=lambda: read.append(_read_exactly(ends.stdout, len(MUCH))))
        for thread in (sending, feeding, reading):
            thread.start()
        assert ends.hub_reads_all() == MUCH
        for thread in (sending, feeding, reading):
            thread.join(PATIENT_S)
        assert read == [MUCH]
        ends.hub.close()
        assert ends.wait() == 0


def test_the_end_of_stdin_is_carried_over_and_answers_still_come(folder: Path) -> None:
    with bridged(folder) as ends:
        ends.stdin.write(b"question")
        ends.stdin.close()
        assert ends.hub_reads_all() == b"question"
        ends.hub.sendall(b"answer")
        ends.hub.close()
        assert ends.stdout.read() == b"answer"
        assert ends.wait() == 0


def test_the_end_of_the_hub_s_half_is_carried_over_and_stdin_is_still_heard(folder: Path) -> None:
    with bridged(folder) as ends:
        ends.hub.sendall(b"last words")
        ends.hub.shutdown(socket.SHUT_WR)
        assert ends.stdout.read() == b"last words"
        ends.stdin.write(b"still heard")
        ends.stdin.close()
        assert ends.hub_reads_all() == b"still heard"
        assert ends.wait() == 0


def test_a_hub_that_is_gone_ends_the_bridge_though_stdin_stays_open(folder: Path) -> None:
    with bridged(folder) as ends:
        ends.hub.sendall(b"bye")
        ends.hub.close()
        assert ends.stdout.read() == b"bye"
        assert ends.wait() == 0


def test_a_reader_that_is_gone_ends_the_bridge(folder: Path) -> None:
    with bridged(folder) as ends:
        ends.stdout.close()
        with pytest.raises(OSError):
            while True:
                ends.hub.sendall(MUCH)
        assert ends.wait() == 0


@pytest.mark.parametrize("stale", [False, True])
def test_no_hub_is_exit_1_and_a_sentence_on_stderr(folder: Path, stale: bool) -> None:
    path = folder / "hub.sock"
    if stale:
        with socket.socket(socket.AF_UNIX) as left_behind:
            left_behind.bind(str(path))
    with run(path) as process:
        output, words = process.communicate(timeout=PATIENT_S)
    assert (process.returncode, output) == (1, b"")
    assert words.decode().startswith(f"sot-hub stdio-bridge: no hub listens on {path}: ")
    assert words.count(b"\n") == 1


def test_a_hub_whose_backlog_is_full_is_waited_for(folder: Path) -> None:
    path = folder / "hub.sock"
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as filling:
        busy.bind(str(path))
        busy.listen(0)
        filling.connect(str(path))
        with run(path) as process:
            assert process.stdin is not None
            process.stdin.write(b"hello")
            process.stdin.close()
            filled, _ = busy.accept()
            waiting, _ = busy.accept()
            with filled, waiting:
                waiting.settimeout(PATIENT_S)
                assert waiting.recv(5, socket.MSG_WAITALL) == b"hello"
                waiting.close()
                assert process.wait(PATIENT_S) == 0


async def test_a_hub_answers_through_the_bridge(folder: Path) -> None:
    async with serving(folder) as served:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", BRIDGE, served.path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
        )
        output, _ = await process.communicate(hello_line() + line("ping"))
        assert output.count(b"\n") == 2
        assert output.endswith(b'"payload":{"ok":true}}\n')
        assert process.returncode == 0


def _write_all_and_close(pipe: IO[bytes], data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(pipe.fileno(), left) :]
    pipe.close()


def _read_exactly(pipe: IO[bytes], size: int) -> bytes:
    chunks = []
    while size > 0 and (chunk := os.read(pipe.fileno(), min(size, 65_536))):
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)
