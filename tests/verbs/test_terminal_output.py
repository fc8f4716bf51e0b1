"""What a command says reaches its reader whole, whatever kind of descriptor it was given."""

import os
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
