"""Why the lock was not taken, and what FAILED says about it (PROTOCOL The registry lock, FAILED).

The scripts print `ERROR: ` before these sentences, and a verb `FAILED: `.
"""

from typing import Final, TypeAlias

from filing.registry_lock.record import Finding, Record
from filing.value import Value

RELEASED: Final = "it was released, or taken anew, just then"
RETAKEN: Final = "another process took it as soon as a dead holder's lock was removed"
OLDER_VERSION: Final = "held by an older version that records no holder"


class HeldBy(Value):
    """`holder` has it. `blocker` is what stands in the way: the holder, or a reclaimer of it. `finding` is
    None where the blocker was not judged.
    """

    holder: Record
    why: str
    blocker: Record
    finding: Finding | None = None


class ByHand(Value):
    """No reclaim can clear it: only a person."""

    why: str


class LastSeen(Value):
    """`holder` had it when it was last read."""

    holder: Record
    why: str


class NeverRead(Value):
    why: str


class CannotTake(Value):
    """The folder allows no take at all. `why` is the whole sentence."""

    why: str


Blocked: TypeAlias = HeldBy | ByHand | LastSeen | NeverRead | CannotTake


def failed(blocked: Blocked, path: str, age_s: float | None) -> str:
    """The sentence. `age_s` is the age of the lock at `path`, None where it is unknown."""
    age = "unknown" if age_s is None else f"{max(0, int(age_s))}s"
    match blocked:
        case HeldBy(holder=holder, why=why):
            return (
                f"registry lock {path} is held by {_who(holder)} ({age} old): {why}. {_then(blocked, path)}"
            )
        case ByHand(why=why):
            return (
                f"registry lock {path} still held ({age} old): {why}. "
                f"If its holder is dead, remove {path} by hand and retry."
            )
        case LastSeen(holder=holder, why=why):
            return (
                f"registry lock {path} was held by {_who(holder)} when last read ({why}); "
                "it may have been released since. Retry."
            )
        case NeverRead(why=why):
            return f"registry lock {path} was not taken by the deadline: {why}. Retry."
        case CannotTake(why=why):
            return why


def free(path: str) -> str:
    return f"registry lock {path} is free"


def cleared(holder: Record, path: str) -> str:
    return f"registry lock {path} was cleared: its holder, {_who(holder)}, is dead"


def not_cleared_unread(path: str, why: str) -> str:
    """`why` is that of `walk.NotSeen`: it says what could not be read."""
    return (
        f"registry lock {path} was not cleared: {why}. "
        f"Retry; if that stays so and its holder is dead, remove {path} by hand."
    )


def turn_never_came(path: str) -> str:
    return f"registry lock {path} was not tried: another thread of this daemon held its turn past the bound"


def cannot_link(folder: str, error: str) -> str:
    return f"cannot hard-link in {folder}: {error}"


def cannot_write_temp(lock: str, temp: str, error: str) -> str:
    return f"registry lock {lock} was not taken: its temp file {temp} could not be written: {error}"


def _who(record: Record) -> str:
    return f"{record.name} pid {record.pid} start {record.start}"


def _then(blocked: HeldBy, path: str) -> str:
    """What a person can do about it."""
    who = blocked.blocker
    host = who.name
    if who.proves_nothing:
        return (
            f"No box can prove {host} pid {who.pid} dead (its record has no proof fields): "
            f"if it is, remove {path} by hand."
        )
    clear = f"or a comm command there says it cannot prove a death, remove {path} by hand."
    match blocked.finding:
        # A box that proves no death cannot tell a record of another machine from one of its own.
        case Finding.OTHER_MACHINE | Finding.NO_PROOF_HERE:
            return f"If it is dead: run any comm command on {host}, or, if {host} will not run again {clear}"
        case Finding.OTHER_PID_NAMESPACE:
            return (
                f"If it is dead: run any comm command on {host} in its pid namespace, "
                f"or, if nothing will run there again {clear}"
            )
        case _:
            # A process that cannot be looked at from here may be proved dead by another account of its box,
            # whose reclaim a removal by hand would meet half-way.
            return f"If it is dead, run any comm command on {host}."
