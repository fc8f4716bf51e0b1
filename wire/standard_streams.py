"""stdin, stdout and stderr of a daemon: there, never in the way, and never the cause of another exit code.

A supervisor may start a process with any of the three closed, full, or a pipe that nobody reads (WIRE section
8).
"""

import os
import sys
from typing import TextIO


def open_what_is_closed() -> None:
    """Put the null device where one of the three descriptors is closed; called before anything is opened.

    Else the next socket takes the number, and what is meant for a person goes to a peer.
    """
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free number is taken, and those below it are open by now.
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8", errors="replace", closefd=False))


def say(line: str) -> OSError | None:
    """Write one line of what WIRE section 8 puts on stdout, at once; return what kept it away."""
    return _write(1, sys.stdout, line)


def complain(line: str) -> None:
    """Write one line for a person to stderr; one that takes nothing changes nothing."""
    _write(2, sys.stderr, line)


def discard(descriptor: int) -> None:
    """Send what is still written to a broken stream nowhere: else the interpreter exits 120."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _write(descriptor: int, stream: TextIO, line: str) -> OSError | None:
    try:
        print(line, file=stream, flush=True)
    except OSError as error:
        discard(descriptor)
        return error
    return None
