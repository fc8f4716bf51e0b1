"""Linux: the mount table, the machine id, fdatasync."""

import contextlib
import os
import select
import sys
import threading
from pathlib import Path
from typing import Final

from filing.lock_manager import LOCAL_PREFIX, identity_from_mountinfo

assert sys.platform != "win32"  # noqa: S101 - tells the type checker which system the rest is for
assert sys.platform != "darwin"  # noqa: S101

_MACHINE_ID: Final = "/etc/machine-id"
_MOUNTINFO: Final = "/proc/self/mountinfo"
_MAX_KNOWN_FOLDERS: Final = 64

flush = os.fdatasync


def machine_id() -> str | None:
    """None without one, and on a machine whose first boot has not finished ("uninitialized")."""
    with contextlib.suppress(OSError):
        text = Path(_MACHINE_ID).read_text(encoding="ascii", errors="replace").strip()
        if text != "uninitialized":
            return text or None
    return None


class Mounts:
    """Answers from the mount table, which is read anew only when the kernel says that it changed.

    The kernel tells that on a descriptor of the table by POLLERR, once a change, so a recheck at each filing
    costs two system calls. An answer also stands only while the folder's path leads to the same folder.
    """

    def __init__(self, path: str = _MOUNTINFO) -> None:
        self._path = path
        self._mutex = threading.Lock()
        self._fd: int | None = None
        self._poll = select.poll()
        self._known: dict[tuple[str, str | None], tuple[tuple[int, int], str]] = {}

    def identity(self, folder: str, machine_id: str | None) -> str:
        """Judged for the folder's nearest ancestor that exists. An unreadable mount table proves no lock."""
        with self._mutex:
            if self._changed() or len(self._known) > _MAX_KNOWN_FOLDERS:
                self._known.clear()
            place = _place(folder)
            known = self._known.get((folder, machine_id))
            if known is not None and known[0] == place:
                return known[1]
            table = self._read()
            identity = identity_from_mountinfo(table, os.path.realpath(folder), machine_id)
            if place is not None and table:
                self._known[folder, machine_id] = (place, identity)
            return identity

    def _changed(self) -> bool:
        if self._fd is None:
            try:
                self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return True
            self._poll.register(self._fd, select.POLLPRI)
            return True
        return any(event & (select.POLLERR | select.POLLPRI) for _, event in self._poll.poll(0))

    def _read(self) -> str:
        if self._fd is None:
            return ""
        try:
            os.lseek(self._fd, 0, os.SEEK_SET)
            blocks = []
            while block := os.read(self._fd, 65536):
                blocks.append(block)
        except OSError:
            return ""
        return b"".join(blocks).decode("utf-8", "surrogateescape")


_mounts = Mounts()
own_identity = _mounts.identity


def own_disk(folder: str, identity: str) -> bool:  # noqa: ARG001 - one interface: the other systems ask the folder
    return identity.startswith(LOCAL_PREFIX)


def _place(folder: str) -> tuple[int, int] | None:
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return status.st_dev, status.st_ino
