"""Writing registry.json: one writer at a time, the whole file or nothing (PROTOCOL registry.json, "One
writer, one reader").

Everything here blocks, on the lock and on the disk: a daemon calls it from a thread of its own.
"""

import contextlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from filing.fresh_read import ReadFailed, error_text, read_fresh
from filing.liveness import utc_stamp
from filing.private_file import write_new
from filing.registry import REGISTRY_NAME, RegistryUnreadable, parse_document
from filing.registry_lock import RULED_WAIT_S, TOUCH_WAIT_S, LockNotTakenError, registry_lock
from filing.registry_lock.lock import LockCalls, once_nobody_reads
from filing.value import Value

Document: TypeAlias = dict[str, Any]

NOT_UPDATED: Final = "the registry could not be read or updated, so nothing was written"


def not_flushed(why: str) -> str:
    return f"the registry update could not be flushed ({why}), so nothing was written"


def not_renamed(why: str) -> str:
    return f"the registry update could not be renamed into place ({why}), so nothing was written"


class Written(Value):
    """The new registry is in its place, with its bytes on the disk."""


class Unchanged(Value):
    """The change asked for nothing, and the registry is as it was."""


class NotWritten(Value):
    """The registry is as it was. `sentence` stands after `FAILED: `; `why` is the cause, for those who look
    after the box, where the sentence does not say it.
    """

    sentence: str
    why: str = ""


WriteAnswer: TypeAlias = Written | Unchanged | NotWritten


class WriteCalls(LockCalls):
    """The system calls of a registry write, in one place so that a test can replace any of them."""

    def rename(self, source: str, target: str) -> None:
        if sys.platform == "win32":
            once_nobody_reads(lambda: os.replace(source, target))
        else:
            os.replace(source, target)


SYSTEM_WRITE_CALLS: Final = WriteCalls()


def update_registry(
    home: str,
    change: Callable[[Document], Document | None],
    wait_s: float = RULED_WAIT_S,
    *,
    host: str | None = None,
    calls: WriteCalls = SYSTEM_WRITE_CALLS,
) -> WriteAnswer:
    """Write what `change` makes of the registry, under its lock.

    `change` gets the whole document and returns it changed, or None to write nothing; it may change what it
    was given. What it does not touch stays, unknown members and the order of keys too. It runs with the lock
    held: no waiting and no I/O in there. An exception of its own passes through, with nothing written.
    """
    try:
        with registry_lock(home, wait_s, host=host, calls=calls):
            return _update(home, change, calls)
    except LockNotTakenError as error:
        return NotWritten(error.sentence)


def touch_last_seen(
    home: str,
    handle: str,
    now_epoch_s: float,
    wait_s: float = TOUCH_WAIT_S,
    *,
    host: str | None = None,
    calls: WriteCalls = SYSTEM_WRITE_CALLS,
) -> WriteAnswer:
    """Stamp a row's `last_seen`, by best effort: the caller may ignore the answer. A handle without a row
    gets none.
    """

    def stamp(document: Document) -> Document | None:
        row = document["agents"].get(handle)
        if not isinstance(row, dict):
            return None
        row["last_seen"] = utc_stamp(now_epoch_s)
        return document

    return update_registry(home, stamp, wait_s, host=host, calls=calls)


def registry_text(document: Document) -> bytes:
    """The file's bytes, laid out as `jq` does it, so that people can read them. Raises `ValueError` or
    `TypeError` for what is no JSON.
    """
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode()


def _update(home: str, change: Callable[[Document], Document | None], calls: WriteCalls) -> WriteAnswer:
    # What is read here is written back: an NFS client's memory of the folder may still name the registry that
    # another host has replaced. The open of the file has words of its own for a folder that is gone.
    with contextlib.suppress(OSError):
        calls.reads.revalidate(home)
    data = read_fresh(os.path.join(home, REGISTRY_NAME), calls.reads)
    if data is None:
        return NotWritten(NOT_UPDATED, "it is missing")
    if isinstance(data, ReadFailed):
        return NotWritten(NOT_UPDATED, data.why)
    document = parse_document(data)
    if isinstance(document, RegistryUnreadable):
        return NotWritten(NOT_UPDATED, document.why)
    changed = change(document)
    if changed is None:
        return Unchanged()
    try:
        new = registry_text(changed)
    except (ValueError, TypeError, RecursionError) as error:
        return NotWritten(NOT_UPDATED, f"its new text is no JSON: {error}")
    check = parse_document(new)
    if isinstance(check, RegistryUnreadable):
        return NotWritten(NOT_UPDATED, f"its new text would be unreadable: {check.why}")
    return _replace(home, new, calls)


def _replace(home: str, data: bytes, calls: WriteCalls) -> Written | NotWritten:
    """Under the lock, so the one name of the temp file is this process's alone."""
    path = os.path.join(home, REGISTRY_NAME)
    temp = f"{path}.tmp"
    renamed = False
    try:
        try:
            with contextlib.suppress(FileNotFoundError):  # a dead writer's
                calls.unlink(temp)
            write_new(temp, data, calls.files)
        except OSError as error:
            return NotWritten(not_flushed(error_text(error)))
        try:
            calls.rename(temp, path)
        except OSError as error:
            return NotWritten(not_renamed(error_text(error)))
        renamed = True
    finally:
        if not renamed:
            with contextlib.suppress(OSError):  # the next write removes it first
                calls.unlink(temp)
    # The new registry is in place even where this fails; a power cut then leaves one of the two, whole.
    with contextlib.suppress(OSError):
        calls.files.flush_folder(home)
    return Written()
