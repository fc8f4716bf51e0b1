"""One row of the registry, in three answers (PROTOCOL registry.json, "Every read")."""

from typing import Any, TypeAlias

from filing.fresh_read import SYSTEM_CALLS, ReadCalls
from filing.registry import Listing, RegistryAnswer, RegistryMissing, RegistryUnreadable, read_registry
from filing.value import Value


class Present(Value):
    """`row` as it stands in the file, which may hold anything."""

    row: Any


class Absent(Value):
    """The registry was read whole, and has no such row."""


class Unreadable(Value):
    """Nothing is known of the row: never read as absent."""

    why: str


RowAnswer: TypeAlias = Present | Absent | Unreadable


def row_in(registry: RegistryAnswer, handle: str) -> RowAnswer:
    match registry:
        case Listing(agents=agents):
            return Present(agents[handle]) if handle in agents else Absent()
        case RegistryMissing():
            return Unreadable("it is missing")
        case RegistryUnreadable(why=why):
            return Unreadable(why)


def read_row(home: str, handle: str, calls: ReadCalls = SYSTEM_CALLS) -> RowAnswer:
    """Blocks on the disk; see `registry.RegistryReader.read`."""
    return row_in(read_registry(home, calls), handle)
