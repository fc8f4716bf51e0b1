"""Which handle a join takes, and what its row keeps."""

from typing import Any

import pytest

from verbs.joining import Chosen, NotChosen, Session, choose, joined_entry

ROOT, OTHER = "/p/app", "/q/app"
NOW = "2026-12-01T10:00:00Z"
OUTSIDE = Session("boxa", "MyBox", None, "app", ROOT)
INSIDE = Session("boxa", "MyBox", "ws-app-1", "app", ROOT)
TIER1, TIER2, TIER3 = "app-MyBox", "app-p-MyBox", "app-ad7d2b-MyBox"


def bound(row: str, root: str = ROOT, host: str = "boxa") -> dict[str, str]:
    return {"host": host, "workspace_id": row, "root": root}


def own(root: str = ROOT) -> dict[str, str]:
    return {"host": "boxa", "workspace_id": "", "root": root}


NOBODY: dict[str, Any] = {}
TAKEN = f"comm: @{TIER1} (by {OTHER}) already held — joining as @{TIER2} instead"
ROW_HAS_TIER1 = f"comm: @{TIER1} is held by a row; a session outside any row joins as @{TIER2}"
DERIVED: list[tuple[str, Session, dict[str, Any], Chosen]] = [
    ("nobody is there", OUTSIDE, NOBODY, Chosen(TIER1, 1)),
    ("its own row", OUTSIDE, {TIER1: own()}, Chosen(TIER1, 1)),
    ("another project's", OUTSIDE, {TIER1: own(OTHER)}, Chosen(TIER2, 2, (TAKEN,))),
    ("a row of this folder", OUTSIDE, {TIER1: bound("ws-app-1")}, Chosen(TIER2, 2, (ROW_HAS_TIER1,))),
    ("a row of another", OUTSIDE, {TIER1: bound("ws-x-1", OTHER)}, Chosen(TIER2, 2, (ROW_HAS_TIER1,))),
    ("a row of another box", OUTSIDE, {TIER1: bound("ws-9", ROOT, "z")}, Chosen(TIER2, 2, (ROW_HAS_TIER1,))),
    ("this very row", INSIDE, {TIER1: bound("ws-app-1")}, Chosen(TIER1, 1)),
    ("a row joins over a session outside", INSIDE, {TIER1: own()}, Chosen(TIER1, 1)),
    ("two rows in one folder take it from each other", INSIDE, {TIER1: bound("ws-app-2")}, Chosen(TIER1, 1)),
    ("a row and another project", INSIDE, {TIER1: bound("ws-x-1", OTHER)}, Chosen(TIER2, 2, (TAKEN,))),
]


@pytest.mark.parametrize(
    ("session", "agents", "chosen"), [c[1:] for c in DERIVED], ids=[c[0] for c in DERIVED]
)
def test_a_derived_handle(session: Session, agents: dict[str, Any], chosen: Chosen) -> None:
    assert choose(agents, session, pinned=None, remembered=None) == chosen


def test_the_third_tier_is_taken_past_two_rows_and_none_past_three() -> None:
    third = choose({TIER1: bound("ws-1"), TIER2: bound("ws-2")}, OUTSIDE, pinned=None, remembered=None)
    assert isinstance(third, Chosen)
    assert third.tier == 3
    assert third.notices == (
        f"comm: @{TIER1} is held by a row; a session outside any row joins as @{third.handle}",
    )
    rows = dict.fromkeys((TIER1, TIER2, third.handle), bound("ws-1"))
    none = choose(rows, OUTSIDE, pinned=None, remembered=None)
    assert isinstance(none, NotChosen)
    assert none.sentence.startswith("comm: every derived handle for this project is already held: ")


REFUSED = NotChosen(
    "comm-join: REFUSING to join: @h is held by a row (row ws-9); a session outside any row cannot join as it"
)
MOVED = "comm: @h was row ws-9's; row ws-app-1 holds it now"
TAKEN_OVER = f"comm: @h was joined from {OTHER}; this session now reads its inbox and acts as it"
PINNED: list[tuple[str, Session, Any, Chosen | NotChosen]] = [
    ("nobody's", OUTSIDE, None, Chosen("h")),
    ("its own", OUTSIDE, own(), Chosen("h")),
    ("a row's, from outside", OUTSIDE, bound("ws-9"), REFUSED),
    ("a row's on another box", OUTSIDE, bound("ws-9", host="boxz"), REFUSED),
    ("a row's, from a row", INSIDE, bound("ws-9"), Chosen("h", notices=(MOVED,))),
    ("another project's, unbound", OUTSIDE, own(OTHER), Chosen("h", notices=(TAKEN_OVER,))),
    ("another project's row", INSIDE, bound("ws-9", OTHER), Chosen("h", notices=(MOVED, TAKEN_OVER))),
    ("a spawner's, for this row", INSIDE, bound("ws-app-1"), Chosen("h")),
    ("no row at all", OUTSIDE, "text", Chosen("h")),
]


@pytest.mark.parametrize(("session", "entry", "answer"), [c[1:] for c in PINNED], ids=[c[0] for c in PINNED])
def test_a_pinned_handle(session: Session, entry: Any, answer: Chosen | NotChosen) -> None:
    agents = {} if entry is None else {"h": entry}
    assert choose(agents, session, pinned="h", remembered="other") == answer


STEPPED = "comm: @h (named by this session's self file) is held by a row; joining as @app-MyBox"
GONE = STEPPED.replace("held by a row", f"another project's by now ({OTHER})")
REMEMBERED: list[tuple[str, Session, Any, Chosen]] = [
    ("its row went away", OUTSIDE, None, Chosen("h")),
    ("its own", OUTSIDE, own(), Chosen("h")),
    ("one too old to say whose", OUTSIDE, {"host": "boxa"}, Chosen("h")),
    ("a row's by now", OUTSIDE, bound("ws-9"), Chosen(TIER1, 1, (STEPPED,))),
    ("another project's by now", OUTSIDE, own(OTHER), Chosen(TIER1, 1, (GONE,))),
    ("a displaced row takes it back", INSIDE, bound("ws-9"), Chosen("h")),
]


@pytest.mark.parametrize(
    ("session", "entry", "chosen"), [c[1:] for c in REMEMBERED], ids=[c[0] for c in REMEMBERED]
)
def test_a_handle_that_only_the_self_file_gives(session: Session, entry: Any, chosen: Chosen) -> None:
    agents = {} if entry is None else {"h": entry}
    assert choose(agents, session, pinned=None, remembered="h") == chosen


def test_stepping_past_one_name_and_another_is_told_line_by_line() -> None:
    agents = {"h": bound("ws-9"), TIER1: bound("ws-9")}
    chosen = choose(agents, OUTSIDE, pinned=None, remembered="h")
    assert chosen == Chosen(TIER2, 2, (STEPPED.replace(TIER1, TIER2), ROW_HAS_TIER1))


def test_no_name_is_left_after_a_remembered_one() -> None:
    rows = dict.fromkeys((TIER1, TIER2, "h"), bound("ws-1"))
    third = choose(rows, OUTSIDE, pinned=None, remembered=None)
    assert isinstance(third, Chosen)
    full = {**rows, third.handle: bound("ws-1")}
    assert isinstance(choose(full, OUTSIDE, pinned=None, remembered="h"), NotChosen)


FRESH = {
    "host": "boxa",
    "workspace_id": "",
    "repo": "app",
    "root": ROOT,
    "expertise": [],
    "status": "idle",
    "joined": NOW,
    "last_seen": NOW,
    "state": "idle",
    "summary": "",
    "status_at": NOW,
}
BEFORE = "2026-11-01T00:00:00Z"


@pytest.mark.parametrize("old", [None, "text", [], own(OTHER) | {"note": "theirs", "joined": BEFORE, "x": 1}])
def test_a_first_row_holds_nothing_of_what_stood_there(old: Any) -> None:
    assert joined_entry(old, OUTSIDE, None, NOW) == FRESH


def test_a_row_binds_the_handle() -> None:
    assert joined_entry(None, INSIDE, ["a"], NOW) == {**FRESH, "workspace_id": "ws-app-1", "expertise": ["a"]}


def test_joining_again_keeps_the_facts_the_first_join_and_what_is_unknown() -> None:
    old = {
        **own(),
        "expertise": ["files"],
        "joined": BEFORE,
        "last_seen": BEFORE,
        "status": "spawning",
        "floor": "user",
        "note": "building",
        "newer": {"x": 1},
    }
    again = joined_entry(old, OUTSIDE, None, NOW)
    facts = {"floor": "user", "note": "building", "newer": {"x": 1}}
    assert again == {**FRESH, **facts, "expertise": ["files"], "joined": BEFORE} | {
        "state": "working",
        "summary": "building",
    }
    assert joined_entry(old, OUTSIDE, [], NOW)["expertise"] == []
    assert old["status"] == "spawning"  # what was read is not changed


@pytest.mark.parametrize(("member", "value"), [("expertise", "files"), ("joined", 7), ("joined", "")])
def test_what_no_join_wrote_is_made_anew(member: str, value: Any) -> None:
    assert joined_entry({**own(), member: value}, OUTSIDE, None, NOW)[member] == FRESH[member]
