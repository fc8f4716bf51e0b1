"""The verdict, from what a daemon says; no socket."""

import itertools
import json
import math
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.verbs.support import FILED, VECTORS, WELCOME, event, res
from verbs.client import Accepted, Channel, Conversation, Lines, NoAnswer, Refused, Verdict, ask
from wire.limits import MAX_FRAME_BYTES

MISMATCH = res("hello", {"error": "speaks 4", "code": "protocol_mismatch"})
CONFLICT = res("hello", {"error": "two accounts", "code": "os_user_conflict"})
NOT_HERE = res("comm.file", {"error": "no box knows that handle: h", "code": "not_here"})


def shown(verdict: Verdict | None) -> str | None:
    match verdict:
        case None:
            return None
        case Accepted():
            return "filed"
        case Refused(reason):
            return reason
        case NoAnswer():
            return "(no answer)"


def heard(*lines: bytes) -> Conversation:
    conversation = Conversation("comm.file")
    for line in lines:
        conversation.take(line.removesuffix(b"\n"))
    return conversation


class Playback(Channel):
    """A connection on which these pieces arrive, one at a time, and then the end."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)
        self._lines = Lines()

    def send(self, frames: tuple[bytes, ...], deadline: float) -> None:
        self.sent = True

    def receive(self, deadline: float) -> list[bytes] | None:
        if self._pieces:
            return self._lines.feed(self._pieces.pop(0))
        return self._lines.rest() or None


def verdict_on(*pieces: bytes) -> str | None:
    return shown(ask(Playback(*pieces), (b"{}",), "comm.file", deadline=math.inf))


def spoken(text: str) -> dict[str, Any] | None:
    """The payload that a cell of the table stands for; None where the daemon says nothing."""
    if text.startswith("("):
        return None
    payload: dict[str, Any] = json.loads(text.replace("<any but not_here>", "file_failed"))
    return payload


@pytest.mark.parametrize(
    "case", VECTORS["client_verdict"], ids=lambda case: f"{case['hello']} {case['answer']}"
)
def test_the_contract_s_table(case: dict[str, Any]) -> None:
    lines = [WELCOME if case["hello"] is None else res("hello", json.loads(case["hello"]))]
    if (payload := spoken(case["answer"])) is not None:
        lines.append(res("comm.file", payload))
    prints = case["prints"].removeprefix("(spec) ").removeprefix("FAILED -> @h: ").removesuffix(" -> @h")
    assert verdict_on(*lines) == prints.replace("the daemon did not answer at <endpoint>", "(no answer)")


def test_nothing_is_decided_by_a_hello_that_is_admitted() -> None:
    assert heard(WELCOME).decided() is None
    assert shown(heard(WELCOME).ended()) == "(no answer)"


def test_an_older_daemon_refuses_for_the_protocol_and_its_answer_is_waited_for() -> None:
    assert heard(MISMATCH).decided() is None
    assert shown(heard(MISMATCH).ended()) == "hello refused: speaks 4"
    assert shown(heard(MISMATCH, FILED).decided()) == "filed"
    assert shown(heard(MISMATCH, NOT_HERE).decided()) == "no box knows that handle: h"


def test_a_refusal_without_a_code_may_be_an_older_daemon_s() -> None:
    bare = res("hello", {"error": "no"})
    assert heard(bare).decided() is None
    assert shown(heard(bare, FILED).decided()) == "filed"


def test_any_other_refused_hello_is_final_at_once() -> None:
    assert shown(heard(CONFLICT).decided()) == "hello refused: two accounts"


def test_an_answer_that_came_with_a_refused_hello_decides() -> None:
    assert shown(heard(CONFLICT, FILED).decided()) == "filed"
    assert shown(heard(FILED, CONFLICT).decided()) == "filed"


def test_an_answer_that_is_no_verdict_leaves_the_refused_hello_s_words() -> None:
    neither = res("comm.file", {"ok": False})
    assert shown(heard(neither).decided()) == "(no answer)"
    assert shown(heard(MISMATCH, neither).decided()) == "hello refused: speaks 4"


def test_the_first_answer_counts() -> None:
    assert shown(heard(NOT_HERE, FILED).decided()) == "no box knows that handle: h"
    assert shown(heard(MISMATCH, CONFLICT).ended()) == "hello refused: speaks 4"


@pytest.mark.parametrize("error", [None, "", 7, {"message": "no"}, []])
def test_an_error_counts_only_as_words(error: Any) -> None:
    assert shown(heard(res("comm.file", {"ok": True, "error": error})).decided()) == "filed"
    assert shown(heard(res("comm.file", {"error": error})).decided()) == "(no answer)"
    assert heard(res("hello", {"error": error, "code": "os_user_conflict"})).decided() is None


@pytest.mark.parametrize("ok", [False, 1, "true", None])
def test_only_true_is_ok(ok: Any) -> None:
    assert shown(heard(res("comm.file", {"ok": ok})).decided()) == "(no answer)"


NOT_OURS = [
    event("hello"),
    res("comm.file", {"ok": True}, frame_id=1),
    res("comm.file", {"ok": True}, frame_id=7),
    res("agent.send", {"ok": True}),
    res("hello", {"error": "no", "code": "os_user_conflict"}, frame_id=2),
    FILED.replace(b'"res"', b'"req"'),
    FILED.replace(b'"res"', b'"evt"'),
    FILED.replace(b'"v":1', b'"v":2'),
    FILED.replace(b'"id":2', b'"id":"2"'),
    FILED.replace(b'"id":2', b'"id":true'),
    FILED.replace(b'"payload":{"ok":true}', b'"payload":[true]'),
    FILED.replace(b'"comm.file"', b"7"),
    FILED.replace(b'{"ok":true}', b'{"ok":true,"ok":true}'),
    FILED + b" x",
    b"Welcome to lab, Ubuntu 24.04\r",
    b"\xff\xfe",
    b"\xef\xbb\xbf" + FILED,
    b"null",
    b"[" * 5000,
    b'{"v":1,"id":2,',
    b"",
    b" \r",
]


@pytest.mark.parametrize("line", NOT_OURS, ids=range(len(NOT_OURS)))
def test_what_is_not_ours_decides_nothing(line: bytes) -> None:
    assert heard(line).decided() is None
    assert shown(heard(line, NOT_HERE).decided()) == "no box knows that handle: h"
    assert verdict_on(WELCOME, line, b"\n", event("x"), FILED) == "filed"


def test_an_answer_is_found_wherever_its_bytes_are_cut() -> None:
    stream = MISMATCH + event("é — between") + b"\n" + FILED
    for at in range(len(stream) + 1):
        assert verdict_on(stream[:at], stream[at:]) == "filed"
    assert verdict_on(*(bytes([byte]) for byte in stream)) == "filed"


@given(st.lists(st.sampled_from([b"a", b"bc", b"", b"\xff"]), max_size=12), st.data())
def test_lines_are_the_same_however_they_arrive(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=4)))
    cutter = Lines()
    pieces = itertools.pairwise([0, *cuts, len(stream)])
    assert [line for a, b in pieces for line in cutter.feed(stream[a:b])] == [line for line in lines if line]
    assert cutter.rest() == []


def test_past_the_window_a_flood_is_not_read_to_its_end() -> None:
    class Flood(Playback):
        def receive(self, deadline: float) -> list[bytes] | None:
            return [b"{"] * 1_000_000 + [FILED]

    began = time.monotonic()
    assert shown(ask(Flood(), (b"{}",), "comm.file", began)) == "(no answer)"
    assert time.monotonic() - began < 1


def test_what_had_come_when_the_window_closed_is_still_read() -> None:
    verdict = ask(Playback(MISMATCH + FILED), (b"{}",), "comm.file", time.monotonic())
    assert shown(verdict) == "filed"


def test_an_unterminated_last_line_is_a_frame() -> None:
    assert verdict_on(WELCOME, FILED.removesuffix(b"\n")) == "filed"
    assert verdict_on(WELCOME, FILED[:-5]) == "(no answer)"


def test_a_line_over_the_cap_breaks_the_stream() -> None:
    cutter = Lines()
    assert cutter.feed(b"x" * MAX_FRAME_BYTES) == []
    assert not cutter.broken
    assert cutter.feed(b"x") == []
    assert cutter.broken
    assert cutter.feed(b"\n" + FILED) == []
    assert cutter.rest() == []


@pytest.mark.parametrize(("size", "lines"), [(MAX_FRAME_BYTES, 2), (MAX_FRAME_BYTES + 1, 0)])
def test_a_whole_line_has_the_same_cap(size: int, lines: int) -> None:
    assert len(Lines().feed(b"x" * size + b"\n" + FILED)) == lines
