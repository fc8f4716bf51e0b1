"""The fold gives section 5's verdict for any order of answers, at the first moment it is determined."""

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filing.outcome import FILED, Outcome, Refused
from hub.fold import Fold

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "wire.json").read_text())
WAIT_S = 3.0
OK = {"ok": True}
NOT_HERE = {"error": "no box knows that handle: h", "code": "not_here"}
STALE = {"error": "no live session holds @h", "code": "no_live_session"}
HELD = {"error": "the inbox lock for @h was held for 2s — nothing was appended", "code": "file_failed"}


def fold_of(
    hosts: Sequence[str], *, not_linked: Sequence[str] = (), file_order: Sequence[str] | None = None
) -> Fold:
    def in_order(names: Any) -> list[str]:
        order = list(file_order or ())
        return sorted(names, key=lambda name: (order.index(name) if name in order else len(order), name))

    return Fold("h", dict(enumerate(hosts)), not_linked=not_linked, wait_s=WAIT_S, in_file_order=in_order)


OFFERED = [case for case in VECTORS["offer"] if not case.get("forwarded")]  # the others: test_mail.py


@pytest.mark.parametrize("case", OFFERED, ids=lambda case: case["name"])
def test_the_table_of_offers(case: dict[str, Any]) -> None:
    hosts = [host for host, _ in case["links"]]
    should = case.get("should_link", [])
    fold = fold_of(hosts, not_linked=[box for box in should if box not in hosts])
    for link, (_, answer) in enumerate(case["links"]):
        match answer:
            case "ok":
                fold.answered(link, OK)
            case "silent":
                pass
            case "not_here":
                fold.answered(link, NOT_HERE)
            case sentence:
                fold.answered(link, {"error": sentence, "code": "no_live_session"})
    fold.out_of_time()
    assert fold.verdict == FILED if case["ok"] else isinstance(fold.verdict, Refused)
    if isinstance(fold.verdict, Refused):
        assert fold.verdict.sentence == case["error"]


def test_the_first_ok_ends_it_while_others_are_silent() -> None:
    fold = fold_of(["a", "b", "c"])
    assert fold.answered(0, STALE) is None
    assert fold.answered(1, OK) == FILED
    assert fold.verdict == FILED


def test_a_refusal_waits_for_the_rest_since_an_ok_may_come() -> None:
    fold = fold_of(["a", "b"])
    assert fold.answered(0, STALE) is None
    assert fold.answered(1, OK) == FILED


def test_the_first_refusal_that_came_wins_not_the_first_that_was_asked() -> None:
    fold = fold_of(["a", "b", "c"])
    assert fold.answered(2, HELD) is None
    assert fold.answered(0, STALE) is None
    assert fold.answered(1, NOT_HERE) == Refused("file_failed", HELD["error"])


def test_a_refusal_beats_a_link_that_ended() -> None:
    fold = fold_of(["a", "b"])
    assert fold.ended(0) is None
    assert fold.answered(1, STALE) == Refused("no_live_session", STALE["error"])


def test_a_link_that_ends_while_asked_gave_no_answer_at_once() -> None:
    fold = fold_of(["a", "b"])
    assert fold.answered(0, NOT_HERE) is None
    verdict = fold.ended(1)
    assert verdict == Refused("no_answer", "the daemon on b did not answer within 3s; @h may still be filed")


def test_silent_hosts_stand_in_file_order_and_strangers_after_them_by_name() -> None:
    fold = fold_of(["z", "m", "a", "f"], file_order=["f", "a"])
    verdict = fold.out_of_time()
    assert isinstance(verdict, Refused)
    assert verdict.sentence.startswith("the daemon on f, a, m, z did not answer")


def test_a_second_answer_of_a_link_counts_for_nothing() -> None:
    fold = fold_of(["a", "b"])
    assert fold.answered(0, NOT_HERE) is None
    assert fold.answered(0, OK) is None
    assert fold.answered(1, NOT_HERE) == Refused("unknown_handle", "no box knows that handle: h")


def test_nobody_linked_is_settled_before_anything_is_asked() -> None:
    assert fold_of([]).verdict == Refused("unknown_handle", "no box knows that handle: h")
    assert fold_of([], not_linked=["b", "c"]).verdict == Refused(
        "unknown_handle", "no linked box knows that handle: h; not linked: b, c"
    )


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ({"ok": True, "error": "no"}, Refused("file_failed", "no")),
        ({"ok": True, "error": ""}, FILED),
        ({"ok": True, "error": 7}, FILED),
        ({"error": "no", "code": 7}, Refused("file_failed", "no")),
        ({"error": "no"}, Refused("file_failed", "no")),
        ({"error": "own words", "code": "made_up"}, Refused("made_up", "own words")),
        ({}, Refused("file_failed", "the daemon on a answered neither ok nor a refusal")),
        ({"ok": 1}, Refused("file_failed", "the daemon on a answered neither ok nor a refusal")),
        ({"ok": "true"}, Refused("file_failed", "the daemon on a answered neither ok nor a refusal")),
        (
            {"error": None, "code": "not_here"},
            Refused("file_failed", "the daemon on a answered neither ok nor a refusal"),
        ),
    ],
)
def test_how_an_answer_is_read(answer: dict[str, Any], verdict: Outcome) -> None:
    assert fold_of(["a"]).answered(0, answer) == verdict


# Any order of events


@dataclass(frozen=True)
class Event:
    link: int
    what: str  # an answer's name, "end", or "deadline" (of all)


ANSWERS: dict[str, dict[str, Any]] = {
    "ok": OK,
    "not_here": NOT_HERE,
    "stale": STALE,
    "held": HELD,
    "junk": {"x": 1},
}
EVENTS = st.builds(Event, st.integers(0, 5), st.sampled_from([*ANSWERS, "end", "deadline"]))


def spec_verdict(count: int, events: Sequence[Event], *, not_linked: Sequence[str]) -> Outcome | None:
    """Section 5's four rules, read off the whole history at once: None while it is not determined."""
    first: dict[int, str] = {}
    refusals: list[dict[str, str]] = []
    out_of_time = False
    for event in events:
        if event.what == "deadline":
            out_of_time = True
            for link in range(count):
                first.setdefault(link, "silent")
        elif event.link < count and event.link not in first:
            first[event.link] = event.what
            if event.what in {"stale", "held"}:
                refusals.append(ANSWERS[event.what])
            elif event.what == "junk":
                sentence = f"the daemon on box{event.link} answered neither ok nor a refusal"
                refusals.append({"error": sentence, "code": "file_failed"})
            elif event.what == "ok":
                return FILED
    if len(first) < count and not out_of_time:
        return None
    if refusals:
        return Refused(refusals[0]["code"], refusals[0]["error"])
    silent = [f"box{link}" for link in range(count) if first[link] in {"silent", "end"}]
    if silent:
        return Refused(
            "no_answer", f"the daemon on {', '.join(silent)} did not answer within 3s; @h may still be filed"
        )
    if not_linked:
        return Refused(
            "unknown_handle", f"no linked box knows that handle: h; not linked: {', '.join(not_linked)}"
        )
    return Refused("unknown_handle", "no box knows that handle: h")


def apply(fold: Fold, event: Event) -> Outcome | None:
    link: Hashable = event.link
    match event.what:
        case "deadline":
            return fold.out_of_time()
        case "end":
            return fold.ended(link)
        case answer:
            return fold.answered(link, ANSWERS[answer])


@given(
    count=st.integers(0, 5),
    events=st.lists(EVENTS, max_size=12),
    missing=st.lists(st.just("box9"), max_size=1),
)
def test_any_order_gives_the_verdict_of_section_5_at_the_first_moment(
    count: int, events: list[Event], missing: list[str]
) -> None:
    fold = fold_of([f"box{link}" for link in range(count)], not_linked=missing)
    assert fold.verdict == spec_verdict(count, [], not_linked=missing)
    for done in range(1, len(events) + 1):
        before = fold.verdict
        said = apply(fold, events[done - 1])
        expected = spec_verdict(count, events[:done], not_linked=missing)
        assert fold.verdict == (before or expected)
        assert said == (expected if before is None else None), "said once, when it is determined"


@given(count=st.integers(1, 5), events=st.lists(EVENTS, max_size=12))
def test_the_deadline_always_settles_it(count: int, events: list[Event]) -> None:
    fold = fold_of([f"box{link}" for link in range(count)])
    for event in events:
        apply(fold, event)
    fold.out_of_time()
    assert fold.verdict is not None
