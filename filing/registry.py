"""registry.json: who is listed in this comm folder (PROTOCOL registry.json, "Unreadable is never absent")."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from filing.fresh_read import SYSTEM_CALLS, ReadCalls, ReadFailed, read_fresh
from filing.strict_json import NotStrictJsonError, parse_strict

REGISTRY_NAME: Final = "registry.json"


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """A registry that was read whole. `agents` is its object of that name, with rows as they stand in the
    file.
    """

    agents: Mapping[str, Any]

    def entry(self, handle: str) -> Mapping[str, Any] | None:
        """The row of a handle that is listed: an object whose `host` is a non-empty string."""
        row = self.agents.get(handle)
        if not isinstance(row, dict):
            return None
        host = row.get("host")
        return row if isinstance(host, str) and host else None

    def listed_under(self, handle: str, box: str) -> bool:
        """What a link may file an offer for: the handle is listed, and under this very box."""
        entry = self.entry(handle)
        return entry is not None and entry["host"] == box


@dataclass(frozen=True, slots=True)
class RegistryMissing:
    """There is no registry, which lists nobody."""


@dataclass(frozen=True, slots=True)
class RegistryUnreadable:
    """There is one and it tells nothing, which is never read as "absent"."""

    why: str


RegistryAnswer: TypeAlias = Listing | RegistryMissing | RegistryUnreadable


def parse_document(data: bytes) -> dict[str, Any] | RegistryUnreadable:
    """The file's one document, whose `agents` is an object."""
    if not data:
        return RegistryUnreadable("it is empty")
    try:
        document = parse_strict(data)
    except NotStrictJsonError as error:
        return RegistryUnreadable(str(error))
    if not isinstance(document, dict) or not isinstance(document.get("agents"), dict):
        return RegistryUnreadable("it has no object .agents")
    return document


def parse_registry(data: bytes) -> Listing | RegistryUnreadable:
    document = parse_document(data)
    return document if isinstance(document, RegistryUnreadable) else Listing(document["agents"])


class RegistryReader:
    """Reads the file at every call, and parses it only when its bytes differ from the last. For one thread at
    a time.
    """

    def __init__(self, home: str, calls: ReadCalls = SYSTEM_CALLS) -> None:
        self._path = os.path.join(home, REGISTRY_NAME)
        self._calls = calls
        self._data = b""
        self._parsed: Listing | RegistryUnreadable = parse_registry(b"")

    def read(self) -> RegistryAnswer:
        """Blocks on the disk; about 200 ms more when reads fail or come back empty."""
        data = read_fresh(self._path, self._calls)
        if data is None:
            return RegistryMissing()
        if isinstance(data, ReadFailed):
            return RegistryUnreadable(data.why)
        if data != self._data:
            self._data, self._parsed = data, parse_registry(data)
        return self._parsed


def read_registry(home: str, calls: ReadCalls = SYSTEM_CALLS) -> RegistryAnswer:
    """The registry of one comm folder, read once. Blocks; see `RegistryReader.read`."""
    return RegistryReader(home, calls).read()
