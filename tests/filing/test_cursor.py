"""The cursor is a number of lines and a hash of the last: it never passes over a line, and says when it goes
back.
"""

import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from filing.comm_folder import CommFolder, FileCalls
from filing.cursor import (
    Counted,
    Offset,
    ReadUpTo,
    cksum,
    cursor_path,
    cursor_text,
    line_hash,
    offset,
    parse_cursor,
    read_cursor,
    write_cursor,
)
from filing.fresh_read import ReadFailed
from filing.inbox_lines import InboxLines
from tests.filing.support import case_name, from_base64, on_posix, table


def vector_line(case: dict[str, Any]) -> bytes:
    if case.get("line_b64") is not None:
        return from_base64(case["line_b64"]) or b""
    letter, _, times = str(case["line"]).partition("*")
    return letter.encode() * int(times)


def cksum_bit_by_bit(data: bytes) -> int:
    length = len(data)
    register = 0
    for byte in data + length.to_bytes((length.bit_length() + 7) // 8, "little"):
        register ^= byte << 24
        for _ in range(8):
            register = (register << 1 ^ 0x04C11DB7 if register & 0x80000000 else register << 1) & 0xFFFFFFFF
    return register ^ 0xFFFFFFFF


# The hash and the text


@pytest.mark.parametrize("case", table("unread", "line_hash"), ids=case_name)
def test_the_table_of_line_hashes(case: dict[str, Any]) -> None:
    assert line_hash(vector_line(case)) == case["hash"]


@pytest.mark.parametrize("case", table("unread", "cursor_write"))
def test_the_table_of_cursor_texts(case: dict[str, Any]) -> None:
    assert cursor_text(case["count"], vector_line(case)) == case["cursor_file"]


@given(st.binary(max_size=300))
@example(b"")
@example(b"\0" * 256)
def test_the_sum_is_the_posix_one(data: bytes) -> None:
    assert cksum(data) == cksum_bit_by_bit(data)


def test_the_longest_line_is_hashed_in_a_moment() -> None:
    line = os.urandom(1024 * 1024)
    begin = time.perf_counter()
    line_hash(line)
    assert time.perf_counter() - begin < 1.0  # some 5 ms; a loop over bytes takes 200 times as long


@pytest.mark.parametrize(
    ("data", "cursor"),
    [
        (None, None),
        (b"", None),
        (b"\n\n", None),
        (b"\0\0\0", None),
        (b"0", Counted(0, "")),
        (b"007", Counted(7, "")),
        (b"3 ", Counted(3, "")),
        (b"3 1-1\n", Counted(3, "1-1")),
        (b"3 1-1 x", Counted(3, "1-1 x")),
        (b" 3", ReadUpTo(" 3")),
        (b"3\n4", ReadUpTo("3\n4")),
        ("\u0663".encode(), ReadUpTo("\u0663")),
        (b"2026-01-01T00:00:00Z", ReadUpTo("2026-01-01T00:00:00Z")),
        (b"\xff", ReadUpTo("\ufffd")),
        (b"9" * 5000, Counted(10**18, "")),
    ],
)
def test_what_a_cursor_file_says(data: bytes | None, cursor: object) -> None:
    assert parse_cursor(data) == cursor


# The rule: the cases of unread.json are in test_unread.py

LINES = st.lists(
    st.sampled_from([b"", b"a", b"bb", b"\0", b'{"ts":"2026-01-01T00:00:00Z"}', b'{"ts":[]}', b"{"]),
    max_size=8,
)
TAILS = st.sampled_from([b"", b"half"])
CURSORS = st.one_of(
    st.none(),
    st.binary(max_size=20),
    st.integers(0, 12).map(lambda count: str(count).encode()),
    st.tuples(st.integers(0, 12), st.sampled_from([b"a", b"bb", b""])).map(
        lambda pair: cursor_text(*pair).encode()
    ),
    st.sampled_from([b"2025-01-01T00:00:00Z", b"2026-01-01T00:00:00Z", b"2027-01-01T00:00:00Z"]),
)


@given(LINES, TAILS, CURSORS)
def test_any_cursor_names_a_place_inside_the_inbox(
    lines: list[bytes], tail: bytes, cursor: bytes | None
) -> None:
    inbox = InboxLines.of(b"".join(line + b"\n" for line in lines) + tail)
    at = offset(parse_cursor(cursor), inbox)
    assert 0 <= at.lines <= inbox.total


@given(LINES, st.integers(0, 8))
def test_a_cursor_names_the_place_it_was_written_at(lines: list[bytes], count: int) -> None:
    count = min(count, len(lines))
    text = cursor_text(count, lines[count - 1] if count else b"")
    inbox = InboxLines.of(b"".join(line + b"\n" for line in lines))
    assert offset(parse_cursor(text.encode()), inbox) == Offset(count)


@given(
    st.lists(st.sampled_from([b"a", b"bb", b"ccc"]), min_size=1, max_size=6), st.sampled_from([b"d", None])
)
def test_a_line_that_is_cut_back_costs_one_step(lines: list[bytes], refiled: bytes | None) -> None:
    text = cursor_text(len(lines), lines[-1]).encode()
    after = lines[:-1] + ([refiled] if refiled else [])
    inbox = InboxLines.of(b"".join(line + b"\n" for line in after))
    assert offset(parse_cursor(text), inbox) == Offset(len(lines) - 1, cut_back=True)


def test_a_line_that_holds_a_nul_hashes_like_a_shells_copy_of_it() -> None:
    inbox = InboxLines.of(b"x\0y\n")
    assert offset(parse_cursor(cursor_text(1, b"xy").encode()), inbox) == Offset(1)


# The file


@pytest.fixture
def folder(tmp_path: Path) -> CommFolder:
    return CommFolder(str(tmp_path / "comm"))


def names(folder: CommFolder) -> list[str]:
    return [path.name for path in Path(folder.home, "read").iterdir()]


def test_what_is_written_is_read(folder: CommFolder) -> None:
    assert read_cursor(folder, "h") is None
    write_cursor(folder, "h", "1 1220704766-1")
    write_cursor(folder, "h", "2 2072780115-2")
    assert read_cursor(folder, "h") == b"2 2072780115-2"
    assert names(folder) == ["h.cursor"]


@on_posix
def test_the_cursor_and_its_folder_are_the_owners_alone(folder: CommFolder) -> None:
    before = os.umask(0)
    try:
        write_cursor(folder, "h", "0")
    finally:
        os.umask(before)
    path = Path(cursor_path(folder, "h"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@on_posix
def test_a_link_is_neither_followed_nor_written_through(folder: CommFolder, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("9")
    path = Path(cursor_path(folder, "h"))
    path.parent.mkdir(parents=True)
    path.symlink_to(elsewhere)
    assert read_cursor(folder, "h") == ReadFailed("is a symbolic link")
    write_cursor(folder, "h", "3")
    assert (read_cursor(folder, "h"), elsewhere.read_text()) == (b"3", "9")


@on_posix
@pytest.mark.parametrize("make", ["mkdir", "mkfifo"])
def test_what_is_no_file_is_told(folder: CommFolder, make: str) -> None:
    Path(folder.home, "read").mkdir(parents=True)
    getattr(os, make)(cursor_path(folder, "h"))
    assert read_cursor(folder, "h") == ReadFailed("is not a regular file")


def test_a_write_that_fails_leaves_the_old_cursor_and_no_litter(folder: CommFolder) -> None:
    class FullDisk(FileCalls):
        def flush(self, fd: int) -> None:
            raise OSError(28, "No space left on device")

    write_cursor(folder, "h", "3")
    with pytest.raises(OSError, match="No space"):
        write_cursor(folder, "h", "4", FullDisk())
    assert read_cursor(folder, "h") == b"3"
    assert names(folder) == ["h.cursor"]


def test_a_path_is_made_of_a_handle_only(folder: CommFolder) -> None:
    for handle in ("../h", "a/b", "", "\0"):
        with pytest.raises(ValueError, match="not a handle"):
            write_cursor(folder, handle, "0")
