"""A folder with a registry lock in it, a few processes, and every order in which they can act and die.

The search runs the code that runs: `take.advance` and `walk.advance` say what each process does next, and the
model is only the folder (one lock, its markers), the table of pids, and whose turn it is. Between any two
commands another process may act, and any process may be killed; its pid may then come back with another start
tick. Time is one bit a process: its deadline passes at some step, at any. A fault is a call that answers
failure: of a read or a removal, or of a link that was made all the same.

Left out, as in the contract's Residual: an operation of a dead process that lands after the settle.

Processes, records, events and states are numbers in here, since millions of worlds are hashed.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from filing.registry_lock import take, walk
from filing.registry_lock.record import UNKNOWN, Finding, Me, Record, Start, judge
from filing.registry_lock.sentences import NeverRead

NOBODY: Final = -1
NOTHING: Final = -1  # no event
IDLE: Final = -1  # neither in the lock nor on its way
HOLDS: Final = -2

EVENTS: Final[tuple[walk.Event, ...]] = (
    walk.Linked(),
    walk.Exists(),
    walk.CannotLink("no answer came"),
    walk.Missing(),
    walk.NotRead("stale"),
    walk.Done(),
    walk.NotRemoved("busy"),
    *(walk.Judged(finding) for finding in Finding),
)
LINKED, EXISTS, CANNOT_LINK, MISSING, NOT_READ, DONE, NOT_REMOVED = range(7)
JUDGED: Final = {finding: number for number, finding in enumerate(Finding, 7)}

SOME_LAST: Final = NeverRead("")  # what a try found before shows in sentences only


class Box(NamedTuple):
    """What the records of a process say, but for its pid and its start."""

    name: str = "box"
    machine: str = "m"
    boot: str = "b"
    pidns: str = "1"
    proves: bool = True


class Process(NamedTuple):
    """A slot of the pid table; `doing` is IDLE, HOLDS or a number of `Model.doings`."""

    generation: int
    alive: bool
    takes_left: int
    doing: int = IDLE
    past: bool = False


class World(NamedTuple):
    """`lock` is the record in it; `markers` gives each record the creator of its reclaim marker."""

    lock: int
    markers: tuple[int, ...]
    processes: tuple[Process, ...]
    restarts_left: int
    faults_left: int


class UnsafeError(AssertionError):
    pass


class Model:
    def __init__(self, *boxes: Box, takes: int, restarts: int = 0, faults: int = 0) -> None:
        """`takes` of each process's life; `restarts` in all: a killed process's pid comes back."""
        self.takes = takes
        self.generations = restarts + 1
        lives = range(self.generations)
        self.mes = [_me(box, slot, generation) for slot, box in enumerate(boxes) for generation in lives]
        self.numbers = {me.record: number for number, me in enumerate(self.mes)}
        self.doings: list[tuple[take.State, take.Command]] = []
        self.reached: set[str] = set()
        self._doing_numbers: dict[tuple[take.State, take.Command], int] = {}
        self._moves: dict[tuple[int, int, int, bool], int] = {}
        self._begin = self._number(take.begin())
        processes = tuple(Process(0, True, takes) for _ in boxes)
        self.start = World(NOBODY, (NOBODY,) * len(self.mes), processes, restarts, faults)

    def search(self) -> set[World]:
        seen = {self.start}
        unvisited = [self.start]
        while unvisited:
            world = unvisited.pop()
            self.check(world)
            for following in self.successors(world):
                if following not in seen:
                    seen.add(following)
                    unvisited.append(following)
        return seen

    def check(self, world: World) -> None:
        holders = [slot for slot, process in enumerate(world.processes) if process.doing == HOLDS]
        if len(holders) > 1:
            raise UnsafeError(f"two holders: {world}")
        for slot in holders:
            if world.lock != self.mine(world, slot):
                raise UnsafeError(f"a live holder was forced: {world}")

    def mine(self, world: World, slot: int) -> int:
        return slot * self.generations + world.processes[slot].generation

    # What may happen next

    def successors(self, world: World) -> Iterator[World]:
        for slot, process in enumerate(world.processes):
            if not process.alive:
                if world.restarts_left:
                    after = world._replace(restarts_left=world.restarts_left - 1)
                    yield _with(after, slot, Process(process.generation + 1, True, self.takes))
                continue
            yield _with(world, slot, Process(process.generation, False, 0))  # kill -9
            if process.doing == HOLDS:
                yield from self._release(world, slot)
            elif process.doing != IDLE:
                yield from self._act(world, slot)
            elif process.takes_left:
                started = Process(process.generation, True, process.takes_left - 1, self._begin)
                yield _with(world, slot, started)

    def _release(self, world: World, slot: int) -> Iterator[World]:
        idle = world.processes[slot]._replace(doing=IDLE)
        yield _with(world._replace(lock=NOBODY), slot, idle)
        if world.faults_left:
            self.reached.add("a release that failed")
            yield _with(world._replace(faults_left=world.faults_left - 1), slot, idle)

    def _act(self, world: World, slot: int) -> Iterator[World]:
        process = world.processes[slot]
        mine = self.mine(world, slot)
        for after, event in self.events(world, slot):
            late = self._move(process.doing, mine, event, True)
            early = late if process.past else self._move(process.doing, mine, event, False)
            yield _with(after, slot, _moved(process, early, process.past))
            # A deadline may pass at any step: it is enough to let it where that makes a difference.
            if early != late:
                yield _with(after, slot, _moved(process, late, True))

    def _move(self, doing: int, mine: int, event: int, past: bool) -> int:
        key = doing, mine, event, past
        number = self._moves.get(key)
        if number is None:
            happened = self._event(event)
            following = take.advance(
                self.doings[doing][0], happened, self.mes[mine], left_s=0.0 if past else 1.0
            )
            self._moves[key] = number = self._after(following)
        return number

    def _event(self, number: int) -> walk.Event:
        if number < len(EVENTS):
            return EVENTS[number]
        return walk.Named(self.mes[number - len(EVENTS)].record)

    def _after(self, following: take.Next) -> int:
        match following:
            case take.Taken():
                return HOLDS
            case take.NotTaken(blocked=blocked):
                self.reached.add(type(blocked).__name__)
                return IDLE
            case _:
                return self._number(following)

    def _number(self, doing: tuple[take.State, take.Command]) -> int:
        doing = _without_words(doing)
        if doing not in self._doing_numbers:
            self._doing_numbers[doing] = len(self.doings)
            self.doings.append(doing)
        return self._doing_numbers[doing]

    def events(self, world: World, slot: int) -> Iterator[tuple[World, int]]:
        """The ways the process's command can come out, each with the world after it: as it should, then, if
        there are faults left, as a fault.
        """
        mine = self.mine(world, slot)
        after, event, fault = world, DONE, NOT_REMOVED
        match self.doings[world.processes[slot].doing][1]:
            case take.LinkLock():
                free = world.lock == NOBODY
                after, event = (world._replace(lock=mine), LINKED) if free else (world, EXISTS)
                fault = CANNOT_LINK if free else NOTHING
            case walk.LinkMarker(passed=passed):
                of = self.numbers[passed]
                free = world.markers[of] == NOBODY
                after, event = (_marked(world, of, mine), LINKED) if free else (world, EXISTS)
                fault = CANNOT_LINK if free else NOTHING
            case walk.ReadLock():
                event, fault = _seen(world.lock), NOT_READ
            case walk.ReadMarker(passed=passed):
                event, fault = _seen(world.markers[self.numbers[passed]]), NOT_READ
            case walk.Judge(record=record):
                event = JUDGED[judge(record, self.mes[mine], lambda pid: _start(world, pid))]
                fault = NOTHING
            case walk.Settle() | take.Pause():
                fault = NOTHING
            case walk.RemoveLock():
                self._check_removal(world, slot)
                after = world._replace(lock=NOBODY)
            case walk.RemoveMarker(passed=passed):
                after = _marked(world, self.numbers[passed], NOBODY)
        yield after, event
        if world.faults_left and fault != NOTHING:
            # A link whose answer got lost was made; a removal that failed was not.
            faulty = after if fault == CANNOT_LINK else world
            yield faulty._replace(faults_left=world.faults_left - 1), fault

    def _check_removal(self, world: World, slot: int) -> None:
        if world.lock == NOBODY:
            return
        owner, generation = divmod(world.lock, self.generations)
        process = world.processes[owner]
        alive = process.alive and process.generation == generation
        if alive and owner != slot:
            raise UnsafeError(f"slot {slot} removes the lock of a live process: {world}")
        self.reached.add("its own lock removed" if alive else "a dead holder's lock removed")


def newcomer(lock: Record | None, markers: dict[Record, Record]) -> take.Next:
    """What comes of the first try of one more process, undisturbed, where all the others are dead."""
    me = Me(Record("box", "m", "b", "1", "4194304", "0"))
    state, command = take.begin()
    while True:
        event: walk.Event
        match command:
            case take.LinkLock():
                event = walk.Exists() if lock else walk.Linked()
            case walk.LinkMarker(passed=passed):
                event = walk.Exists() if passed in markers else walk.Linked()
            case walk.ReadLock():
                event = walk.Named(lock) if lock else walk.Missing()
            case walk.ReadMarker(passed=passed):
                event = walk.Named(markers[passed])
            case walk.Judge(record=record):
                event = walk.Judged(judge(record, me, lambda _: Start.GONE))
            case walk.RemoveLock():
                lock, event = None, walk.Done()
            case _:
                event = walk.Done()
        following = take.advance(state, event, me, left_s=1.0)
        if isinstance(following, take.Taken | take.NotTaken):
            return following
        state, command = following
        if isinstance(state, take.Pausing):
            return take.NotTaken(state.last)


def _me(box: Box, slot: int, generation: int) -> Me:
    if box.proves:
        return Me(Record(box.name, box.machine, box.boot, box.pidns, str(slot), str(generation)))
    pid = str(slot * 1000 + generation)  # without a start, a pid that came back would be the same record
    return Me(Record(box.name, UNKNOWN, UNKNOWN, UNKNOWN, pid, UNKNOWN), "its mount proves nothing")


def _with(world: World, slot: int, process: Process) -> World:
    return World(
        world.lock,
        world.markers,
        (*world.processes[:slot], process, *world.processes[slot + 1 :]),
        world.restarts_left,
        world.faults_left,
    )


def _moved(process: Process, doing: int, past: bool) -> Process:
    on_its_way = doing >= 0
    return Process(process.generation, True, process.takes_left, doing, past and on_its_way)


def _marked(world: World, of: int, creator: int) -> World:
    return world._replace(markers=(*world.markers[:of], creator, *world.markers[of + 1 :]))


def _seen(record: int) -> int:
    return MISSING if record == NOBODY else len(EVENTS) + record


def _start(world: World, pid: int) -> str | Start:
    process = world.processes[pid]
    return str(process.generation) if process.alive else Start.GONE


def _without_words(doing: tuple[take.State, take.Command]) -> tuple[take.State, take.Command]:
    state, command = doing
    match state:
        case take.Trying(last=last, retaking=retaking):
            state = take.Trying(last and SOME_LAST, retaking)
        case take.Stepping(last=last, step=step):
            state = take.Stepping(last and SOME_LAST, step)
        case take.Pausing():
            state = take.Pausing(SOME_LAST)
        case take.NamingTaker():
            pass
    return state, command
