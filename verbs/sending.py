"""What the verbs that send share: the message's text, the waits, one request to a daemon, the result's line
(PROTOCOL Delivery, "The one result").
"""

import os
import sys
import time
from _collections_abc import Callable, Mapping  # collections.abc under the name that is loaded already
from errno import EINVAL
from stat import S_ISDIR, S_ISFIFO, S_ISREG

from verbs.client import Accepted, Channel, NoAnswer, Refused, ask
from verbs.endpoints import NoDaemonError, SilentError, UnusableEndpointError
from verbs.frames import hello_frame, too_large
from verbs.terminal import one_line, say
from wire.env import SettingError, lock_wait
from wire.limits import MAX_FRAME_BYTES, WINDOW_EXTRA_S

TYPE_CHECKING = False  # spares a send what only type checkers read
if TYPE_CHECKING:
    from typing import BinaryIO

INTERRUPTED = 130
_INHERITED = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")  # names of descriptors that are open already


Connect = Callable[[float], tuple[str, Channel]]


class FailedError(Exception):
    """A send that is FAILED; str() is the reason. `notes` are lines for a person, below it."""

    def __init__(self, reason: str, notes: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.notes = notes


class InterruptedSendError(FailedError):
    """A person stopped it, and nothing is known of its end."""


# The message


def read_message(path: str) -> str:
    """Return the text of a file, or of standard input. It is read only as far as a frame could hold it.

    Raises FailedError.
    """
    name = "standard input" if path == "-" else path
    try:
        with open(0 if path == "-" else path, "rb", closefd=path != "-", opener=_open_file) as file:
            data = _read_up_to(file, MAX_FRAME_BYTES + 1)
            size = os.fstat(file.fileno()).st_size  # 0 for a pipe
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise FailedError(f"{name} could not be read: {why}; nothing was sent") from None
    if len(data) > MAX_FRAME_BYTES:
        known = f"is {size} bytes" if size > MAX_FRAME_BYTES else f"is more than {MAX_FRAME_BYTES} bytes"
        raise FailedError(too_large(known))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FailedError(f"{name} is not UTF-8 at byte {error.start}; nothing was sent") from None


def _read_up_to(file: "BinaryIO", most: int) -> bytes:
    """Read to the end, or `most` bytes. A non-blocking pipe that is empty just now is waited for."""
    data = b""
    while len(data) < most:
        chunk: bytes | None = file.read(most - len(data))
        if chunk is None:
            import select

            select.select([file], [], [])
        elif chunk:
            data += chunk
        else:
            break
    return data


def _open_file(path: str, flags: int) -> int:
    """Open a regular file, or what this process was started with.

    A FIFO by name may have no writer, and a device no end: neither may hold a send up. Raises OSError.
    """
    # Also `<(command)`: whoever started us holds, or held, the other end.
    inherited = path.startswith(_INHERITED)
    if not inherited:
        _check_kind(os.stat(path))  # noqa: PTH116  # before the open, which a FIFO's writer would notice
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    try:
        if not inherited:
            _check_kind(os.fstat(descriptor))
        if sys.platform != "win32":
            os.set_blocking(descriptor, True)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_kind(status: os.stat_result) -> None:
    if S_ISFIFO(status.st_mode):
        raise OSError(EINVAL, "it is a FIFO, which may have no writer; pipe the text in, with --file -")
    if not S_ISREG(status.st_mode) and not S_ISDIR(status.st_mode):  # open() says it of a folder
        raise OSError(EINVAL, "it is no file; pipe the text in, with --file -")


# The waits


def lock_wait_s(env: Mapping[str, str]) -> float:
    """Return how long an inbox lock is waited for. Raises FailedError."""
    try:
        return lock_wait(env)
    except SettingError as error:
        raise FailedError(f"{error}; nothing was sent") from None


def window_s(env: Mapping[str, str]) -> float:
    """Return how long a daemon's answer is waited for: the lock wait and 3 s. Raises FailedError."""
    return lock_wait_s(env) + WINDOW_EXTRA_S


# The request


def hello(env: Mapping[str, str], sender: str) -> bytes:
    """Return this process's hello. Raises FailedError, UnsendableError."""
    from topology.names import HostNameError, self_host

    try:
        return hello_frame(self_host(env), sender)
    except HostNameError as error:
        raise FailedError(f"{error}; nothing was sent") from None


def ask_daemon(connect: Connect, frames: tuple[bytes, bytes], op: str, wait_s: float) -> dict[str, object]:
    """Ask one daemon, once, and return its answer, which was ok. Raises FailedError.

    An interrupt before a byte left is passed on: nothing was sent.
    """
    deadline = time.monotonic() + wait_s
    try:
        endpoint, channel = connect(deadline)
    except (NoDaemonError, UnusableEndpointError) as error:
        raise FailedError(str(error)) from None
    except SilentError as error:
        raise FailedError(_did_not_answer(error.endpoint, error.words)) from None
    try:
        match ask(channel, frames, op, deadline):
            case Accepted(payload):
                return payload
            case Refused(reason):
                raise FailedError(reason)
            case NoAnswer():
                raise FailedError(_did_not_answer(endpoint, channel.words))
    except KeyboardInterrupt:
        if not channel.sent:
            raise
        raise InterruptedSendError(
            "interrupted before an answer came; the request was sent, so nothing is known of its end"
        ) from None
    finally:
        channel.close()


def _did_not_answer(endpoint: str, words: str) -> str:
    sentence = f"the daemon did not answer at {endpoint}"
    words = words.strip()
    return f"{sentence}: {words}" if words else sentence


# The result


def handle_shown(to: str) -> str:
    """Return what the result's line calls a receiver."""
    return one_line(f"@{to}")


def say_filed(to: str, *, own_append: bool = False) -> None:
    """Say the one good result; a command's own append prints it indented."""
    say(f"{'  ' if own_append else ''}filed -> {handle_shown(to)}")


def say_failed(target: str, error: Exception) -> int:
    """Say the other result, and return its exit code."""
    say(f"FAILED -> {target}: {one_line(str(error))}", error=True)
    if isinstance(error, FailedError):
        for note in error.notes:
            say(f"  {one_line(note)}", error=True)
    return INTERRUPTED if isinstance(error, InterruptedSendError) else 1
