"""The file lock and the flush of a folder, as Linux and macOS share them."""

import fcntl
import os
import sys

assert sys.platform != "win32"  # noqa: S101 - tells the type checker which system the rest is for


def try_lock(fd: int, *, shared: bool = False) -> bool:
    """False: somebody else holds it."""
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_lock(fd: int, *, shared: bool = False) -> None:
    fcntl.flock(fd, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)


def unlock(fd: int) -> None:
    fcntl.flock(fd, fcntl.LOCK_UN)


def flush_folder(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
