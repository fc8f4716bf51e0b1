"""Reading a file that other hosts replace by rename (PROTOCOL registry.json, "Unreadable is never absent").

An NFSv4 client can get ESTALE on a read after its open succeeded. So a read that failed, or gave nothing,
opens the folder anew (which revalidates it) and then the file by its path, up to three more times in about
200 ms.
"""

import contextlib
import errno
import os
import sys
import time
from dataclasses import dataclass
from typing import Final

PAUSES_S: Final = (0.0, 0.1, 0.1)
MAX_FILE_BYTES: Final = 64 * 1024 * 1024
_BLOCK_BYTES: Final = 64 * 1024

# O_NONBLOCK: a FIFO in the file's place must give nothing rather than wait for a writer.
_READ_FLAGS: Final = (
    os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)


@dataclass(frozen=True, slots=True)
class ReadFailed:
    why: str


class ReadCalls:
    """The system calls of a fresh read, in one place so that a test can stand in for a stale NFS."""

    def open(self, path: str) -> int:
        return os.open(path, _READ_FLAGS)

    def read(self, fd: int, size: int) -> bytes:
        return os.read(fd, size)

    def close(self, fd: int) -> None:
        os.close(fd)

    def revalidate(self, folder: str) -> None:
        """Opening a folder makes an NFS client ask the server for it; Windows has no such thing to ask."""
        if sys.platform != "win32":
            os.close(os.open(folder, _READ_FLAGS | os.O_DIRECTORY))

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)


SYSTEM_CALLS: Final = ReadCalls()


def error_text(error: OSError) -> str:
    """An `OSError` in words that hold no path of ours, with its name for those who search."""
    name = errno.errorcode.get(error.errno or 0)
    text = error.strerror or type(error).__name__
    return f"{text} ({name})" if name else text


def read_fresh(path: str, calls: ReadCalls = SYSTEM_CALLS) -> bytes | ReadFailed | None:
    """The file's bytes; None when it is missing; b"" when four tries gave nothing. Blocks about 200 ms at
    worst.

    Missing is told by the open, never by a stat. Bytes of a read that failed later are thrown away.
    """
    result = read_once(path, calls)
    for pause_s in PAUSES_S:
        if result is None or (isinstance(result, bytes) and result):
            return result
        if pause_s:
            calls.pause(pause_s)
        with contextlib.suppress(OSError):  # the open of the file decides, and has words of its own
            calls.revalidate(os.path.dirname(path))
        result = read_once(path, calls)
    return result


def read_once(path: str, calls: ReadCalls = SYSTEM_CALLS) -> bytes | ReadFailed | None:
    """One try of `read_fresh`: no folder opened before it, and none after."""
    try:
        fd = calls.open(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        return ReadFailed(error_text(error))
    try:
        return _read_to_end(fd, calls)
    except OSError as error:
        return ReadFailed(error_text(error))
    finally:
        with contextlib.suppress(OSError):  # nothing was written through it
            calls.close(fd)


def _read_to_end(fd: int, calls: ReadCalls) -> bytes | ReadFailed:
    blocks = []
    size = 0
    while block := calls.read(fd, _BLOCK_BYTES):
        blocks.append(block)
        size += len(block)
        if size > MAX_FILE_BYTES:
            return ReadFailed(f"it is larger than {MAX_FILE_BYTES} bytes")
    return b"".join(blocks)
