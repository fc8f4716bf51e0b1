"""Making a comm folder ready at a join: its folders, its first registry, its modes (PROTOCOL Layout,
registry.json, Versioning).
"""

import contextlib
import itertools
import os
import stat
import sys
from collections.abc import Iterator
from typing import Final

from filing.comm_folder import FILE_MODE, FOLDER_MODE, make_private_folder
from filing.fresh_read import error_text
from filing.private_file import write_new
from filing.registry import REGISTRY_NAME
from filing.registry_lock.lock import SYSTEM_LOCK_CALLS, LockCalls
from filing.registry_lock.record import LOCK_NAME
from filing.registry_lock.sentences import cannot_link
from filing.registry_write import registry_text
from filing.value import Value

PROTOCOL_VERSION: Final = 1

_FOLDERS: Final = ("inbox", "read", "self", "state")
_ROOT_FILES: Final = (
    REGISTRY_NAME,
    f"{REGISTRY_NAME}.tmp",
    LOCK_NAME,
    "inbox-lock-manager",
    "gh-device-auth.json",
)
_ROOT_PREFIXES: Final = (
    f"{REGISTRY_NAME}.new.",
    f"{LOCK_NAME}.reclaim.",
    f"{LOCK_NAME}.tmp.",
    ".inbox-lock-manager.",
)
_FILES_IN: Final = {
    "inbox": (".jsonl", ".lock"),
    "read": (".cursor",),
    "self": (".txt",),
    "state": ("",),  # whatever a session left there
}
_PROBES: Final = "probe"

_counter = itertools.count(1)


class HomeReady(Value):
    """`warnings` are for a person to read: what could not be made private."""

    warnings: tuple[str, ...] = ()


class HomeNotReady(Value):
    """`sentence` stands after `FAILED: `."""

    sentence: str


def ensure_home(home: str, *, calls: LockCalls = SYSTEM_LOCK_CALLS) -> HomeReady | HomeNotReady:
    """Make what is missing of a comm folder, and close what an older version left open to others.

    A registry is made only where there is no file, and by a hard link, which fails on an existing name: none
    is replaced, cut or repaired. Of what stands in the folder only the entries of Layout are closed.
    """
    try:
        for name in _FOLDERS:
            make_private_folder(os.path.join(home, name), calls.files)
    except OSError as error:
        return HomeNotReady(f"the comm folder {home} could not be made: {error_text(error)}")
    if not os.path.lexists(os.path.join(home, REGISTRY_NAME)):
        refusal = _make_registry(home, calls)
        if refusal is not None:
            return HomeNotReady(refusal)
    return HomeReady(() if sys.platform == "win32" else tuple(_close(home)))


def _make_registry(home: str, calls: LockCalls) -> str | None:
    """Publish an empty registry, flushed. The sentence of a failure, or None."""
    path = os.path.join(home, REGISTRY_NAME)
    temp = f"{path}.new.{os.getpid()}.{next(_counter)}"
    skeleton = registry_text({"protocol_version": PROTOCOL_VERSION, "agents": {}})
    try:
        with contextlib.suppress(FileNotFoundError):  # left by a dead process that had our pid
            calls.unlink(temp)
        write_new(temp, skeleton, calls.files)
        try:
            calls.link(temp, path)
        except FileExistsError:
            return None  # another join was first
        except OSError as error:
            return cannot_link(home, error_text(error))
        calls.files.flush_folder(home)
    except OSError as error:
        return f"the registry {path} could not be made: {error_text(error)}"
    finally:
        with contextlib.suppress(
            OSError
        ):  # what is left of it is closed at the next join, and in nobody's way
            calls.unlink(temp)
    return None


# Modes


def _close(home: str) -> Iterator[str]:
    """The comm folder's own entries become 0700 or 0600, the folder itself last: a pass cut short leaves it
    open, to be seen. Yields a warning for each that could not be closed.
    """
    path = os.path.realpath(home)  # the folder itself may be reached by a link
    reason = _no_comm_folder(path)
    if reason is not None:
        yield f"the modes in {home} were left as they are: it is {reason}"
        return
    for entry in _entries(path):
        yield from _close_entry(entry)
    yield from _close_entry(path)


def _no_comm_folder(path: str) -> str | None:
    """A mistaken $SOT_COMM_HOME must not take anybody's access to a folder that serves other ends."""
    if path == "/":
        return "the root folder"
    if path == os.path.realpath(os.path.expanduser("~")):
        return "a home folder"
    if os.path.lexists(os.path.join(path, ".git")):
        return "a git checkout"
    return None


def _entries(home: str) -> Iterator[str]:
    for name in _names(home):
        if name in _ROOT_FILES or name.startswith(_ROOT_PREFIXES):
            yield os.path.join(home, name)
    for folder, endings in _FILES_IN.items():
        path = os.path.join(home, folder)
        for name in _names(path):
            if name.endswith(endings):
                yield os.path.join(path, name)
        yield path
    probes = os.path.join(home, _PROBES)
    for name in _names(probes):
        if _is_folder(os.path.join(probes, name)):
            yield os.path.join(probes, name)  # a project's root: what is in there is the project's
    yield probes


def _names(folder: str) -> list[str]:
    """A layout folder that is a link leads out of the comm folder, and is not followed."""
    try:
        return [] if os.path.islink(folder) else sorted(os.listdir(folder))
    except OSError:
        return []


def _close_entry(path: str) -> Iterator[str]:
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISDIR(mode):
            wanted = FOLDER_MODE
        elif stat.S_ISREG(mode):
            wanted = FILE_MODE
        else:
            return  # a link, or something stranger, was put there by a person
        if stat.S_IMODE(mode) != wanted:
            os.chmod(path, wanted)
    except FileNotFoundError:
        return
    except OSError as error:
        yield f"{path} could not be made private: {error_text(error)}"


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False
