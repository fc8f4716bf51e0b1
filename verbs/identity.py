"""Who this process is: the handle it acts as, the row it carries, and whether the handle is its own (PROTOCOL
Layout, self files; Cases, "A handle a row holds"; WIRE section 8).

Every verb asks here and nowhere else, so that what is judged of an identity is judged for all of them.
"""

import errno
import os
import stat
from _collections_abc import Mapping  # collections.abc under the name that is loaded already

from topology.names import HostNameError, self_file_says, self_host
from topology.paths import comm_home

NO_ROW = "nopane"  # the slot of a process outside any row


TYPE_CHECKING = False  # a type checker takes it for true; `typing` costs start-up time
if TYPE_CHECKING:
    from verbs.project import Project


class NoIdentityError(Exception):
    """This process has no handle. `why`, and as str() a sender's line, which says how to give one."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"no sender: {why}; join first (comm-join), or give --from NAME, or set SOT_COMM_NAME; "
            "nothing was sent"
        )
        self.why = why


class IdentityNotToldError(NoIdentityError):
    """Whether this process has a handle cannot be told: it may have one."""


class Identity:
    """A handle, and the self file that gave it (None where it was given by name)."""

    __slots__ = ("handle", "self_file")

    def __init__(self, handle: str, self_file: str | None = None) -> None:
        self.handle = handle
        self.self_file = self_file


class SelfFile:
    """A self file's text, each part "" where it does not say it."""

    __slots__ = ("handle", "repo", "root")

    def __init__(self, data: bytes) -> None:
        self.handle, self.repo, self.root = self_file_says(data)


def identify(named: str | None, env: Mapping[str, str]) -> Identity:
    """Return who this process acts as: `named` (`--from`), `$SOT_COMM_NAME`, else this slot's self file.

    A self file that names another project's session gives no handle. Raises NoIdentityError.
    """
    if given := named or env.get("SOT_COMM_NAME"):
        handle = given.removeprefix("@")  # no handle begins with one
        if not handle:
            raise NoIdentityError(f"the name given is {given!r}, which is no handle")
        return Identity(handle)
    path = self_file_path(env)
    try:
        told = SelfFile(_read(path))
        told.handle.encode("utf-8")
    except FileNotFoundError:
        raise NoIdentityError(f"there is no {path}") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise IdentityNotToldError(f"{path} could not be read: {why}") from None
    if not told.handle:
        raise NoIdentityError(f"line 1 of {path} is empty")
    if claim := _another_project(told):
        raise NoIdentityError(f"{path} names @{told.handle}, {claim}")
    return Identity(told.handle, path)


def _read(path: str) -> bytes:
    """Return a regular file's bytes. A FIFO in its place would hold the reader until somebody wrote into it.

    By hand, since every send by a self file reads one, and `filing.self_file` costs start-up time.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    flags |= getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0)
    descriptor = os.open(path, flags)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        data = b""
        while block := os.read(descriptor, 65_536):
            data += block
        return data
    finally:
        os.close(descriptor)


def _another_project(told: SelfFile) -> str | None:
    """Say that a self file is another project's than the working folder's, None where it is not.

    A row's slot comes from the environment and the shared one is written by every shell, so a file is looked
    at each time it is read. `root=` decides, `repo=` for an older file; one with neither is no evidence.
    """
    if not told.root and not told.repo:
        return None
    from verbs.project import project_here

    try:
        here = project_here()
    except OSError as error:
        raise IdentityNotToldError(f"the working folder cannot be told: {error.strerror}") from None
    if told.root:
        return None if told.root == here.root else f"claimed for root={told.root}, and this is {here.root}"
    return None if told.repo == here.repo else f"claimed for repo={told.repo}, and this is {here.repo}"


def self_file_path(env: Mapping[str, str]) -> str:
    """Return this slot's self file: `$SOT_COMM_SELF_FILE`, else `<comm folder>/self/<host>__<row>.txt`."""
    if pinned := env.get("SOT_COMM_SELF_FILE"):
        return pinned
    try:
        host = self_host(env)
    except HostNameError as error:
        raise IdentityNotToldError(str(error)) from None
    slot = env.get("SOT_WORKSPACE_ID") or NO_ROW
    return os.path.join(comm_home(env), "self", f"{host}__{slot}.txt")  # noqa: PTH118  # as above


def carried_row(env: Mapping[str, str]) -> str | None:
    """Return the id of the row that this process's identity names, None outside any row (PROTOCOL Cases).

    A pinned self file says it by its name; only where none is pinned does `$SOT_WORKSPACE_ID`.
    """
    pinned = env.get("SOT_COMM_SELF_FILE")
    if not pinned:
        return env.get("SOT_WORKSPACE_ID") or None
    from filing.self_file import row_in_name

    try:
        host = self_host(env)
    except HostNameError:
        host = ""
    return row_in_name(os.path.basename(pinned), host)  # noqa: PTH119  # as above


def held_by_another(entry: object, carried: str | None) -> str | None:
    """Return the row that a registry entry is bound to, None where that is `carried` or no row at all."""
    holder = entry.get("workspace_id") if isinstance(entry, dict) else None
    return holder if isinstance(holder, str) and holder and holder != carried else None


def not_this_rows(handle: str, holder: str, carried: str | None) -> str:
    """Say that a handle is another row's to read and to act as (PROTOCOL Cases)."""
    return (
        f"@{handle} belongs to row {holder}; this process carries {carried or 'no row id'}, "
        "so it is not this row's inbox"
    )


def not_its_own(
    handle: str, agents: Mapping[str, object], here: "Project", carried: str | None
) -> str | None:
    """Say why this process may not act as `handle`, None where it may: the one gate of sends and stamps.

    The handle has a row among `agents`, no other workspace row holds it, and it was joined from this project,
    or from an unknown one. An ancestry check would stand here, before the others (PROTOCOL Cases).
    """
    if handle not in agents:
        return f"your identity @{handle} has no registry row; reclaim it with comm-join --name {handle}"
    entry = agents[handle]
    if holder := held_by_another(entry, carried):
        return not_this_rows(handle, holder, carried)
    root = entry.get("root") if isinstance(entry, dict) else None
    if root and root != here.root:
        return (
            f"your identity @{handle} is registered for another project ({root}), and this is {here.root}; "
            f"reclaim it with comm-join --name {handle}"
        )
    return None
