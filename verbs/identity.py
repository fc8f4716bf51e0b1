"""Who is sending: the handle this process acts as (PROTOCOL "Layout", self files; WIRE section 8)."""

import os
from _collections_abc import Mapping  # collections.abc under the name that is loaded already

from topology.names import HostNameError, self_host
from topology.paths import comm_home

NO_ROW = "nopane"  # the slot of a process outside any row


class NoIdentityError(Exception):
    """This process has no handle; str() says why and how to give one."""


class Identity:
    """A handle, and the self file that gave it (None where it was given by name)."""

    __slots__ = ("handle", "self_file")

    def __init__(self, handle: str, self_file: str | None = None) -> None:
        self.handle = handle
        self.self_file = self_file


class SelfFile:
    """A self file's text: the handle on line 1, then `key=value` lines; `repo` and `root` are known."""

    __slots__ = ("handle", "repo", "root")

    def __init__(self, text: str) -> None:
        first, *rest = text.split("\n")
        facts = dict(line.rstrip("\r").split("=", 1) for line in rest if "=" in line)
        self.handle = first.strip()
        self.repo = facts.get("repo", "")
        self.root = facts.get("root", "")


def identify(named: str | None, env: Mapping[str, str]) -> Identity:
    """Return who this process acts as: `named` (`--from`), `$SOT_COMM_NAME`, else this slot's self file.

    Raises NoIdentityError.
    """
    if handle := named or env.get("SOT_COMM_NAME"):
        return Identity(handle)
    path = self_file_path(env)
    try:
        with open(path, encoding="utf-8", newline="") as file:  # noqa: PTH123  # pathlib costs start-up time
            handle = SelfFile(file.read()).handle
    except FileNotFoundError:
        raise NoIdentityError(_no_sender(f"there is no {path}")) from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise NoIdentityError(_no_sender(f"{path} could not be read: {why}")) from None
    if not handle:
        raise NoIdentityError(_no_sender(f"line 1 of {path} is empty"))
    return Identity(handle, path)


def self_file_path(env: Mapping[str, str]) -> str:
    """Return this slot's self file: `$SOT_COMM_SELF_FILE`, else `<comm folder>/self/<host>__<row>.txt`."""
    if pinned := env.get("SOT_COMM_SELF_FILE"):
        return pinned
    try:
        host = self_host(env)
    except HostNameError as error:
        raise NoIdentityError(_no_sender(str(error))) from None
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


def _no_sender(why: str) -> str:
    return (
        f"no sender: {why}; join first (comm-join), or give --from NAME, or set SOT_COMM_NAME; "
        "nothing was sent"
    )
