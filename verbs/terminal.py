"""Lines for the person or the program that ran a command. No line costs a traceback."""

import os
import sys


def say(line: str, *, error: bool = False) -> None:
    """Write one line to standard output, or to standard error. A reader that has gone is no error."""
    stream = sys.stderr if error else sys.stdout
    if stream is None:  # the descriptor was closed before we started
        return
    try:
        try:
            stream.write(line + "\n")
        except UnicodeEncodeError:
            stream.write(line.encode("ascii", "backslashreplace").decode() + "\n")
        stream.flush()
    except OSError:
        _discard(2 if error else 1)


def one_line(text: str) -> str:
    """Return `text` with a space for each line end and control character: others' words stay on our line."""
    if text.isprintable():
        return text
    return "".join(" " if _is_control(character) else character for character in text)


def _is_control(character: str) -> bool:
    return character < " " or "\x7f" <= character <= "\x9f" or character in "\u2028\u2029"


def _discard(descriptor: int) -> None:
    # Else the interpreter tries again at exit, complains, and exits 120.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
