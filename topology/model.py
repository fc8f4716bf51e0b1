"""Who the boxes are: what a hosts.toml says, as data that never changes (WIRE section 7)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Host:
    """One `[host.<name>]` section. `url` is how others dial the hub of this box, as it was written."""

    name: str
    daemon: bool = False
    frontend: bool = False
    url: str | None = None


@dataclass(frozen=True, slots=True)
class HostWarning:
    """Something in a host's section that is ignored: where it stands, and a sentence that says so."""

    path: str
    line: int
    host: str
    key: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.sentence}"


@dataclass(frozen=True, slots=True)
class Topology:
    """A whole hosts.toml that was found valid. Hosts, monitor entries and warnings stand in file order.

    `sha256` is the hex digest of the file's bytes, `path` the file as it was named. Two readings of the same
    bytes under one path are equal.
    """

    hub: str
    hosts: tuple[Host, ...]
    monitor: tuple[tuple[str, str], ...] = ()
    warnings: tuple[HostWarning, ...] = ()
    sha256: str = ""
    path: str = "hosts.toml"
    _place: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        place = {host.name: number for number, host in enumerate(self.hosts)}
        object.__setattr__(self, "_place", MappingProxyType(place))

    def host(self, name: str) -> Host | None:
        """Return the host of this name, None when the file does not list it."""
        place = self._place.get(name)
        return None if place is None else self.hosts[place]

    def lists(self, name: str) -> bool:
        """Tell whether the file lists this host."""
        return name in self._place

    def link_holders(self) -> tuple[str, ...]:
        """Return the boxes that should hold a link to the hub: `frontend = true`, and not the hub itself."""
        return tuple(host.name for host in self.hosts if host.frontend and host.name != self.hub)

    def hub_url(self) -> str | None:
        """Return how others dial the hub, None when the file does not say."""
        host = self.host(self.hub)
        return None if host is None else host.url

    def in_file_order(self, names: Iterable[str]) -> list[str]:
        """Return the names in file order, then by name those that are not in the file (WIRE section 5)."""
        return sorted(names, key=lambda name: (self._place.get(name, len(self.hosts)), name))
