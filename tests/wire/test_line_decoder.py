"""Cutting a byte stream into frames: WIRE sections 1 and 2."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.frames import BadFrame, Frame, Kind, LineDecoder, encode
from wire.limits import MAX_ENVELOPE_BYTES, MAX_FRAME_BYTES


def _line(n: int, text: str = "") -> bytes:
    return encode(Kind.REQ, n, "x", {"text": text}) + b"\n"


def _line_of(size: int) -> bytes:
    """A frame whose line is `size` bytes long, its LF included."""
    return _line(1, "y" * (size - len(_line(1))))


def _read(*chunks: bytes, end: bool = True) -> list[int | str]:
    """Feed `chunks`; return the id of each frame, and 'bad' for what was none."""
    decoder = LineDecoder()
    found: list[Frame | BadFrame] = [frame for chunk in chunks for frame in decoder.feed(chunk)]
    if end:
        found += decoder.end()
    return [frame.id if isinstance(frame, Frame) else "bad" for frame in found]


STREAM = _line(1) + b"\n\n" + _line(2, "é漢😀") + _line(3, "\n\u2028\x85") + b"\n" + _line(4)


def test_each_line_is_a_frame_and_empty_lines_are_skipped() -> None:
    assert _read(STREAM) == [1, 2, 3, 4]


def test_a_stream_cut_at_every_byte_gives_the_same_frames() -> None:
    assert _read(*(STREAM[n : n + 1] for n in range(len(STREAM)))) == [1, 2, 3, 4]
    for at in range(len(STREAM) + 1):
        assert _read(STREAM[:at], STREAM[at:]) == [1, 2, 3, 4], at


@given(
    st.lists(
        st.integers(0, 9).map(_line) | st.sampled_from([b"\n", b" \n", b"\r\n", b"x\n", b"{}\n", b"\n\n"]),
        max_size=12,
    ),
    st.sampled_from([b"", _line(5)[:-1], b"  ", b"x", _line(6)[:-3]]),
    st.lists(st.integers(0, 400), max_size=12),
)
def test_however_a_stream_is_cut_its_frames_are_the_same(
    lines: list[bytes], last: bytes, cuts: list[int]
) -> None:
    stream = b"".join(lines) + last
    points = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    chunks = [stream[start:end] for start, end in itertools.pairwise(points)]
    assert _read(*chunks) == _read(stream)


def test_a_line_of_the_cap_with_its_lf_is_a_frame_and_one_byte_more_is_not() -> None:
    assert len(_line_of(MAX_ENVELOPE_BYTES)) == 1_048_576
    for prefix in (b"", _line(7)):
        before: list[int | str] = [7] if prefix else []
        assert _read(prefix + _line_of(MAX_ENVELOPE_BYTES)) == [*before, 1]
        assert _read(prefix + _line_of(MAX_ENVELOPE_BYTES + 1)) == [*before, "bad"]


def test_a_line_over_the_cap_is_known_before_its_lf_has_come() -> None:
    text = _line_of(MAX_ENVELOPE_BYTES + 1)[:-1]
    assert len(text) == MAX_FRAME_BYTES + 1
    assert _read(text[:-1], end=False) == []
    assert _read(text[:-1], text[-1:], end=False) == ["bad"]
    assert _read(text, end=False) == ["bad"]


def test_an_unterminated_last_line_is_judged_by_the_same_cap() -> None:
    assert _read(_line_of(MAX_ENVELOPE_BYTES)[:-1]) == [1]
    assert _read(_line_of(MAX_ENVELOPE_BYTES + 1)[:-1]) == ["bad"]


def test_an_unterminated_last_line_is_a_frame_at_the_end_of_input_and_not_before() -> None:
    assert _read(_line(1) + _line(2)[:-1], end=False) == [1]
    assert _read(_line(1) + _line(2)[:-1]) == [1, 2]
    assert _read(_line(1) + b"x") == [1, "bad"]
    assert _read(_line(1)) == [1]
    assert _read() == []


@pytest.mark.parametrize("blank", [b" ", b"\r", b"\t", b"  \t ", b" \r", b"\x00", b"\xef\xbb\xbf"])
def test_a_line_of_blanks_or_a_cr_only_is_not_empty(blank: bytes) -> None:
    assert _read(blank + b"\n" + _line(1)) == ["bad"]
    assert _read(blank) == ["bad"]


def test_a_cr_before_the_lf_is_a_blank_after_the_document() -> None:
    assert _read(_line(1)[:-1] + b"\r\n") == [1]


@pytest.mark.parametrize("bad", [b"x\n", b"{}\n", b"y" * (MAX_FRAME_BYTES + 1), b" \n"])
def test_nothing_is_cut_after_a_bad_frame(bad: bytes) -> None:
    assert _read(_line(1) + bad + _line(2)) == [1, "bad"]
    assert _read(_line(1), bad, b"\n" + _line(2), _line(3)) == [1, "bad"]
    assert _read(bad, b"\n", bad, b"\n", _line(2)[:-1]) == ["bad"]


def test_nothing_is_cut_after_the_decoder_was_told_to_stop() -> None:
    decoder = LineDecoder()
    frames = decoder.feed(_line(1) + _line(2))
    assert isinstance(next(frames), Frame)
    decoder.abandon()
    assert list(frames) == []
    assert list(decoder.feed(_line(3))) == []
    assert list(decoder.end()) == []


def test_no_more_than_one_line_is_held() -> None:
    decoder = LineDecoder()
    chunk = b"y" * 65_536
    for _ in range(100):
        list(decoder.feed(chunk))
        assert decoder.held_bytes <= MAX_FRAME_BYTES
    assert decoder.held_bytes == 0  # broken: nothing is kept for it any more


def test_what_was_cut_is_not_held() -> None:
    decoder = LineDecoder()
    assert len(list(decoder.feed(STREAM * 100 + b"123"))) == 400
    assert decoder.held_bytes == 3
    list(decoder.feed(b"45"))
    assert decoder.held_bytes == 5
