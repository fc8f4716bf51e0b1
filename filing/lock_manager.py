"""Which lock manager guards a folder's inboxes, and what follows from it (PROTOCOL Delivery, route 1).

Everything here is decided from values. `filing.platform` asks the machine, `filing.lock_record` keeps the
file. An identity is line 1 of `inbox-lock-manager`: `local <machine-id>`, `nfs4 <source>`,
`none@<machine-id>`, or a bare `none`, which never equals anything, itself included.
"""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from filing import outcome
from filing.outcome import Refused
from topology.model import Topology

NONE: Final = "none"
LOCAL_PREFIX: Final = "local "
NFS4_PREFIX: Final = "nfs4 "

_LOCAL_FILESYSTEMS: Final = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs"})
_OCTAL_ESCAPE = re.compile(r"\\([0-7]{3})")


# The mount


def unknown_lock(machine_id: str | None) -> str:
    """The identity of a mount whose lock is proven for no machine but this one."""
    return f"none@{machine_id}" if machine_id else NONE


def identity_from_mountinfo(mountinfo: str, canonical_path: str, machine_id: str | None) -> str:
    """Line 1 for a folder on Linux. `canonical_path` holds no symlink; an empty `machine_id` is none."""
    mount = mount_of(mountinfo, canonical_path)
    if mount is not None:
        if mount.filesystem in _LOCAL_FILESYSTEMS and machine_id:
            return LOCAL_PREFIX + machine_id
        if (
            mount.filesystem == "nfs4"
            and "local_lock=none" in mount.super_options
            and any(o.startswith("vers=4.") for o in mount.super_options)
        ):
            return NFS4_PREFIX + mount.source
    return unknown_lock(machine_id)


class Mount(NamedTuple):
    """One line of a mount table: `options` are this mount's own, `super_options` its filesystem's."""

    filesystem: str
    source: str
    options: list[str]
    super_options: list[str]


def mount_of(mountinfo: str, path: str) -> Mount | None:
    """The deepest mount above `path`; of stacked ones the last, on top."""
    best = None
    depth = -1
    for line in mountinfo.split("\n"):
        before, separator, after = line.partition(" - ")
        left, right = before.split(" "), after.split(" ")
        if not separator or len(left) < 6 or len(right) < 3:
            continue
        point = _unescape(left[4]).rstrip("/")
        if len(point) >= depth and (path == point or path.startswith(point + "/")):
            best = Mount(right[0], _unescape(right[1]), left[5].split(","), right[2].split(","))
            depth = len(point)
    return best


def _unescape(field: str) -> str:
    return _OCTAL_ESCAPE.sub(lambda match: chr(int(match[1], 8)), field)


# The record


@dataclass(frozen=True, slots=True)
class LockRecord:
    """The file's first line and its second, the machine id of who wrote it (None: unknown)."""

    line1: str
    writer: str | None


@dataclass(frozen=True, slots=True)
class RecordUnreadable:
    why: str


RecordAnswer: TypeAlias = LockRecord | RecordUnreadable | None  # None: there is no record


def record_text(line1: str, machine_id: str | None) -> str:
    return f"{line1}\n{machine_id}\n" if machine_id else f"{line1}\n"


def record_parse(text: str) -> LockRecord:
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return LockRecord(line1=lines[0], writer=(lines[1] or None) if len(lines) > 1 else None)


# Who is the hub


class Role(Enum):
    HUB = "hub"
    GUEST = "guest"


@dataclass(frozen=True, slots=True)
class TopologyState:
    """What hosts.toml says of the hub: `hub` names it; `known` is False where there is no file at all."""

    hub: str | None
    known: bool

    @classmethod
    def none(cls) -> "TopologyState":
        """There is no hosts.toml."""
        return cls(hub=None, known=False)

    @classmethod
    def unreadable(cls) -> "TopologyState":
        """There is one, and it names nobody."""
        return cls(hub=None, known=True)

    @classmethod
    def of(cls, topology: Topology | None) -> "TopologyState":
        """What was read from hosts.toml; None: there is none."""
        return cls.none() if topology is None else cls.hub_named(topology.hub)

    @classmethod
    def hub_named(cls, hub: str) -> "TopologyState":
        return cls(hub=hub, known=True)


def role(topology: TopologyState, self_host: str, *, own_disk: bool) -> Role:
    """Hub: no topology, or the topology's hub, or a comm folder on its own disk. All others are guests."""
    if not topology.known or own_disk:
        return Role.HUB
    return Role.HUB if self_host and topology.hub == self_host else Role.GUEST


# What a record means to this daemon


class Kind(Enum):
    """Why a record is of no use here. `outcome` has a sentence for each that can refuse a filing."""

    NO_RECORD = "no_record"
    UNREADABLE = "unreadable"
    FOREIGN = "foreign"
    REMOUNTED = "remounted"
    NO_MACHINE_ID = "no_machine_id"
    FORWARDED_TO_GUEST = "forwarded_to_guest"
    GUEST = "guest"


class Start(Enum):
    CREATE = "create"
    CURRENT = "current"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class Keep:
    """The record is not this daemon's to write."""

    kind: Kind


class Route(Enum):
    LOCAL = "local"
    FORWARD = "forward"


@dataclass(frozen=True, slots=True)
class Refuse:
    kind: Kind


def names_own(own: str, record: RecordAnswer) -> bool:
    """Line 1 names this daemon's lock manager, so that its locks exclude every other writer's."""
    return own != NONE and isinstance(record, LockRecord) and record.line1 == own


def start_decision(its_role: Role, own: str, machine_id: str | None, record: RecordAnswer) -> Start | Keep:
    """What a daemon does about the record when it starts."""
    if its_role is Role.GUEST:
        return Keep(Kind.GUEST)
    if own == NONE:
        return Keep(Kind.NO_MACHINE_ID)
    if record is None:
        return Start.CREATE
    if isinstance(record, RecordUnreadable):
        return Keep(Kind.UNREADABLE)
    if names_own(own, record):
        return Start.CURRENT
    return Start.REPLACE if _wrote(machine_id, record) else Keep(Kind.FOREIGN)


def route_decision(
    its_role: Role, own: str, machine_id: str | None, record: RecordAnswer, *, forwarded: bool
) -> Route | Refuse:
    """Where one filing goes: into the inbox here, to the hub, or nowhere."""
    if names_own(own, record):
        return Route.LOCAL
    if its_role is Role.GUEST:
        return Refuse(Kind.FORWARDED_TO_GUEST) if forwarded else Route.FORWARD
    if own == NONE:
        return Refuse(Kind.NO_MACHINE_ID)
    if record is None:
        return Refuse(Kind.NO_RECORD)
    if isinstance(record, RecordUnreadable):
        return Refuse(Kind.UNREADABLE)
    return Refuse(Kind.REMOUNTED if _wrote(machine_id, record) else Kind.FOREIGN)


def _wrote(machine_id: str | None, record: LockRecord) -> bool:
    return machine_id is not None and record.writer == machine_id


def refusal(kind: Kind, path: str, own: str, record: RecordAnswer) -> Refused:
    """The sentence for a filing that a record forbids. `path` is the record's file."""
    match kind, record:
        case Kind.NO_MACHINE_ID, _:
            return outcome.lock_record_no_machine_id(path)
        case Kind.FORWARDED_TO_GUEST, LockRecord(line1=line1):
            return outcome.lock_record_forwarded_to_guest(path, own, line1)
        case Kind.FORWARDED_TO_GUEST, _:
            return outcome.lock_record_forwarded_to_guest(path, own, None)
        case Kind.REMOUNTED, LockRecord(line1=line1):
            return outcome.lock_record_remounted(path, own, line1)
        case _, LockRecord(line1=line1, writer=writer):
            return outcome.lock_record_foreign(path, own, line1, writer)
        case _, RecordUnreadable(why=why):
            return outcome.lock_record_unreadable(path, own, why)
        case _:
            return outcome.lock_record_missing(path, own)
