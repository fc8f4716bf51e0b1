"""Which lines are unread mail, what a poll shows, and that no line is ever passed over."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filing.cursor import offset, parse_cursor
from filing.inbox import inbox_line
from filing.inbox_lines import InboxLines
from filing.unread import ShownLine, counts_for_the_shell, counts_for_the_wake, poll, unread
from tests.filing.support import case_name, from_base64, table

CASES = table("unread", "cases")


def files(case: dict[str, Any]) -> tuple[bytes | None, bytes | None]:
    return from_base64(case["inbox_b64"]), None if case["cursor"] is None else case["cursor"].encode()


def line(text: str = "hi", *, sender: str = "b", to: str = "a") -> bytes:
    return inbox_line(sender=sender, to=to, text=text, broadcast=not to, stamp="2026-01-01T00:00:00Z")


# The table


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_the_table_by_the_shells_arm(case: dict[str, Any]) -> None:
    answer = unread(*files(case), case["handle"], counts_for_the_shell)
    assert (answer.total, answer.offset, answer.count) == (case["total"], case["offset"], case["unread"])


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_the_table_by_the_wakes_arm(case: dict[str, Any]) -> None:
    expected = case.get("wake", case)
    answer = unread(*files(case), case["handle"], counts_for_the_wake)
    assert (answer.offset, answer.count) == (expected["offset"], expected["unread"])


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_the_table_of_polls(case: dict[str, Any]) -> None:
    assert case["poll_rc"] == 0  # a poll that read has nothing to fail with
    inbox, cursor = files(case)
    polled = poll(inbox, cursor, case["handle"])
    after = case["cursor"] if polled.cursor is None else polled.cursor
    assert after == case["cursor_after_poll"]
    assert (polled.total, polled.cut_back) == (case["total"], case["cut_back_note"])
    assert polled.unread == case["unread"]
    lines = InboxLines.of(inbox or b"").after(case["offset"])
    assert len(polled.shown) + len(polled.not_shown) == sum(1 for line in lines if line)


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_what_a_poll_has_shown_no_poll_shows_again(case: dict[str, Any]) -> None:
    inbox, cursor = files(case)
    first = poll(inbox, cursor, case["handle"])
    if first.cursor is not None:
        again = poll(inbox, first.cursor.encode(), case["handle"])
        assert (again.shown, again.not_shown, again.cursor, again.cut_back) == ((), (), None, False)


# What is shown


@pytest.mark.parametrize(
    ("frame", "printed"),
    [
        (line("one"), "[2026-01-01T00:00:00Z] [b:daemon] one"),
        (line("one\ntwo"), "[2026-01-01T00:00:00Z] [b:daemon] one\ntwo"),
        (line(to=""), "[2026-01-01T00:00:00Z] [b:daemon] hi"),
        (b'{"from":"b","message":"old"}\n', "[] [b:] old"),
        (b'{"msg":null,"message":false,"text":"t"}\n', "[] [:] t"),
        (b'{"msg":"","text":"t"}\n', "[] [:] "),
        (b'{"msg":{"a":[1,"\xc3\xa9"]},"ts":5}\n', '[5] [:] {"a": [1, "é"]}'),
        (b'{"msg":"\\ud800x\\ud83d\\ude00"}\n', "[] [:] \ufffdx😀"),
        (b'{"msg":"x\0y"}\n', "[] [:] xy"),
        (b'{"msg":"\xff"}\n', "[] [:] \ufffd"),
        (b"{}\n", "[] [:] "),
    ],
)
def test_how_a_line_is_shown(frame: bytes, printed: str) -> None:
    (shown,) = poll(frame, None, "a").shown
    assert str(shown) == printed


def test_a_line_that_cannot_be_shown_is_read_and_named() -> None:
    polled = poll(line() + b"junk\n\n5\n" + line("two"), None, "a")
    assert [shown.number for shown in polled.shown] == [1, 5]
    assert polled.not_shown == (2, 4)  # the third is empty, which is nothing to name
    assert polled.cursor is not None
    assert polled.cursor.startswith("5 ")


def test_a_value_nested_too_deeply_to_show_stops_no_poll() -> None:
    for depth in range(0, 1100, 10):
        frame = b'{"to":"a","msg":' + b"[" * depth + b"]" * depth + b"}\n"
        polled = poll(frame + line("next"), None, "a")
        assert polled.shown[-1].text == "next"
        assert polled.unread >= 1


def test_a_half_line_is_measured_and_left() -> None:
    polled = poll(line() + b'{"to":"a"', None, "a")
    assert (len(polled.shown), polled.half_line_bytes, polled.total) == (1, 9, 1)


def test_a_cut_back_line_is_told_and_the_one_in_its_place_is_shown() -> None:
    first = poll(line("one") + line("lost"), None, "a")
    assert first.cursor is not None
    second = poll(line("one") + line("new"), first.cursor.encode(), "a")
    assert second.cut_back
    assert [shown.text for shown in second.shown] == ["new"]


# Properties

TEXTS = st.text(max_size=8)
HANDLES = st.sampled_from(["a", "b", ""])
FRAMES = st.builds(lambda text, sender, to: line(text, sender=sender, to=to), TEXTS, HANDLES, HANDLES)
HOSTILE = st.sampled_from(
    [
        b"junk\n",
        b"\n",
        b"\0\0\n",
        b'{"to":"a","msg":NaN}\n',
        b'\xef\xbb\xbf{"to":"a"}\n',
        b'{"to":"a","msg":"\xff"}\n',
        b'{"to":"a","msg":"\\ud800"}\n',
        b'{"to":"a","msg":"\0"}\n',
        b'{"to":"a","n":1e999}\n',
        b'{"to":"a","msg":' + b"[" * 130 + b"]" * 130 + b"}\n",
        b'{"to":["a"]}\n',
        b"[]\n",
    ]
)


@given(FRAMES)
def test_the_arms_agree_on_what_a_writer_emits(frame: bytes) -> None:
    assert counts_for_the_shell(frame[:-1], "a") == counts_for_the_wake(frame[:-1], "a")


@given(st.one_of(FRAMES, HOSTILE, st.binary(max_size=12)))
def test_the_wake_never_counts_what_the_shell_does_not(frame: bytes) -> None:
    data = frame.rstrip(b"\n")
    assert counts_for_the_shell(data, "a") or not counts_for_the_wake(data, "a")


@given(st.lists(st.lists(st.one_of(FRAMES, HOSTILE), max_size=3), max_size=6))
def test_polls_between_appends_show_each_line_once_and_in_order(batches: list[list[bytes]]) -> None:
    inbox = b""
    cursor: bytes | None = None
    numbers: list[int] = []
    for batch in batches:
        inbox += b"".join(batch)
        polled = poll(inbox, cursor, "a")
        assert not polled.cut_back
        numbers += sorted([*(shown.number for shown in polled.shown), *polled.not_shown])
        cursor = cursor if polled.cursor is None else polled.cursor.encode()
    whole = InboxLines.of(inbox).after(0)
    assert numbers == [number for number, data in enumerate(whole, 1) if data]


@given(st.lists(st.one_of(FRAMES, HOSTILE), max_size=4), st.lists(FRAMES, max_size=3), st.data())
def test_any_cut_of_the_file_hides_no_line_that_follows(
    read: list[bytes], filed: list[bytes], data: st.DataObject
) -> None:
    """A reader sees the file in the middle of an append; the writer then goes on, or dies and is cut back."""
    whole = b"".join(read + filed)
    seen = whole[: data.draw(st.integers(len(b"".join(read)), len(whole)))]
    first = poll(seen, None, "a")
    second = poll(whole, None if first.cursor is None else first.cursor.encode(), "a")
    numbers = [shown.number for polled in (first, second) for shown in polled.shown]
    once = [shown.number for shown in poll(whole, None, "a").shown]
    assert numbers == once


@given(st.lists(FRAMES, max_size=3), FRAMES, st.lists(FRAMES, min_size=1, max_size=3))
def test_a_line_filed_after_a_cut_back_is_shown(kept: list[bytes], lost: bytes, filed: list[bytes]) -> None:
    first = poll(b"".join([*kept, lost]), None, "a")
    assert first.cursor is not None
    second = poll(b"".join(kept + filed), first.cursor.encode(), "a")
    missing = 1 if filed[0] == lost else 0  # the very line that was shown, filed again
    assert len(second.shown) == len(filed) - missing


@given(st.lists(st.one_of(FRAMES, HOSTILE), max_size=5), st.binary(max_size=25))
def test_any_cursor_text_is_borne(frames: list[bytes], cursor: bytes) -> None:
    inbox = b"".join(frames)
    polled = poll(inbox, cursor, "a")
    at = offset(parse_cursor(cursor), InboxLines.of(inbox))
    assert (polled.cursor is None) == (at.lines == polled.total)


def test_shown_lines_are_values() -> None:
    assert ShownLine(1, "t", "b", "r", "x") == ShownLine(1, "t", "b", "r", "x")


@pytest.mark.parametrize("to", ["a", ""])
def test_a_shown_line_says_whom_it_is_to(to: str) -> None:
    (shown,) = poll(line(to=to), None, "a").shown
    assert shown.to == to
