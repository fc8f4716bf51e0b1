"""macOS: no record of a shared lock, the host UUID, F_FULLFSYNC."""

import ctypes
import fcntl
import os
import sys
from typing import Final

from filing.lock_manager import unknown_lock

assert sys.platform == "darwin"  # noqa: S101 - tells the type checker which system the rest is for

_MNT_LOCAL: Final = 0x1000
_STATFS_BYTES: Final = 2168  # sizeof(struct statfs), 64-bit inodes
_F_FLAGS_OFFSET: Final = 64  # after bsize, iosize, five 64-bit counts, fsid, owner and type


def flush(fd: int) -> None:
    """Plain fsync leaves the bytes in the drive's own cache; F_FULLFSYNC does not."""
    fcntl.fcntl(fd, fcntl.F_FULLFSYNC)


def machine_id() -> str | None:
    """The host's UUID in lower case letters or upper, as the kernel gives it."""
    libc = ctypes.CDLL(None, use_errno=True)
    size = ctypes.c_size_t(64)
    value = ctypes.create_string_buffer(size.value)
    if libc.sysctlbyname(b"kern.uuid", value, ctypes.byref(size), None, ctypes.c_size_t(0)) != 0:
        return None
    return value.value.decode("ascii", "replace").strip() or None


def own_identity(folder: str, machine_id: str | None) -> str:  # noqa: ARG001 - every mount is the same here
    return unknown_lock(machine_id)


def own_disk(folder: str, identity: str) -> bool:  # noqa: ARG001 - the identity is the same on every mount
    """The mount of the folder's nearest ancestor that exists is MNT_LOCAL; an error is no."""
    path = os.path.realpath(folder)
    while not os.path.lexists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    libc = ctypes.CDLL(None, use_errno=True)
    # On x86-64 the plain name is the call with 32-bit inodes, whose struct is another.
    statfs = getattr(libc, "statfs$INODE64", None) or libc.statfs
    buffer = ctypes.create_string_buffer(_STATFS_BYTES + 1024)
    if statfs(os.fsencode(path), buffer) != 0:
        return False
    flags = ctypes.c_uint32.from_buffer(buffer, _F_FLAGS_OFFSET).value
    return bool(flags & _MNT_LOCAL)
