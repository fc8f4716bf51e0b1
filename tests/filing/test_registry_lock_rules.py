"""The registry lock's rules from values: records, proof of death, the walk, the deadline, every sentence."""

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from filing.registry_lock import HEARTBEAT_WAIT_S, RULED_WAIT_S, TOUCH_WAIT_S, sentences, take, walk
from filing.registry_lock.record import (
    UNKNOWN,
    Finding,
    Me,
    Record,
    Start,
    Verdict,
    first_line,
    judge,
    name_field,
    parse_record,
)
from filing.registry_lock.sentences import ByHand, CannotTake, HeldBy, LastSeen, NeverRead, failed
from tests.filing.support import VECTORS, case_name, table

PATH = "/c/.registry.lock"


def rec(text: str) -> Record:
    record = parse_record(text)
    assert record is not None
    return record


@pytest.mark.parametrize("case", table("registry_lock", "parse"), ids=case_name)
def test_a_record(case: dict[str, Any]) -> None:
    record = parse_record(case["text"])
    assert first_line(case["text"]) == case["read"]
    assert (record is not None) is case["is_record"]
    if record is not None:
        assert {name: getattr(record, name) for name in case["fields"]} == case["fields"]
        assert str(record) == case["read"].rstrip("\r")


@pytest.mark.parametrize(
    "text", ["a/b:m:b:1:2:3", "a:m:b:1:2:3\0", "a:m:b:1:2²:3", f"a:m:b:1:{'9' * 5000}:3"]
)
def test_what_no_marker_could_be_named_after_is_no_record(text: str) -> None:
    assert parse_record(text) is None


@pytest.mark.parametrize("case", table("registry_lock", "file_names"))
def test_file_names_hold_no_colon(case: dict[str, Any]) -> None:
    record = rec(case["record"])
    assert (record.temp_name, record.marker_name) == (case["temp"], case["marker"])


@pytest.mark.parametrize("case", table("registry_lock", "name_field"))
def test_a_host_name_in_a_record(case: dict[str, Any]) -> None:
    assert name_field(case["host"]) == case["name_field"]


# Proof of death

NO_PROOF = "its mount proves nothing"


def me_of(me: dict[str, str] | None) -> Me:
    if me is None:
        return Me(Record("boxa", UNKNOWN, UNKNOWN, UNKNOWN, "9", UNKNOWN), NO_PROOF)
    return Me(Record(me["name"], me["machine"], me["boot"], me["pidns"], "9", "99"))


def starts(pids: dict[str, str]) -> Callable[[int], str | Start]:
    def start_of(pid: int) -> str | Start:
        start = pids.get(str(pid))
        if start is None:
            return Start.GONE
        return Start.UNREADABLE if start == "unreadable" else start

    return start_of


SILENT = {
    "its /proc entry cannot be read": "If it is dead, run any comm command on boxa.",
    "this box cannot prove a death": "If it is dead: run any comm command on boxa, or, if boxa will not run "
    f"again or a comm command there says it cannot prove a death, remove {PATH} by hand.",
}


@pytest.mark.parametrize("case", table("registry_lock", "judge"), ids=case_name)
def test_is_the_holder_dead_and_what_to_do_about_it(case: dict[str, Any]) -> None:
    record = rec(case["record"])
    finding = judge(record, me_of(case["me"]), starts(case["pids"]))
    assert finding.verdict.value == case["verdict"]
    assert (finding.verdict is Verdict.DEAD) is case["provably_dead"]
    if "failed" in case:
        sentence = failed(HeldBy(record, "<why>", record, finding), PATH, 7.9)
        held = f"is held by {record.name} pid {record.pid} start {record.start} (7s old): <why>."
        assert sentence == (case["failed"] or f"registry lock {PATH} {held} {SILENT[case['name']]}")


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's mount table")
@pytest.mark.parametrize("case", table("registry_lock", "vouch"), ids=case_name)
def test_which_mount_proves_a_fresh_read(case: dict[str, Any]) -> None:
    if sys.platform == "linux":
        from filing.platform.process_linux import no_fresh_read_by

        why = no_fresh_read_by(case["mountinfo"], case["folder"])
        assert (why is None) is case["proves_fresh_read"]
        assert why is None or "comm home" in why


def test_a_process_without_proof_fields_is_never_recognized_as_oneself() -> None:
    record = Record("boxa", UNKNOWN, UNKNOWN, UNKNOWN, "9", UNKNOWN)
    assert not Me(record, NO_PROOF).is_me(record)
    assert not Me(record).is_me(record)
    whole = rec("boxa:m:b:1:9:3")
    assert Me(whole).is_me(whole)
    assert not Me(whole).is_me(rec("boxa:m:b:1:9:4"))


# The step

ME = Me(rec("boxa:m:b:1:9:99"))
D = rec("boxa:m:b:1:12:34")
S = rec("boxa:m:b:1:13:35")
T = rec("boxa:m:b:1:14:36")
DEAD = walk.Judged(Finding.EXITED)
RUNNING = walk.Judged(Finding.RUNNING)


def play(*events: walk.Event, me: Me = ME, past: bool = False) -> list[object]:
    """The commands of a step that meets these events, and its end."""
    following: walk.Next = walk.begin()
    commands: list[object] = []
    for event in events:
        assert isinstance(following, tuple), f"the step has ended: {following}"
        commands.append(following[1])
        following = walk.advance(following[0], event, me, past_deadline=past)
    return [*commands, following[1] if isinstance(following, tuple) else following]


def reading(record: Record) -> walk.Named:
    return walk.Named(record)


def test_a_dead_holders_lock_is_marked_settled_read_again_and_removed() -> None:
    assert play(reading(D), DEAD, walk.Linked(), walk.Done(), reading(D), walk.Done()) == [
        walk.ReadLock(),
        walk.Judge(D),
        walk.LinkMarker(D),
        walk.Settle(1.0),
        walk.ReadLock(),
        walk.RemoveLock(),
        walk.Freed(),
    ]


def test_a_dead_reclaimers_marker_is_adopted_through_a_marker_naming_it() -> None:
    assert play(
        reading(D), DEAD, walk.Exists(), reading(S), DEAD, walk.Linked(), walk.Done(), reading(D), walk.Done()
    )[2:] == [
        walk.LinkMarker(D),
        walk.ReadMarker(D),
        walk.Judge(S),
        walk.LinkMarker(S),
        walk.Settle(),
        walk.ReadLock(),
        walk.RemoveLock(),
        walk.Freed(),
    ]


def test_the_lock_of_anybody_the_walk_passed_is_removed() -> None:
    marked = (reading(D), DEAD, walk.Exists(), reading(S), DEAD, walk.Linked(), walk.Done())
    assert play(*marked, reading(S))[-1] == walk.RemoveLock()
    assert play(*marked, reading(T))[-1] == HeldBy(T, "it was taken anew during the reclaim", T)


@pytest.mark.parametrize(
    "finding", [f for f in Finding if f.verdict is not Verdict.DEAD], ids=lambda finding: finding.name
)
def test_a_holder_that_is_not_proved_dead_ends_the_step(finding: Finding) -> None:
    assert play(reading(D), walk.Judged(finding, "because"))[-1] == HeldBy(
        D, f"{finding.value} (because)", D, finding
    )


def test_a_live_reclaimer_ends_the_step_and_is_the_one_to_look_after() -> None:
    (end,) = play(reading(D), DEAD, walk.Exists(), reading(S), RUNNING)[-1:]
    assert isinstance(end, HeldBy)
    assert (end.holder, end.blocker, end.finding) == (D, S, Finding.RUNNING)
    assert "pid 13" in end.why


def test_a_marker_naming_a_record_already_passed_ends_the_walk_by_hand() -> None:
    for passed in (D, S):
        (end,) = play(reading(D), DEAD, walk.Exists(), reading(S), DEAD, walk.Exists(), reading(passed))[-1:]
        assert isinstance(end, ByHand)
        assert S.marker_name in end.why
        assert str(passed) in end.why


def test_ones_own_marker_left_by_another_thread_is_adopted() -> None:
    assert play(reading(D), DEAD, walk.Exists(), reading(ME.record), past=True)[-1] == walk.Settle()


def test_a_lock_left_by_a_thread_is_reclaimed_like_a_dead_holders_and_its_marker_removed() -> None:
    own = ME.record
    begun = (reading(own), walk.Linked(), walk.Done())
    assert play(reading(own))[-1] == walk.LinkMarker(own)
    for freed in ((reading(own), walk.Done()), (walk.Missing(),)):
        assert play(*begun, *freed)[-1] == walk.RemoveMarker(own)
        assert play(*begun, *freed, walk.Done())[-1] == walk.Freed()
        assert play(*begun, *freed, walk.NotRemoved("busy"))[-1] == walk.Freed()
    adopted = (reading(own), walk.Exists(), reading(own), walk.Done(), reading(own), walk.Done())
    assert play(*adopted)[-1] == walk.RemoveMarker(own)


def test_the_marker_stays_where_the_walk_passed_anybody_else() -> None:
    through_another = (reading(ME.record), walk.Exists(), reading(S), DEAD, walk.Linked(), walk.Done())
    assert play(*through_another, walk.Missing())[-1] == walk.Freed()
    to_its_own = (reading(D), DEAD, walk.Exists(), reading(ME.record), walk.Done())
    assert play(*to_its_own, reading(D), walk.Done())[-1] == walk.Freed()


def test_without_proof_fields_nothing_is_ones_own() -> None:
    bare = Me(rec("boxa:-:-:-:9:-"), NO_PROOF)
    assert play(reading(bare.record), me=bare)[-1] == walk.Judge(bare.record)


def test_past_the_deadline_no_second_marker_is_walked_to() -> None:
    late = play(reading(D), DEAD, walk.Exists(), reading(S), past=True)
    assert late[2] == walk.LinkMarker(D)
    assert isinstance(late[-1], HeldBy)
    assert (late[-1].holder, late[-1].blocker, late[-1].finding) == (D, S, None)


@pytest.mark.parametrize(
    ("events", "end"),
    [
        ([walk.Missing()], walk.Free),
        ([walk.NotRead("stale")], walk.NotSeen),
        ([walk.IsFolder()], ByHand),
        ([walk.NoRecord("hello")], ByHand),
        ([reading(D), DEAD, walk.CannotLink("no")], HeldBy),
        ([reading(D), DEAD, walk.Exists(), walk.Missing()], HeldBy),
        ([reading(D), DEAD, walk.Exists(), walk.NotRead("stale")], HeldBy),
        ([reading(D), DEAD, walk.Exists(), walk.IsFolder()], HeldBy),
        ([reading(D), DEAD, walk.Exists(), walk.NoRecord("hello")], ByHand),
        ([reading(D), DEAD, walk.Linked(), walk.Done(), walk.Missing()], walk.Freed),
        ([reading(D), DEAD, walk.Linked(), walk.Done(), walk.NotRead("stale")], HeldBy),
        ([reading(D), DEAD, walk.Linked(), walk.Done(), walk.NoRecord("x")], ByHand),
        ([reading(D), DEAD, walk.Linked(), walk.Done(), walk.IsFolder()], ByHand),
        ([reading(D), DEAD, walk.Linked(), walk.Done(), reading(D), walk.NotRemoved("busy")], HeldBy),
    ],
)
def test_how_a_step_ends(events: list[walk.Event], end: type) -> None:
    assert isinstance(play(*events)[-1], end)


def test_an_event_that_answers_another_command_is_a_fault_of_ours() -> None:
    with pytest.raises(AssertionError, match="cannot come"):
        walk.advance(walk.Reading(), walk.Linked(), ME, past_deadline=False)
    with pytest.raises(AssertionError, match="cannot come"):
        take.advance(take.Trying(), walk.Missing(), ME, left_s=1)


# The deadline


def played(
    wait_s: float, *events: walk.Event | tuple[walk.Event, float], me: Me = ME
) -> tuple[list[object], object]:
    """The commands of a whole take and how it stands in the end; an event may say how long it took."""
    left_s = wait_s
    following: take.Next = take.begin()
    commands: list[object] = []
    for entry in events:
        event, took_s = entry if isinstance(entry, tuple) else (entry, 0.0)
        assert isinstance(following, tuple), f"it has ended: {following}"
        commands.append(following[1])
        left_s -= took_s
        following = take.advance(following[0], event, me, left_s=left_s)
    return commands, following


HELD = (walk.Exists(), reading(D), RUNNING)
FREED = (walk.Exists(), reading(D), DEAD, walk.Linked(), (walk.Done(), 1.0), reading(D), walk.Done())


def test_a_free_lock_is_taken_at_the_first_try() -> None:
    assert played(10, walk.Linked()) == ([take.LinkLock()], take.Taken())


@pytest.mark.parametrize("wait_s", [0, 1, 10])
def test_a_dead_holders_lock_is_retaken_at_once_even_past_the_deadline(wait_s: float) -> None:
    commands, end = played(wait_s, *FREED, walk.Linked())
    assert commands[-2:] == [walk.RemoveLock(), take.LinkLock()]
    assert end == take.Taken()
    assert not any(isinstance(command, take.Pause) for command in commands)


def test_with_no_time_there_is_one_try_with_its_step() -> None:
    commands, end = played(0, *HELD, walk.Done())
    assert commands == [take.LinkLock(), walk.ReadLock(), walk.Judge(D), take.Pause(0.0)]
    assert end == take.NotTaken(HeldBy(D, Finding.RUNNING.value, D, Finding.RUNNING))


def test_polls_are_50_ms_apart_and_the_last_pause_ends_at_the_deadline() -> None:
    first = (walk.Exists(), reading(D), RUNNING, (walk.Done(), 0.05))
    commands, end = played(0.12, *first, *first, *HELD, (walk.Done(), 0.02))
    pauses = [command.seconds for command in commands if isinstance(command, take.Pause)]
    assert pauses == pytest.approx([0.05, 0.05, 0.02])
    assert isinstance(end, take.NotTaken)


def test_after_the_first_a_failed_take_past_the_deadline_starts_no_step() -> None:
    _, end = played(1, *HELD, walk.Done(), (walk.Exists(), 1.0))
    assert isinstance(end, take.NotTaken)


def test_a_retake_that_came_too_late_names_whoever_was_faster() -> None:
    assert played(1, *FREED, walk.Exists(), reading(T))[1] == take.NotTaken(HeldBy(T, sentences.RETAKEN, T))
    assert played(1, *FREED, walk.Exists(), walk.Missing())[1] == take.NotTaken(NeverRead(sentences.RETAKEN))
    commands, following = played(10, *FREED, walk.Exists(), reading(T))
    assert isinstance(following, tuple)
    assert following[1] == walk.ReadLock()  # time is left: the next step looks at the new holder
    assert commands[-2:] == [take.LinkLock(), walk.ReadLock()]


def test_a_folder_that_takes_no_link_ends_it_at_once() -> None:
    assert played(10, walk.CannotLink("no links"))[1] == take.NotTaken(CannotTake("no links"))


def test_a_lock_found_released_keeps_the_last_holder_named() -> None:
    last_held = (*HELD, walk.Done())
    for seen in (walk.Missing(), walk.NotRead("stale")):
        _, end = played(1, *last_held, walk.Exists(), seen, (walk.Done(), 1.0))
        assert end == take.NotTaken(LastSeen(D, Finding.RUNNING.value))
        _, end = played(
            1, *last_held, walk.Exists(), seen, walk.Done(), walk.Exists(), seen, (walk.Done(), 1.0)
        )
        assert end == take.NotTaken(LastSeen(D, Finding.RUNNING.value))


def test_a_lock_never_read_says_why() -> None:
    assert played(0, walk.Exists(), walk.Missing(), walk.Done())[1] == take.NotTaken(
        NeverRead(sentences.RELEASED)
    )
    folder = (walk.Exists(), walk.IsFolder(), walk.Done())
    _, end = played(1, *folder, walk.Exists(), walk.NotRead("stale"), (walk.Done(), 1.0))
    assert end == take.NotTaken(NeverRead("its record could not be read: stale"))


# The sentences

SENTENCES: dict[str, sentences.Blocked | str] = {
    "held, the holder was not judged by the step (it took the lock during the reclaim)": HeldBy(
        D, "<why>", D
    ),
    "released since the last read": LastSeen(D, "<why>"),
    "no holder ever read": NeverRead("<why>"),
    "record could not be read": NeverRead("<why>"),
    "retaken by another": NeverRead("<why>"),
    "a directory (an older version)": ByHand(sentences.OLDER_VERSION),
    "a record that does not parse": ByHand("<why>"),
    "an empty lock file": ByHand("<why>"),
    "a marker naming a record its walk passed": ByHand("<why>"),
    "a daemon thread that never got its turn": sentences.turn_never_came(PATH),
    "no hard links": CannotTake(sentences.cannot_link("/c", "<errno>")),
    "dead holder whose reclaimer is alive": HeldBy(D, "<why>", S, Finding.RUNNING),
    "reclaim chain at the deadline": HeldBy(D, "<why>", S),
}
NOT_OURS = {"no clock (bash 5)", "no clock (before bash 5)"}  # there is always a monotonic clock


@pytest.mark.parametrize(
    "case",
    [c for c in table("registry_lock", "failed") if c["case"] not in NOT_OURS],
    ids=lambda c: c["case"],
)
def test_what_failed_says(case: dict[str, Any]) -> None:
    blocked = SENTENCES[case["case"]]
    assert (blocked if isinstance(blocked, str) else failed(blocked, PATH, 7.0)) == case["text"]


def test_a_reclaimer_without_proof_fields_is_the_one_to_look_after() -> None:
    bare = rec("boxb:-:-:-:5:-")
    assert failed(HeldBy(D, "<why>", bare), PATH, None) == (
        f"registry lock {PATH} is held by boxa pid 12 start 34 (unknown old): <why>. No box can prove "
        f"boxb pid 5 dead (its record has no proof fields): if it is, remove {PATH} by hand."
    )


def test_a_lock_from_a_clock_that_is_ahead_is_new() -> None:
    assert "(0s old)" in failed(ByHand("<why>"), PATH, -3.0)


def test_the_bounds() -> None:
    bounds = [case["seconds"] for case in table("registry_lock", "bounds")]
    assert bounds == [RULED_WAIT_S, TOUCH_WAIT_S, HEARTBEAT_WAIT_S]
    everything = json.loads((VECTORS / "registry_lock.json").read_text(encoding="utf-8"))
    assert (take.POLL_S * 1000, walk.SETTLE_S) == (everything["poll_ms"], everything["settle_s"])
