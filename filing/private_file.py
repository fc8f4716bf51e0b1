"""The comm folder's small files: read without following a link, replaced whole (PROTOCOL Layout)."""

import contextlib
import itertools
import os
import stat
import sys
from typing import Final

from filing.comm_folder import (
    FILE_MODE,
    SYSTEM_FILES,
    FileCalls,
    UnfitFileError,
    give_owner_bits,
    make_private_folder,
)
from filing.fresh_read import ReadCalls

_BLOCK_BYTES: Final = 1024 * 1024

# O_NONBLOCK: a FIFO in the file's place must not hold the reader up before it is told apart.
_READ_FLAGS: Final = (
    os.O_RDONLY
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NOINHERIT", 0)
)
_NEW_FILE_FLAGS: Final = (
    os.O_WRONLY
    | os.O_CREAT
    | os.O_EXCL
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NOINHERIT", 0)
)

_counter = itertools.count(1)


class PrivateReads(ReadCalls):
    """Reads of plain files only: a link is not followed, and what is no regular file is
    `UnfitFileError`.
    """

    def open(self, path: str) -> int:
        if sys.platform == "win32" and os.path.islink(path):  # where O_NOFOLLOW is missing
            raise UnfitFileError(0, "is a symbolic link")
        try:
            fd = os.open(path, _READ_FLAGS)
        except OSError:
            if os.path.islink(path):
                raise UnfitFileError(0, "is a symbolic link") from None
            raise
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise UnfitFileError(0, "is not a regular file")
        except OSError:
            os.close(fd)
            raise
        return fd


PRIVATE_READS: Final = PrivateReads()


def read_private(path: str, calls: ReadCalls = PRIVATE_READS) -> bytes | None:
    """A file that grows in place (an inbox), read to its end; None when it is missing. Raises `OSError`.

    Empty is an answer here, so nothing is tried again as in `fresh_read`.
    """
    try:
        fd = calls.open(path)
    except FileNotFoundError:
        return None
    try:
        blocks = []
        while block := calls.read(fd, _BLOCK_BYTES):
            blocks.append(block)
        return b"".join(blocks)
    finally:
        with contextlib.suppress(OSError):  # nothing was written through it
            calls.close(fd)


def replace_private(path: str, data: bytes, calls: FileCalls = SYSTEM_FILES) -> None:
    """The file holds `data` and is 0600, or is as it was: written under another name, flushed, renamed.

    A missing folder is made, 0700. What stood at `path` is replaced, a link too, and never followed. Raises
    `OSError`.
    """
    folder = os.path.dirname(path) or "."
    make_private_folder(folder, calls)
    temporary = f"{path}.tmp.{os.getpid()}.{next(_counter)}"
    with contextlib.suppress(FileNotFoundError):  # left by a dead process that had our pid
        os.unlink(temporary)
    try:
        write_new(temporary, data, calls)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):  # the error that led here is the one to tell
            os.unlink(temporary)
        raise
    calls.flush_folder(folder)


def write_new(path: str, data: bytes, calls: FileCalls = SYSTEM_FILES) -> None:
    """Make a file, 0600, whose bytes are on the disk. What stands at `path` already is `FileExistsError`; a
    file whose write failed is left for the caller to remove.
    """
    fd = calls.open(path, _NEW_FILE_FLAGS, FILE_MODE)
    try:
        give_owner_bits(fd, FILE_MODE)
        left = memoryview(data)
        while left:
            left = left[calls.write(fd, left) :]
        calls.flush(fd)
    finally:
        calls.close(fd)
