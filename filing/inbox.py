"""One inbox: its line, and the append that makes "filed" true (PROTOCOL Delivery, route 1).

The order is the promise: lock, open, cut back a dead writer's half line, write, flush, close, unlock, and
only then the answer. The caller holds the lock; everything else is here.
"""

import contextlib
import errno
import json
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from filing.comm_folder import (
    SYSTEM_FILES,
    CommFolder,
    FileCalls,
    file_error_text,
    make_private_folder,
    open_private,
)
from filing.fresh_read import error_text

log = logging.getLogger("sot.filing")

REPO: Final = "daemon"
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False)
_BLOCK_BYTES: Final = 64 * 1024
_MAX_KNOWN_NAMES: Final = 65_536
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)})


def inbox_line(*, sender: str, to: str, text: str, broadcast: bool, stamp: str) -> bytes:
    """The line's bytes with its LF (PROTOCOL Message frame). A lone surrogate is `UnicodeEncodeError`."""
    quoted = _ENCODER.encode
    line = (
        f'{{"from":{quoted(sender)},"to":{quoted("" if broadcast else to)},"repo":"{REPO}",'
        f'"msg":{quoted(text)},"ts":"{stamp}"}}\n'
    )
    return line.encode("utf-8")


@dataclass(frozen=True, slots=True)
class Appended:
    """The lines are on the disk. `cut_bytes`: what a dead writer had left behind the last newline."""

    cut_bytes: int = 0


@dataclass(frozen=True, slots=True)
class AppendFailed:
    """Nothing was added, if `clean`. `no_room`: the disk was full, so fewer lines may yet fit."""

    why: str
    no_room: bool = False
    clean: bool = True


class Inboxes:
    """The inboxes of one comm folder. Any thread may call; for one handle the lock's holder alone appends."""

    def __init__(self, folder: CommFolder, calls: FileCalls = SYSTEM_FILES) -> None:
        self._folder = folder
        self._calls = calls
        self._home_flushed = False
        self._flushed_names: dict[str, tuple[int, int]] = {}

    def open_lock(self, handle: str) -> int:
        """A descriptor of the inbox's lock file, not locked yet; the file and its folder are made when
        missing.

        Raises `OSError`, which is an `UnfitFileError` when something else stands in the file's place.
        """
        path = self._folder.lock(handle)
        try:
            return open_private(path, self._calls)[0]
        except FileNotFoundError:
            make_private_folder(self._folder.inboxes, self._calls)
            return open_private(path, self._calls)[0]

    def lock_is_current(self, fd: int) -> bool:
        """False: the lock file was removed or replaced during the wait for it, so it excludes nobody."""
        return self._calls.fstat(fd).st_nlink > 0

    def append(self, handle: str, lines: Sequence[bytes]) -> Appended | AppendFailed:
        """Add whole lines and flush them, all or none. The caller holds the inbox's lock throughout."""
        name = f"inbox/{handle}.jsonl"
        try:
            fd, status = open_private(self._folder.inbox(handle), self._calls)
        except OSError as error:
            return AppendFailed(file_error_text(name, error))
        failed = None
        end = None
        cut_bytes = 0
        try:
            end, cut_bytes = self._end_of_last_line(fd, name)
            self._write_all(fd, b"".join(lines))
            self._calls.flush(fd)
            self._flush_names(handle, status)
        except Exception as error:  # noqa: BLE001 - a fault of our own must leave nothing behind either
            failed = self._cut_back(fd, name, end, error)
        try:
            self._calls.close(fd)
        except OSError as error:
            failed = failed or self._cut_back_closed(handle, name, end, error)
        return failed or Appended(cut_bytes)

    def _end_of_last_line(self, fd: int, name: str) -> tuple[int, int]:
        """(The length up to the last newline, the bytes that were cut back to make it the file's length)."""
        size = self._calls.seek(fd, 0, os.SEEK_END)
        if size == 0 or self._read_at(fd, size - 1, 1) == b"\n":
            return size, 0
        end = self._after_last_newline(fd, size)
        self._calls.truncate(fd, end)
        # Flushed on its own, or a power cut could leave the dead writer's bytes in front of ours.
        self._calls.flush(fd)
        log.warning("%s: cut back %d bytes of an unterminated last line", name, size - end)
        return end, size - end

    def _after_last_newline(self, fd: int, size: int) -> int:
        stop = size
        while stop > 0:
            start = max(0, stop - _BLOCK_BYTES)
            newline = self._read_at(fd, start, stop - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            stop = start
        return 0

    def _read_at(self, fd: int, offset: int, size: int) -> bytes:
        self._calls.seek(fd, offset, os.SEEK_SET)
        blocks = b""
        while len(blocks) < size:
            block = self._calls.read(fd, size - len(blocks))
            if not block:
                raise OSError(errno.EIO, "it became shorter under its lock")
            blocks += block
        return blocks

    def _write_all(self, fd: int, data: bytes) -> None:
        left = memoryview(data)
        while left:
            written = self._calls.write(fd, left)  # O_APPEND: at the end, wherever the reads above left off
            if written <= 0:
                raise OSError(errno.EIO, "a write took nothing")
            left = left[written:]

    def _flush_names(self, handle: str, status: os.stat_result) -> None:
        """A new file's name is lost in a power cut until its folder is flushed.

        Whether an earlier process made the file and died before that flush cannot be seen, so the folder is
        flushed at this process's first append to each file, and the folder above it at the very first.
        """
        identity = (status.st_dev, status.st_ino)
        if self._flushed_names.get(handle) == identity:
            return
        self._calls.flush_folder(self._folder.inboxes)
        if not self._home_flushed:
            self._calls.flush_folder(self._folder.home)
            self._home_flushed = True
        if len(self._flushed_names) >= _MAX_KNOWN_NAMES:
            self._flushed_names.clear()
        self._flushed_names[handle] = identity

    def _cut_back(self, fd: int, name: str, end: int | None, error: Exception) -> AppendFailed:
        """Back to the length before the append, flushed. `end` None: the append had not come to writing."""
        why = _why(name, error)
        if end is None:
            log.error("%s: the append failed before it wrote: %s", name, why)
            return AppendFailed(why)
        try:
            self._calls.truncate(fd, end)
            self._calls.flush(fd)
        except OSError as again:
            return _not_cut_back(name, why, end, again)
        log.error("%s: the append failed and was cut back to %d bytes: %s", name, end, why)
        return AppendFailed(why, no_room=isinstance(error, OSError) and error.errno in _NO_ROOM)

    def _cut_back_closed(self, handle: str, name: str, end: int | None, error: OSError) -> AppendFailed:
        # Whatever close says, the descriptor is gone: Linux frees it first.
        try:
            fd, _ = open_private(self._folder.inbox(handle), self._calls)
        except OSError as again:
            return _not_cut_back(name, error_text(error), end, again)
        try:
            return self._cut_back(fd, name, end, error)
        finally:
            with contextlib.suppress(OSError):  # what matters was flushed above, or told
                self._calls.close(fd)


def _not_cut_back(name: str, why: str, end: int | None, again: OSError) -> AppendFailed:
    cause = error_text(again)
    log.error("%s: the append failed (%s) and its cut-back to %s bytes did too: %s", name, why, end, cause)
    return AppendFailed(
        f"{why}; cutting it back failed too ({cause}), so the line may be in the inbox", clean=False
    )


def _why(name: str, error: Exception) -> str:
    if isinstance(error, OSError):
        return error_text(error)
    if isinstance(error, MemoryError):
        return "out of memory"
    log.error("%s: the append failed in a way that is not foreseen", name, exc_info=error)
    return "an internal error"
