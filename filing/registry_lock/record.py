"""Who holds the registry lock, and is that process dead (PROTOCOL The registry lock).

A record is one line, `name:machine:boot:pidns:pid:start`. Everything here is decided from values;
`filing.platform.process` asks the machine.
"""

from collections.abc import Callable
from enum import Enum
from typing import Final

from filing.value import Value

UNKNOWN: Final = "-"  # a field that cannot be read; it never equals anything, itself included
LOCK_NAME: Final = ".registry.lock"

_NAME_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class Record(Value):
    """The line that names a holder, or the creator of a marker."""

    name: str
    machine: str
    boot: str
    pidns: str
    pid: str
    start: str

    def __str__(self) -> str:
        return f"{self.name}:{self.machine}:{self.boot}:{self.pidns}:{self.pid}:{self.start}"

    @property
    def proves_nothing(self) -> bool:
        """No box can prove its process dead."""
        return self.machine == self.boot == self.pidns == self.start == UNKNOWN

    @property
    def temp_name(self) -> str:
        return f"{LOCK_NAME}.tmp.{self._file_name}"

    @property
    def marker_name(self) -> str:
        """The marker that a reclaim of this holder takes."""
        return f"{LOCK_NAME}.reclaim.{self._file_name}"

    @property
    def _file_name(self) -> str:
        return str(self).replace(":", ".")  # Windows reads a ':' in a name as a stream


def parse_record(text: str) -> Record | None:
    """The record on the first line of `text`; None where that line is none."""
    fields = first_line(text).removesuffix("\r").split(":")
    # A marker's name is made of its record: what no file name can hold is no record.
    if len(fields) != 6 or not _is_number(fields[4]) or any("/" in f or "\0" in f for f in fields):
        return None
    return Record(*fields)


def first_line(text: str) -> str:
    return text.partition("\n")[0]


def name_field(host: str) -> str:
    """A host name as a record holds it."""
    return "".join(c if c in _NAME_CHARACTERS else "_" for c in host) or UNKNOWN


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 20  # no 64-bit number has more


class Me(Value):
    """This process's own record, and whether this box proves deaths in this comm home at all.

    `no_proof` is why it does not, in words; None: it does.
    """

    record: Record
    no_proof: str | None = None

    def is_me(self, record: Record) -> bool:
        """`record` is this process's own. Without its proof fields another box's process of the same host
        name and pid would read as this one.
        """
        return (
            self.no_proof is None
            and UNKNOWN not in {record.boot, record.pidns, record.start}
            and record == self.record
        )


class Verdict(Enum):
    DEAD = "DEAD"
    ALIVE = "ALIVE"
    UNPROVABLE = "UNPROVABLE"


class Finding(Enum):
    """What a look at a record's process found. `verdict` follows from it, and so does the recovery that a
    FAILED line names (`sentences`).
    """

    EXITED = "its process has exited"
    PID_REUSED = "its pid is another process's now"
    REBOOTED = "its machine has been started anew since"
    LEFT_BY_A_THREAD = "it is this process's own, left by one of its threads"
    RUNNING = "its process is running"
    UNREADABLE = "its process cannot be looked at"
    OTHER_MACHINE = "it is on another machine"
    OTHER_PID_NAMESPACE = "it is in another pid namespace"
    NO_PROOF_HERE = "this box cannot prove a death"

    @property
    def verdict(self) -> Verdict:
        if self in _DEAD:
            return Verdict.DEAD
        return Verdict.ALIVE if self is Finding.RUNNING else Verdict.UNPROVABLE


_DEAD: Final = frozenset({Finding.EXITED, Finding.PID_REUSED, Finding.REBOOTED, Finding.LEFT_BY_A_THREAD})


class Start(Enum):
    """A process with no start tick to compare."""

    GONE = "gone"  # there is no such process
    UNREADABLE = "unreadable"


def judge(record: Record, me: Me, start_of: Callable[[int], str | Start]) -> Finding:
    """Is the record's process dead? Only its own machine can tell (Proof of death).

    `start_of` gives the start of this pid namespace's process of that pid, and is asked only about those.
    """
    mine = me.record
    if me.no_proof is not None:
        return Finding.NO_PROOF_HERE
    if _same(record.boot, mine.boot) and _same(record.pidns, mine.pidns):
        return _look(record, start_of(int(record.pid)))
    here = _same(record.machine, mine.machine) and _same(record.name, mine.name)
    if not here:
        return Finding.OTHER_MACHINE
    if UNKNOWN not in {record.boot, mine.boot} and record.boot != mine.boot:
        return Finding.REBOOTED
    return Finding.OTHER_PID_NAMESPACE


def _look(record: Record, start: str | Start) -> Finding:
    if start is Start.GONE:
        return Finding.EXITED
    if start is Start.UNREADABLE:
        return Finding.UNREADABLE
    changed = UNKNOWN not in {record.start, start} and record.start != start
    return Finding.PID_REUSED if changed else Finding.RUNNING


def _same(one: str, other: str) -> bool:
    return one == other != UNKNOWN
