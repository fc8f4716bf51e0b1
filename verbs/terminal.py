"""Lines for the person or the program that ran a command. No line costs a traceback."""

import errno
import os
import sys

TYPE_CHECKING = False  # spares a send what only type checkers read
if TYPE_CHECKING:
    from typing import TextIO


def say(line: str, *, error: bool = False) -> OSError | None:
    """Write one line to standard output, or to standard error; return what kept it from being written.

    Most callers ignore that: what they did is done, whether or not somebody reads of it.
    """
    stream = sys.stderr if error else sys.stdout
    if stream is None:  # the descriptor was closed before we started
        return OSError(errno.EBADF, os.strerror(errno.EBADF))
    try:
        _write_whole(stream, line + "\n")
    except OSError as unwritten:
        from wire.standard_streams import discard

        discard(2 if error else 1)
        return unwritten
    return None


def _write_whole(stream: "TextIO", text: str) -> None:
    """Write all of it. Python's own text stream drops, unsaid, what a non-blocking pipe has no room for."""
    try:
        descriptor = stream.fileno()
    except (AttributeError, OSError, ValueError):  # a stream that only looks like one
        stream.write(text)
        stream.flush()
        return
    stream.flush()
    encoding = stream.encoding or "utf-8"
    try:
        data = text.encode(encoding)
    except UnicodeEncodeError:
        data = text.encode("ascii", "backslashreplace")
    if sys.platform == "win32":
        data = data.replace(b"\n", b"\r\n")
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:
            import select

            select.select([], [descriptor], [])


def one_line(text: str) -> str:
    """Return `text` with a space for each line end and control character: others' words stay on our line."""
    if text.isprintable():
        return text
    return "".join(" " if _is_control(character) else character for character in text)


def without_controls(text: str) -> str:
    """Return a text of any lines with an escape for each control character: it cannot drive a terminal.

    Line ends and tabs stay. A CR LF is a line end; a CR alone would let one line cover another.
    """
    if text.isprintable():
        return text
    return "".join(_escaped(character) for character in text.replace("\r\n", "\n"))


def _escaped(character: str) -> str:
    if character in "\n\t" or not _is_control(character):
        return character
    return character.encode("unicode_escape").decode()


def _is_control(character: str) -> bool:
    return character < " " or "\x7f" <= character <= "\x9f" or character in "\u2028\u2029"
