"""A row's facts, what they read as, and the ten verbs."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filing import work_state
from filing.work_state import Discarded, Stamped, no_row, reduced, row_handle_refusal, transition
from tests.filing.support import VECTORS, case_name, table

TABLE = json.loads((VECTORS / "work_state.json").read_text(encoding="utf-8"))
FACTS = ("floor", "dialog", "question", "waiting", "done", "note", "stop_at")
NOW = "2026-06-15T19:32:13Z"


def stamped(entry: dict[str, Any], verb: str, text: str | None = None, **origin: Any) -> dict[str, Any]:
    result = transition(entry, verb, text, now=NOW, **origin)
    assert isinstance(result, Stamped)
    return result.entry


def facts_of(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key in FACTS}


# The tables


@pytest.mark.parametrize("case", table("work_state", "reduction"), ids=lambda case: ",".join(case["facts"]))
def test_the_table_of_reductions(case: dict[str, Any]) -> None:
    reading = reduced(case["facts"])
    assert (reading.state, reading.summary) == (case["state"], case["summary"])


@pytest.mark.parametrize("case", table("work_state", "transition"), ids=case_name)
def test_the_table_of_transitions(case: dict[str, Any]) -> None:
    origin = {"origin": case["origin"]} if "origin" in case else {}
    result = transition(case["before"], case["verb"], case.get("text"), now=NOW, **origin)
    if case["rc"]:
        sentence = case["stderr"].replace("comm-status.sh", "comm-status")
        assert result == Discarded(case["rc"], sentence)
        assert case["after"] == case["before"]
        return
    assert isinstance(result, Stamped)
    assert facts_of(result.entry) == case["after"]
    assert (result.entry["state"], result.entry["summary"]) == (case["state"], case["summary"])


@pytest.mark.parametrize("case", table("work_state", "sequence"), ids=case_name)
def test_the_table_of_sequences(case: dict[str, Any]) -> None:
    entry: dict[str, Any] = {}
    for step in case["steps"]:
        origin = {"origin": step["origin"]} if "origin" in step else {}
        entry = stamped(entry, step["verb"], step.get("text"), **origin)
        assert (entry["state"], entry["summary"]) == (step["state"], step["summary"])
        assert entry.get("floor") == step["floor"]
        for fact in ("question", "waiting", "done"):
            assert (fact in entry) is step[fact]


@pytest.mark.parametrize("case", table("work_state", "no_row"), ids=lambda case: case["kind"])
def test_without_a_row_an_event_is_silent_and_a_declaration_is_not(case: dict[str, Any]) -> None:
    verbs = work_state.EVENTS if case["kind"] == "event" else work_state.DECLARATIONS
    for verb in verbs:
        told = no_row(verb, "h")
        assert told.exit_code == case["rc"]
        begin, _, end = case["stderr"].replace("comm-status.sh", "comm-status").partition("...")
        assert told.sentence.startswith(begin)
        assert end in told.sentence
    assert "this session" in no_row("done", None).sentence


def test_the_ten_verbs_are_the_tables() -> None:
    assert list(work_state.EVENTS) == TABLE["events"]
    assert list(work_state.DECLARATIONS) == TABLE["declarations"]


# What the tables leave open


def test_a_join_changes_no_fact() -> None:
    before = {"floor": "user", "question": "q", "note": "n", "dialog": "d"}
    assert facts_of(stamped(before, "join")) == before
    assert stamped({}, "join") == {"state": "idle", "summary": "", "status_at": NOW, "last_seen": NOW}


def test_a_dialog_without_its_text_still_reads_blocked() -> None:
    for text in (None, "", " \n"):
        entry = stamped({"floor": "user"}, "dialog", text)
        assert (entry["state"], entry["summary"]) == ("blocked", "a dialog is open")


def test_a_text_of_white_space_is_no_text() -> None:
    assert transition({"note": "n"}, "waiting", " \t\n", now=NOW) == Discarded(
        2, "comm-status: waiting needs its text -- stamp discarded"
    )


def test_waiting_without_text_ends_a_question_too() -> None:
    assert facts_of(stamped({"waiting": "w", "question": "q", "note": "n"}, "waiting")) == {
        "waiting": "w",
        "note": "n",
    }


def test_a_fact_of_another_type_harms_nothing() -> None:
    odds: list[Any] = [None, 5, [], {}, False]
    for odd in odds:
        reading = reduced(dict.fromkeys(("dialog", "question", "waiting", "note"), odd))
        assert reading.summary == ""
        assert reading.state == ("idle" if odd is None else "blocked")
    assert reduced({"done": "yes"}).state == "idle"
    assert isinstance(transition({"question": 5}, "blocked", now=NOW), Discarded)


def test_a_verb_or_an_origin_that_is_none_is_refused() -> None:
    told = transition({}, "sleep", now=NOW)
    assert isinstance(told, Discarded)
    assert told.exit_code == 2
    assert "unknown verb 'sleep' (one of prompt, stop," in told.sentence
    assert transition({}, "prompt", origin="cron", now=NOW) == Discarded(
        2, "comm-status: the origin of a turn is user or machine, not 'cron' -- stamp discarded"
    )


def test_a_row_handle_takes_only_what_a_screen_shows() -> None:
    allowed = [verb for verb in work_state.VERBS if row_handle_refusal(verb) is None]
    assert allowed == ["dialog", "resumed"]
    assert row_handle_refusal("done") == Discarded(
        2, "comm-status: SOT_COMM_ROW_HANDLE takes only dialog and resumed, not 'done' -- stamp discarded"
    )


def test_an_unreadable_registry_fails_every_verb() -> None:
    assert work_state.registry_unreadable() == Discarded(
        1, "FAILED: the registry could not be read; stamp discarded"
    )


# Properties

TEXTS = st.none() | st.sampled_from(["", "x", "\n"])
ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "floor": st.sampled_from(["user", "machine", None]),
        "dialog": TEXTS,
        "question": TEXTS,
        "waiting": TEXTS,
        "done": st.booleans(),
        "note": TEXTS,
        "stop_at": st.just(NOW),
        "turn_origin": st.just("user"),
        "sticky": st.just("blocked"),
        "sticky_at": st.just(NOW),
        "host": st.just("box"),
        "later_key": st.just({"of": ["a", "newer", "version"]}),
    },
)
VERBS = st.sampled_from(work_state.VERBS)
ORIGINS = st.sampled_from(["user", "machine"])


@given(ENTRIES, VERBS, TEXTS, ORIGINS)
def test_a_write_merges_stamps_and_drops_the_legacy_keys(
    entry: dict[str, Any], verb: str, text: str | None, origin: str
) -> None:
    before = copy.deepcopy(entry)
    result = transition(entry, verb, text, origin=origin, now=NOW)
    assert entry == before  # what was read is not changed in place
    if isinstance(result, Discarded):
        assert verb in {"blocked", "waiting"}
        return
    after = result.entry
    assert not {"turn_origin", "sticky", "sticky_at"} & set(after)
    assert after["status_at"] == after["last_seen"] == NOW
    reading = reduced(after)
    assert (after["state"], after["summary"]) == (reading.state, reading.summary)
    for key in ("host", "later_key"):
        assert (key in after, after.get(key)) == (key in before, before.get(key))


@given(ENTRIES, VERBS, TEXTS, ORIGINS)
def test_said_twice_is_said_once(entry: dict[str, Any], verb: str, text: str | None, origin: str) -> None:
    once = transition(entry, verb, text, origin=origin, now=NOW)
    if isinstance(once, Stamped):
        assert stamped(once.entry, verb, text, origin=origin) == once.entry


@given(ENTRIES, st.lists(st.tuples(VERBS, TEXTS, ORIGINS), max_size=6))
def test_no_turn_ends_with_a_floor_or_a_dialog(
    entry: dict[str, Any], steps: list[tuple[str, str | None, str]]
) -> None:
    for verb, text, origin in steps:
        result = transition(entry, verb, text, origin=origin, now=NOW)
        entry = result.entry if isinstance(result, Stamped) else entry
    ended = stamped(entry, "stop")
    assert not {"floor", "dialog", "stop_at"} & set(ended)
    assert ended["state"] != "working"
