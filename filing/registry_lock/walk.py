"""One reclaim step: from the lock as it stands to its removal, or to what stands in the way (PROTOCOL The
registry lock, Reclaim).

Events in, commands out, with no file, clock or process: `begin` gives the first command, and `advance` takes
what came of it. Each command is one thing another process may see or die between, so that a search can put
every other process's step between any two of them.

Why it is safe. A step goes past a marker only when its creator is proved dead, so of all live processes only
the creator of the last marker of a walk has authority over "the lock names one whom this walk passed", and
only it removes the lock. Nobody whom a walk passed can take the lock again: they are dead, or this process.
"""

from typing import Final, TypeAlias, assert_never

from filing.registry_lock.record import Finding, Me, Record, Verdict
from filing.registry_lock.sentences import OLDER_VERSION, ByHand, HeldBy
from filing.value import Value

SETTLE_S: Final = 1.0


# Commands


class ReadLock(Value):
    """Read the lock's record fresh: open its folder, then the record. -> Seen"""


class Judge(Value):
    """Look whether the record's process is dead. -> Judged"""

    record: Record


class LinkMarker(Value):
    """Take the marker of `passed` by the same link step as a lock. -> Linked, Exists or CannotLink"""

    passed: Record


class ReadMarker(Value):
    """Read the marker of `passed` fresh. -> Seen"""

    passed: Record


class Settle(Value):
    """Let a dead process's late operations land. -> Done"""

    seconds: float = SETTLE_S


class RemoveLock(Value):
    """-> Done or NotRemoved; a lock that is gone already is Done."""


class RemoveMarker(Value):
    """-> Done or NotRemoved; a marker that is gone already is Done."""

    passed: Record


Command: TypeAlias = ReadLock | Judge | LinkMarker | ReadMarker | Settle | RemoveLock | RemoveMarker


# Events


class Named(Value):
    record: Record


class Missing(Value):
    """Told by the open."""


class NotRead(Value):
    why: str


class NoRecord(Value):
    """It was read whole and does not parse. `text` is what it says, fit for a sentence."""

    text: str


class IsFolder(Value):
    """An older version's lock."""


Seen: TypeAlias = Named | Missing | NotRead | NoRecord | IsFolder


class Judged(Value):
    finding: Finding
    detail: str = ""  # more words for the sentence, e.g. why this box proves no death

    @property
    def why(self) -> str:
        return f"{self.finding.value} ({self.detail})" if self.detail else self.finding.value


class Linked(Value):
    """The name is this process's."""


class Exists(Value):
    pass


class CannotLink(Value):
    why: str


class Done(Value):
    pass


class NotRemoved(Value):
    why: str


Event: TypeAlias = (
    Named
    | Missing
    | NotRead
    | NoRecord
    | IsFolder
    | Judged
    | Linked
    | Exists
    | CannotLink
    | Done
    | NotRemoved
)


# States. `passed` is the holder the lock named, then the creator of each marker the walk found taken; the
# last of them is the one to go past next.

Passed: TypeAlias = tuple[Record, ...]


class Reading(Value):
    pass


class Judging(Value):
    passed: Passed


class Marking(Value):
    passed: Passed
    finding: Finding


class ReadingMarker(Value):
    passed: Passed
    finding: Finding


class Settling(Value):
    passed: Passed


class Rereading(Value):
    passed: Passed


class Removing(Value):
    passed: Passed


class RemovingMarker(Value):
    pass


State: TypeAlias = (
    Reading | Judging | Marking | ReadingMarker | Settling | Rereading | Removing | RemovingMarker
)


# Ends of a step


class Freed(Value):
    """This step saw the lock go: it is retaken at once."""


class Free(Value):
    """There was no lock when the step began."""


class NotSeen(Value):
    """The lock could not be read: a step that learned nothing. `why` says so in full."""

    why: str


End: TypeAlias = Freed | Free | NotSeen | HeldBy | ByHand
Next: TypeAlias = tuple[State, Command] | End


def begin() -> tuple[State, Command]:
    return Reading(), ReadLock()


def advance(state: State, event: Event, me: Me, *, past_deadline: bool) -> Next:
    """The next state with its command, or the end of the step.

    `past_deadline` is looked at only where the walk goes past a second marker.
    """
    match state, event:
        case Reading(), Named(record=holder):
            return _examine((holder,), me, past_deadline=past_deadline)
        case Reading(), Missing():
            return Free()
        case Reading(), NotRead(why=why):
            return NotSeen(f"its record could not be read: {why}")
        case Reading() | Rereading(), NoRecord() | IsFolder():
            return _only_by_hand(event)
        case Judging(passed=passed), Judged(finding=finding):
            if finding.verdict is Verdict.DEAD:
                return _mark(passed, finding)
            return HeldBy(passed[0], _why_held(passed, event.why), passed[-1], finding)
        case Marking(passed=passed), Linked():
            return Settling(passed), Settle()
        case Marking(passed=passed, finding=finding), Exists():
            return ReadingMarker(passed, finding), ReadMarker(passed[-1])
        case Marking(passed=passed), CannotLink(why=why):
            return _unpassed(passed, f"{_marker(passed)} could not be taken: {why}")
        case ReadingMarker(passed=passed), Named(record=creator):
            if creator in passed and not me.is_me(creator):
                return ByHand(f"{_marker(passed)} names {creator}, whom its walk has already passed")
            return _examine((*passed, creator), me, past_deadline=past_deadline)
        case ReadingMarker(passed=passed), NoRecord(text=text):
            return ByHand(f"{_marker(passed)} names no reclaimer ({text})")
        case ReadingMarker(passed=passed), Missing() | NotRead() | IsFolder():
            return _unpassed(passed, f"{_marker(passed)} could not be read: {_unread(event)}")
        case Settling(passed=passed), Done():
            return Rereading(passed), ReadLock()
        case Rereading(passed=passed), Named(record=holder):
            if holder in passed:
                return Removing(passed), RemoveLock()
            return HeldBy(holder, "it was taken anew during the reclaim", holder)
        case Rereading(passed=passed), Missing():
            return _gone(passed, me)
        case Rereading(passed=passed), NotRead(why=why):
            return _unpassed(passed, f"its record could not be read again for its reclaim: {why}")
        case Removing(passed=passed), Done():
            return _gone(passed, me)
        case Removing(passed=passed), NotRemoved(why=why):
            return _unpassed(passed, f"it is dead, but its lock could not be removed: {why}")
        case RemovingMarker(), Done() | NotRemoved():
            return Freed()
        case _:
            raise AssertionError(f"{event} cannot come in {state}")


def _examine(passed: Passed, me: Me, *, past_deadline: bool) -> Next:
    """The last of `passed` is in the way: who is it?"""
    last = passed[-1]
    mine = me.is_me(last)
    if len(passed) > 1:
        if mine:
            # Seen by the thread that has the turn, it was left by a thread whose reclaim did not finish.
            return Settling(passed), Settle()
        if past_deadline:
            return _unpassed(passed, "the markers of its reclaim were still being walked at the deadline")
    elif mine:
        # No thread of this process is inside the lock but the one that walks: another left it there.
        return _mark(passed, Finding.LEFT_BY_A_THREAD)
    return Judging(passed), Judge(last)


def _mark(passed: Passed, finding: Finding) -> tuple[State, Command]:
    return Marking(passed, finding), LinkMarker(passed[-1])


def _gone(passed: Passed, me: Me) -> Next:
    """The lock is off. A marker of this process's own goes too, or its next death could not be reclaimed."""
    if all(me.is_me(record) for record in passed):
        return RemovingMarker(), RemoveMarker(passed[0])
    return Freed()


def _only_by_hand(event: NoRecord | IsFolder) -> ByHand:
    if isinstance(event, IsFolder):
        return ByHand(OLDER_VERSION)
    return ByHand(f"its record names no holder ({event.text})")


def _unpassed(passed: Passed, why: str) -> HeldBy:
    """In the way stands one whom this step has not judged, or has judged dead."""
    return HeldBy(passed[0], why, passed[-1])


def _why_held(passed: Passed, why: str) -> str:
    if len(passed) == 1:
        return why
    reclaimer = passed[-1]
    return f"it is dead, but its reclaim by {reclaimer.name} pid {reclaimer.pid} did not finish ({why})"


def _marker(passed: Passed) -> str:
    return f"its reclaim marker {passed[-1].marker_name}"


def _unread(event: Missing | NotRead | IsFolder) -> str:
    match event:
        case Missing():
            return "it was removed just then"
        case NotRead(why=why):
            return why
        case IsFolder():
            return "it is a folder"
        case _:
            assert_never(event)
