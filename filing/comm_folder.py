"""The comm folder's names and the making of its entries (PROTOCOL Layout).

A folder is 0700 and a file 0600, whatever the umask.
"""

import contextlib
import os
import stat
import sys
from dataclasses import dataclass
from typing import Final

from filing import platform
from filing.fresh_read import error_text

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600

# O_NONBLOCK: a FIFO or a device in the file's place must not hold the opener up before it is told apart.
_OPEN_FLAGS: Final = (
    os.O_RDWR
    | os.O_APPEND
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NOINHERIT", 0)
)


@dataclass(frozen=True, slots=True)
class CommFolder:
    """The paths of PROTOCOL Layout under one comm home."""

    home: str

    @property
    def lock_record(self) -> str:
        return os.path.join(self.home, "inbox-lock-manager")

    @property
    def inboxes(self) -> str:
        return os.path.join(self.home, "inbox")

    def inbox(self, handle: str) -> str:
        return os.path.join(self.home, "inbox", f"{handle}.jsonl")

    def lock(self, handle: str) -> str:
        return os.path.join(self.home, "inbox", f"{handle}.lock")


class UnfitFileError(OSError):
    """What stands at an inbox's or a lock's path is no plain file of its own. `strerror` says what it is."""


def file_error_text(name: str, error: OSError) -> str:
    """`error` in words, about the file that people know as `name`."""
    if isinstance(error, UnfitFileError):
        return f"{name} {error.strerror}"
    return f"{name}: {error_text(error)}"


class FileCalls:
    """The system calls of an append, in one place so that a test can fail, or stop at, any one of them."""

    def open(self, path: str, flags: int, mode: int) -> int:
        return os.open(path, flags, mode)

    def fstat(self, fd: int) -> os.stat_result:
        return os.fstat(fd)

    def seek(self, fd: int, offset: int, whence: int) -> int:
        return os.lseek(fd, offset, whence)

    def read(self, fd: int, size: int) -> bytes:
        return os.read(fd, size)

    def write(self, fd: int, data: memoryview) -> int:
        return os.write(fd, data)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def flush(self, fd: int) -> None:
        platform.flush(fd)

    def flush_folder(self, path: str) -> None:
        platform.flush_folder(path)

    def close(self, fd: int) -> None:
        os.close(fd)


SYSTEM_FILES: Final = FileCalls()


def open_private(path: str, calls: FileCalls = SYSTEM_FILES) -> tuple[int, os.stat_result]:
    """A read-write descriptor of a plain file and its status; made 0600 when it is missing.

    A symbolic link is not followed, and anything but a regular file with one name is
    refused: `UnfitFileError`.
    """
    if sys.platform == "win32" and os.path.islink(path):  # where O_NOFOLLOW is missing
        raise UnfitFileError(0, "is a symbolic link")
    fd = _open_or_create(path, calls)
    try:
        status = calls.fstat(fd)
        unfit = _unfit(status)
        if unfit:
            raise UnfitFileError(0, unfit)
    except OSError:
        _close_quietly(fd, calls)
        raise
    return fd, status


def _open_or_create(path: str, calls: FileCalls) -> int:
    while True:
        try:
            return calls.open(path, _OPEN_FLAGS, FILE_MODE)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):  # another writer was first: open what it made
                return _create(path, calls)
        except OSError as error:
            raise (_told_apart(path) or error) from None


def _create(path: str, calls: FileCalls) -> int:
    fd = calls.open(path, _OPEN_FLAGS | os.O_CREAT | os.O_EXCL, FILE_MODE)
    try:
        give_owner_bits(fd, FILE_MODE)
    except OSError:
        _close_quietly(fd, calls)
        raise
    return fd


def give_owner_bits(made: int | str, mode: int) -> None:
    """The umask may have taken them from a file or folder that was just made. It gives no more than was asked
    for, so that there is nothing else to change; FAT, which changes no mode at all, is left alone.
    """
    if sys.platform != "win32" and os.stat(made).st_mode & mode != mode:
        os.chmod(made, mode)


def _told_apart(path: str) -> UnfitFileError | None:
    """The open failed: is it what stands there? (A link gives ELOOP, a folder EISDIR, a socket ENXIO.)"""
    try:
        unfit = _unfit(os.lstat(path))
    except OSError:
        return None
    return UnfitFileError(0, unfit) if unfit else None


def _unfit(status: os.stat_result) -> str | None:
    # A file with no name left was replaced since the open; `inbox.lock_is_current` is for that.
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return "has a second name (a hard link)" if status.st_nlink > 1 else None
    for test, name in _KINDS:
        if test(mode):
            return f"is {name}"
    return "is not a regular file"


_KINDS: Final = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def _close_quietly(fd: int, calls: FileCalls) -> None:
    with contextlib.suppress(OSError):  # the error that led here is the one to tell
        calls.close(fd)


def make_private_folder(path: str, calls: FileCalls = SYSTEM_FILES) -> None:
    """The folder and what is missing above it, each 0700 and flushed into its parent."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    if parent and parent != path:
        make_private_folder(parent, calls)
    try:
        os.mkdir(path, FOLDER_MODE)
    except FileExistsError:
        return
    give_owner_bits(path, FOLDER_MODE)
    calls.flush_folder(parent or ".")
