"""Lines end at LF and nowhere else; one line reads leniently or strictly."""

import json

from hypothesis import given
from hypothesis import strategies as st

from filing.inbox_lines import InboxLines, holds_lone_surrogate, read_leniently, read_strictly

INBOXES = st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\0", "\u2028".encode()])).map(b"".join)


@given(INBOXES)
def test_every_line_is_found_by_its_number(data: bytes) -> None:
    lines = InboxLines.of(data)
    *whole, half = data.split(b"\n")
    assert lines.total == len(whole)
    assert lines.half_line == half
    assert [lines.line(number) for number in range(1, lines.total + 1)] == whole
    assert [lines.after(number) for number in range(lines.total + 1)] == [
        whole[number:] for number in range(lines.total + 1)
    ]


def test_other_line_ends_are_text() -> None:
    data = '{"a":"\u2028\u0085\v\f"}\r\n'.encode()
    assert InboxLines.of(data).total == 1


def test_an_object_is_read_and_nothing_else() -> None:
    for line in (
        b"",
        b"  ",
        b"5",
        b'"x"',
        b"[1]",
        b"null",
        b"true",
        b"not json",
        b'{"a":1}{"a":1}',
        b'{"a":1,}',
    ):
        assert read_leniently(line) is None
        assert read_strictly(line) is None
    assert read_leniently(b'{"a":1}\r') == read_strictly(b'{"a":1}\r') == {"a": 1}


def test_a_hostile_line_reads_leniently_only() -> None:
    for line in (b'\xef\xbb\xbf{"a":1}', b'{"a":NaN}', b'{"a":1e999}', b'{"a":"\xff"}', b'{"a":"x\0y"}'):
        assert read_leniently(line) is not None
        assert read_strictly(line) is None


def test_what_no_parser_bears_is_no_object() -> None:
    assert read_leniently(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}") is None
    assert read_leniently(b'{"a":' + b"9" * 10_000 + b"}") == {"a": float("inf")}


def test_half_an_escaped_pair_is_told() -> None:
    for text, lone in ((r"\ud800", True), (r"\ud83d\ude00", False), (r"\\ud800", False), (r"\udc00", True)):
        line = f'{{"a":"{text}"}}'.encode()
        assert holds_lone_surrogate(line, json.loads(line)) is lone
