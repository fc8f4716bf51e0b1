"""Every order in which a few processes can act on the registry lock, die and come back (`lock_model`)."""

from typing import Any

import pytest

from filing.registry_lock import record, take, walk
from filing.registry_lock.record import Finding, Start
from filing.registry_lock.sentences import ByHand
from tests.filing import lock_model
from tests.filing.lock_model import NOBODY, Box, Model, UnsafeError, World, newcomer

HERE = Box()
ELSEWHERE = Box(name="other", machine="m2", boot="b2")
OTHER_NAMESPACE = Box(pidns="2")
UNPROVING = Box(proves=False)


def search(name: str, model: Model) -> set[World]:
    worlds = model.search()
    print(
        f"{name}: {len(worlds)} states, {len(model.doings)} of one process; reached: {sorted(model.reached)}"
    )
    return worlds


def dead_ends(model: Model, worlds: set[World]) -> list[tuple[tuple[int, ...], take.NotTaken]]:
    """The folders in which a newcomer's first try fails when all who were there are dead."""
    records = [me.record for me in model.mes]
    ends = []
    for lock, markers in {(world.lock, world.markers) for world in worlds}:
        created = {records[of]: records[by] for of, by in enumerate(markers) if by != NOBODY}
        end = newcomer(None if lock == NOBODY else records[lock], created)
        if isinstance(end, take.NotTaken):
            ends.append((markers, end))
    return ends


@pytest.mark.parametrize(
    ("processes", "sizes"),
    [(2, {"takes": 2, "restarts": 2}), (3, {"takes": 2}), (3, {"takes": 1, "restarts": 1, "faults": 1})],
    ids=str,
)
def test_never_two_holders_never_a_live_one_forced_and_every_dead_one_cleared(
    processes: int, sizes: dict[str, Any]
) -> None:
    model = Model(*[HERE] * processes, **sizes)
    worlds = search(f"{processes} processes, {sizes}", model)
    assert "a dead holder's lock removed" in model.reached
    assert dead_ends(model, worlds) == []


@pytest.mark.parametrize(
    ("processes", "sizes"),
    [(2, {"takes": 2, "restarts": 1, "faults": 2}), (3, {"takes": 2, "faults": 1})],
    ids=str,
)
def test_with_calls_that_fail_the_one_dead_end_is_a_marker_that_names_its_own_creator(
    processes: int, sizes: dict[str, Any]
) -> None:
    """The Residual's: a process killed between taking its own marker and removing its lock."""
    model = Model(*[HERE] * processes, **sizes)
    worlds = search(f"{processes} processes, {sizes}", model)
    assert {"a release that failed", "its own lock removed"} <= model.reached
    ends = dead_ends(model, worlds)
    assert ends
    for markers, end in ends:
        assert any(of == by for of, by in enumerate(markers))
        assert isinstance(end.blocked, ByHand)


@pytest.mark.parametrize("other", [ELSEWHERE, OTHER_NAMESPACE, UNPROVING], ids=str)
def test_a_process_that_cannot_be_judged_from_here_is_never_forced(other: Box) -> None:
    """Only its own kind reclaims its lock: itself, or its next life; without proof fields nobody does."""
    model = Model(HERE, other, takes=2, restarts=1, faults=1)
    worlds = search(f"beside {other}", model)
    first_life, second_life = model.generations, model.generations + 1  # slot 1's
    creators = {world.markers[first_life] for world in worlds}
    assert creators == ({NOBODY, first_life, second_life} if other.proves else {NOBODY})


# Has the search teeth? Each of these takes one rule away.


def test_the_search_finds_a_lock_removed_without_the_read_after_the_settle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    advance = walk.advance

    def hasty(state: walk.State, event: walk.Event, me: record.Me, *, past_deadline: bool) -> walk.Next:
        if isinstance(state, walk.Settling):
            return walk.Removing(state.passed), walk.RemoveLock()
        return advance(state, event, me, past_deadline=past_deadline)

    monkeypatch.setattr(walk, "advance", hasty)
    with pytest.raises(UnsafeError, match="removes the lock of a live process"):
        Model(HERE, HERE, takes=2, restarts=1).search()


def test_the_search_finds_a_marker_passed_whose_creator_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    advance = walk.advance

    def pushing(state: walk.State, event: walk.Event, me: record.Me, *, past_deadline: bool) -> walk.Next:
        if isinstance(state, walk.Judging) and len(state.passed) > 1:
            event = walk.Judged(Finding.EXITED)
        return advance(state, event, me, past_deadline=past_deadline)

    monkeypatch.setattr(walk, "advance", pushing)
    with pytest.raises(UnsafeError):
        Model(HERE, HERE, HERE, takes=2).search()


def test_the_search_finds_a_live_process_taken_for_a_dead_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_model, "_start", lambda world, pid: Start.GONE)
    with pytest.raises(UnsafeError, match="removes the lock of a live process"):
        Model(HERE, HERE, takes=1).search()
