"""Keeping `inbox-lock-manager`, the hub's record of the lock that guards a folder's inboxes (PROTOCOL
Delivery).
"""

import contextlib
import itertools
import logging
import os
from dataclasses import dataclass
from enum import Enum

from filing.comm_folder import SYSTEM_FILES, CommFolder, FileCalls, make_private_folder
from filing.fresh_read import SYSTEM_CALLS, ReadCalls, ReadFailed, error_text, read_fresh
from filing.lock_manager import (
    Keep,
    Kind,
    LockRecord,
    RecordAnswer,
    RecordUnreadable,
    Role,
    Start,
    record_parse,
    record_text,
    start_decision,
)
from filing.private_file import write_new

_TRIES = 5  # of a start; each is lost only to another daemon that starts at the same moment

_counter = itertools.count(1)


class RecordFate(Enum):
    """What a start did to the record."""

    CREATED = "created"
    CURRENT = "current"
    REPLACED = "replaced"
    KEPT = "kept"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RecordStart:
    """`line` is for the log, at `level` (of `logging`)."""

    fate: RecordFate
    line: str
    level: int = logging.INFO


def read_record(folder: CommFolder, calls: ReadCalls = SYSTEM_CALLS) -> RecordAnswer:
    """The record by the fresh read rule; blocks on the disk."""
    data = read_fresh(folder.lock_record, calls)
    if data is None:
        return None
    if isinstance(data, ReadFailed):
        return RecordUnreadable(data.why)
    return record_parse(data.decode("utf-8", "surrogateescape"))


def start_record(
    folder: CommFolder,
    its_role: Role,
    own: str,
    machine_id: str | None,
    *,
    files: FileCalls = SYSTEM_FILES,
    reads: ReadCalls = SYSTEM_CALLS,
) -> RecordStart:
    """What a starting daemon does about the record, done; a hub's comm folder is made when it is missing.

    Of two hubs that start at once one creates the record, and the other then judges what it finds.
    """
    path = folder.lock_record
    try:
        if its_role is Role.HUB:
            make_private_folder(folder.inboxes, files)
        for _ in range(_TRIES):
            record = read_record(folder, reads)
            decision = start_decision(its_role, own, machine_id, record)
            if isinstance(decision, Keep):
                return _kept(decision.kind, path, own, record)
            if decision is Start.CURRENT:
                return RecordStart(RecordFate.CURRENT, f"{path} names this daemon's lock manager, {own!r}")
            if decision is Start.REPLACE:
                _publish(folder, own, machine_id, files, replace=True)
                return RecordStart(RecordFate.REPLACED, _replaced(path, own, record), logging.WARNING)
            if _publish(folder, own, machine_id, files, replace=False):
                return RecordStart(RecordFate.CREATED, f"{path} written: the lock manager is {own!r}")
    except OSError as error:
        return _failed(path, error_text(error))
    return _failed(path, "other daemons keep writing and removing it")


def _publish(
    folder: CommFolder, own: str, machine_id: str | None, files: FileCalls, *, replace: bool
) -> bool:
    """Write the record under another name, flush it, then name it. False: another daemon was first."""
    temporary = _temporary_path(folder, machine_id)
    data = record_text(own, machine_id).encode("utf-8", "surrogateescape")
    try:
        with contextlib.suppress(FileNotFoundError):  # left by a dead process that had our pid
            os.unlink(temporary)
        write_new(temporary, data, files)
        if replace:
            os.replace(temporary, folder.lock_record)
        else:
            try:
                os.link(temporary, folder.lock_record)
            except FileExistsError:
                # A retransmitted NFSv3 LINK answers "exists" for the caller's own link.
                if not os.path.samestat(os.lstat(temporary), os.lstat(folder.lock_record)):
                    return False
        files.flush_folder(folder.home)
        return True
    finally:
        with contextlib.suppress(FileNotFoundError):  # a replace has moved it
            os.unlink(temporary)


def _temporary_path(folder: CommFolder, machine_id: str | None) -> str:
    # Windows reads a ':' in a file name as a stream.
    name = f".inbox-lock-manager.{machine_id or '-'}.{os.getpid()}.{next(_counter)}".replace(":", ".")
    return os.path.join(folder.home, name.replace("/", "."))


def _replaced(path: str, own: str, record: RecordAnswer) -> str:
    before = record.line1 if isinstance(record, LockRecord) else None
    return f"{path} replaced: this machine wrote {before!r} there, and it is {own!r} now (a remount)"


def _kept(kind: Kind, path: str, own: str, record: RecordAnswer) -> RecordStart:
    match kind, record:
        case Kind.GUEST, LockRecord(line1=line1):
            same = "the same" if line1 == own else f"this daemon's is {own!r}"
            return RecordStart(RecordFate.KEPT, f"a guest on this folder: {path} names {line1!r}, {same}")
        case Kind.GUEST, _:
            return RecordStart(RecordFate.KEPT, f"a guest on this folder: {path} is for the hub to write")
        case Kind.NO_MACHINE_ID, _:
            why = "this machine has no machine id: give it one (/etc/machine-id on Linux) and start again"
        case _, LockRecord(line1=line1, writer=writer):
            by = f"machine {writer}" if writer else "an unknown machine"
            why = (
                f"it names {line1!r}, written by {by}, and this daemon's lock manager is {own!r}: "
                "stop every daemon on the folder, delete it and start the hub"
            )
        case _, RecordUnreadable(why=cause):
            why = f"it could not be read: {cause}"
        case _:
            why = "it is not this daemon's to write"
    return RecordStart(
        RecordFate.KEPT, f"{path} left as it is, so no mail is filed here: {why}", logging.ERROR
    )


def _failed(path: str, why: str) -> RecordStart:
    return RecordStart(
        RecordFate.FAILED,
        f"{path} could not be written, so no mail is filed here: {why}",
        logging.ERROR,
    )
