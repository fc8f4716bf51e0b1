"""What a command says and reads is whole, whatever kind of descriptor it was given."""

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("non-blocking pipes", allow_module_level=True)

ROOT = Path(__file__).parent.parent.parent
LINES = 2000
PROGRAM = f"""
from verbs.terminal import say
for number in range({LINES}):
    assert say(f"{{number}} " + "x" * 200) is None
"""


def test_a_non_blocking_pipe_that_is_full_loses_no_line() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=writer, cwd=ROOT)
    os.close(writer)
    with os.fdopen(reader) as lines:
        numbers = [int(line.split()[0]) for line in lines]
    assert process.wait(30) == 0
    assert numbers == list(range(LINES))


def test_a_message_from_a_non_blocking_pipe_is_read_to_its_end() -> None:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    program = "from verbs.sending import read_message\nprint(read_message('-'))"
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=reader, stdout=subprocess.PIPE, cwd=ROOT, text=True
    )
    os.close(reader)
    with os.fdopen(writer, "w") as text:
        text.write("first half;")
        text.flush()
        # Until it has taken the first half, which it then has to keep.
        while select.select([], [text], [], 0)[1] and _unread(text.fileno()):
            os.sched_yield()
        text.write("second half")
    assert process.communicate(timeout=30)[0] == "first half;second half\n"


def _unread(descriptor: int) -> int:
    import fcntl
    import struct
    import termios

    return int(struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, b"\0" * 4))[0])
