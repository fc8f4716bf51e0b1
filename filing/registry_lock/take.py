"""Taking the lock by a deadline: tries, reclaim steps and pauses (PROTOCOL The registry lock, Bounds).

Pure, as `walk` is. Where the deadline is looked at: after every failed take but the first, after every pause,
and at every marker a step walks past its first. A removed lock is retaken at once, as part of the try that
removed it, even past the deadline.
"""

from typing import Final, TypeAlias, assert_never

from filing.registry_lock import walk
from filing.registry_lock.record import Me
from filing.registry_lock.sentences import (
    RELEASED,
    RETAKEN,
    Blocked,
    ByHand,
    CannotTake,
    HeldBy,
    LastSeen,
    NeverRead,
)
from filing.value import Value

POLL_S: Final = 0.05


# Commands, beside those of `walk`


class LinkLock(Value):
    """-> Linked, Exists or CannotLink"""


class Pause(Value):
    """-> Done"""

    seconds: float


Command: TypeAlias = LinkLock | Pause | walk.Command


# States


class Trying(Value):
    """`last` is what the last step found; None before the first."""

    last: Blocked | None = None
    retaking: bool = False


class NamingTaker(Value):
    """A retake failed: whoever was faster is the one to name."""


class Stepping(Value):
    last: Blocked | None
    step: walk.State


class Pausing(Value):
    last: Blocked


State: TypeAlias = Trying | NamingTaker | Stepping | Pausing


# Ends


class Taken(Value):
    pass


class NotTaken(Value):
    blocked: Blocked


Next: TypeAlias = tuple[State, Command] | Taken | NotTaken


def begin() -> tuple[State, Command]:
    return Trying(), LinkLock()


def advance(state: State, event: walk.Event, me: Me, *, left_s: float) -> Next:
    """The next state with its command, or the end. `left_s` is what is left of the deadline, now."""
    past = left_s <= 0
    match state, event:
        case Trying(), walk.Linked():
            return Taken()
        case Trying(), walk.CannotLink(why=why):
            return NotTaken(CannotTake(why))
        case Trying(retaking=True), walk.Exists():
            return NamingTaker(), walk.ReadLock()
        case Trying(last=last), walk.Exists():
            return _after_failed_take(last, past=past)
        case NamingTaker(), walk.Named(record=taker):
            return _after_failed_take(HeldBy(taker, RETAKEN, taker), past=past)
        case NamingTaker(), _:
            return _after_failed_take(NeverRead(RETAKEN), past=past)
        case Stepping(last=last, step=step), _:
            following = walk.advance(step, event, me, past_deadline=past)
            if isinstance(following, tuple):
                return Stepping(last, following[0]), following[1]
            return _after_step(last, following, left_s)
        case Pausing(last=last), walk.Done():
            return NotTaken(last) if past else (Trying(last), LinkLock())
        case _:
            raise AssertionError(f"{event} cannot come in {state}")


def _after_failed_take(last: Blocked | None, *, past: bool) -> Next:
    if last is not None and past:
        return NotTaken(last)
    step, command = walk.begin()
    return Stepping(last, step), command


def _after_step(last: Blocked | None, end: walk.End, left_s: float) -> Next:
    match end:
        case walk.Freed():
            return Trying(NeverRead(RETAKEN), retaking=True), LinkLock()
        case walk.Free():
            last = _released(last, RELEASED)
        case walk.NotSeen(why=why):
            last = _released(last, why)
        case HeldBy() | ByHand():
            last = end
        case _:
            assert_never(end)
    return Pausing(last), Pause(max(0.0, min(POLL_S, left_s)))


def _released(last: Blocked | None, why: str) -> LastSeen | NeverRead:
    """A step that learned nothing: the holder last read stays named, as one last read."""
    match last:
        case HeldBy(holder=holder, why=was) | LastSeen(holder=holder, why=was):
            return LastSeen(holder, was)
        case ByHand() | NeverRead() | CannotTake() | None:
            return NeverRead(why)
