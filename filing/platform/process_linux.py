"""Linux: /proc."""

import contextlib
import errno
import os
import sys
from typing import Final

from filing.lock_manager import mount_of

assert sys.platform != "win32"  # noqa: S101 - tells the type checker which system the rest is for
assert sys.platform != "darwin"  # noqa: S101

_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
_MOUNTINFO: Final = "/proc/self/mountinfo"
_FRESH: Final = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "tmpfs", "nfs", "nfs4"},
)
_START_FIELD: Final = 22
_FIELDS_BEFORE_STATE: Final = 2  # the pid and the name in brackets


def boot_id() -> str | None:
    with contextlib.suppress(OSError):
        return _read(_BOOT_ID).strip() or None
    return None


def pid_namespace() -> str | None:
    """The number in /proc/self/ns/pid. None also where /proc is another namespace's, as in a sandbox that
    sees its host's: the pids in there are not those of this namespace, and would prove deaths falsely.
    """
    try:
        if os.readlink("/proc/self") != str(os.getpid()):
            return None
        link = os.readlink("/proc/self/ns/pid")
    except OSError:
        return None
    number = link.removeprefix("pid:[").removesuffix("]")
    return number if number.isascii() and number.isdigit() else None


def process_start(pid: int) -> str:
    """Field 22 of /proc/<pid>/stat, in ticks since the boot."""
    try:
        stat = _read(f"/proc/{pid}/stat")
    except FileNotFoundError:
        # Under hidepid another account's process has no entry either: the kernel is asked too.
        _raise_if_gone(pid)
        raise PermissionError(errno.EACCES, "its /proc entry is hidden") from None
    # The name may hold spaces and brackets: the fields go on after the last of those.
    fields = stat.rpartition(")")[2].split()
    position = _START_FIELD - _FIELDS_BEFORE_STATE - 1
    if len(fields) <= position:
        raise OSError(errno.EIO, "its /proc entry is cut short")
    return fields[position]


def _raise_if_gone(pid: int) -> None:
    try:
        os.kill(pid, 0)
    except OverflowError:
        raise OSError(errno.EINVAL, "no pid is that large") from None
    except PermissionError:
        return


def no_fresh_read(folder: str) -> str | None:
    try:
        mountinfo = _read(_MOUNTINFO)
    except OSError:
        mountinfo = ""
    return no_fresh_read_by(mountinfo, os.path.realpath(folder))


def no_fresh_read_by(mountinfo: str, canonical_path: str) -> str | None:
    """Judged by the mount on top (PROTOCOL The registry lock, Proof of death)."""
    mount = mount_of(mountinfo, canonical_path)
    if mount is None:
        return "the mount of the comm home is unknown"
    if mount.filesystem not in _FRESH:
        return f"the comm home's mount, {mount.filesystem}, does not prove a fresh read"
    if "nocto" in mount.options or "nocto" in mount.super_options:
        return "the comm home is mounted nocto, so no read of it is proved fresh"
    return None


def _read(path: str) -> str:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        blocks = []
        while block := os.read(fd, 65536):
            blocks.append(block)
    finally:
        os.close(fd)
    return b"".join(blocks).decode("utf-8", "surrogateescape")
