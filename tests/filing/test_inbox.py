"""The append: whole lines, flushed, or nothing; whatever fails, and wherever it is killed."""

import errno
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filing.comm_folder import CommFolder, FileCalls, make_private_folder
from filing.inbox import Appended, AppendFailed, Inboxes, inbox_line
from filing.liveness import utc_stamp
from tests.filing.support import case_name, from_base64, on_posix, table


def line(text: str) -> bytes:
    return inbox_line(sender="s", to="h", text=text, broadcast=False, stamp="2026-01-01T00:00:00Z")


class Place:
    """One inbox, for appends without the lock: these tests are its only writers."""

    def __init__(self, home: Path) -> None:
        self.folder = CommFolder(str(home))
        make_private_folder(self.folder.inboxes)
        self.path = Path(self.folder.inbox("h"))

    def append(self, *lines: bytes, calls: FileCalls | None = None) -> Appended | AppendFailed:
        return Inboxes(self.folder, calls or FileCalls()).append("h", lines)

    def bytes(self) -> "bytes | None":
        return self.path.read_bytes() if self.path.exists() else None


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("case", table("append", "cases"), ids=case_name)
def test_a_dead_writers_half_line_is_cut_back_first(
    case: dict[str, Any], place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    before = from_base64(case["before_b64"])
    if before is not None:
        place.path.write_bytes(before)
    assert place.append(case["line"].encode() + b"\n") == Appended(case["cut_bytes"])
    assert place.bytes() == from_base64(case["after_b64"])
    if case["cut_bytes"]:
        (record,) = caplog.records
        assert record.levelno == logging.WARNING
        assert record.getMessage().startswith(f"inbox/h.jsonl: cut back {case['cut_bytes']} bytes")


@pytest.mark.parametrize("case", table("wire", "inbox_line"), ids=lambda case: repr(case["text"]))
def test_the_bytes_of_a_line(case: dict[str, Any]) -> None:
    (context,) = table("wire", "comm_file_context")
    made = inbox_line(
        sender=case["from"],
        to=case["to"],
        text=case["text"],
        broadcast=case["broadcast"],
        stamp=context["now"],
    )
    assert made == case["line"].encode()
    assert utc_stamp(1790000000) == context["now"]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_line_is_one_line_and_gives_the_text_back(text: str) -> None:
    made = line(text)
    assert made.count(b"\n") == 1
    assert json.loads(made)["msg"] == text


@given(st.lists(st.text(max_size=20), max_size=5), st.data())
@settings(deadline=None, max_examples=60)
def test_any_cut_of_a_file_leaves_whole_lines(texts: list[str], data: st.DataObject) -> None:
    import tempfile

    whole = b"".join(line(text.encode("utf-8", "replace").decode()) for text in texts)
    cut = data.draw(st.integers(0, len(whole)))
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder))
        place.path.write_bytes(whole[:cut])
        kept = whole[: whole[:cut].rfind(b"\n") + 1]
        assert place.append(line("new")) == Appended(cut - len(kept))
        assert place.bytes() == kept + line("new")


def test_a_tail_longer_than_a_block_is_searched_to_its_newline(place: Place) -> None:
    place.path.write_bytes(line("a") + b"x" * 200_000)
    assert place.append(line("b")) == Appended(200_000)
    assert place.bytes() == line("a") + line("b")


# Faults


class Faulty(FileCalls):
    """Counts calls, and does `fault` instead of the one numbered `at`."""

    def __init__(self, at: int, fault: Callable[[str], OSError | BaseException | None]) -> None:
        self.at = at
        self.fault = fault
        self.calls: list[str] = []
        self.dead: BaseException | None = None

    def step(self, name: str) -> None:
        if self.dead is not None:
            raise self.dead  # a killed process makes no more calls, in whatever `finally`
        self.calls.append(name)
        if len(self.calls) == self.at:
            error = self.fault(name)
            if error is not None and not isinstance(error, OSError):
                self.dead = error
            if error is not None:
                raise error

    def open(self, path: str, flags: int, mode: int) -> int:
        self.step("create" if flags & os.O_CREAT else "open")
        return super().open(path, flags, mode)

    def fstat(self, fd: int) -> os.stat_result:
        self.step("fstat")
        return super().fstat(fd)

    def seek(self, fd: int, offset: int, whence: int) -> int:
        self.step("seek")
        return super().seek(fd, offset, whence)

    def read(self, fd: int, size: int) -> bytes:
        self.step("read")
        return super().read(fd, size)

    def write(self, fd: int, data: memoryview) -> int:
        self.step("write")
        return super().write(fd, data)

    def truncate(self, fd: int, size: int) -> None:
        self.step("truncate")
        super().truncate(fd, size)

    def flush(self, fd: int) -> None:
        self.step("flush")
        super().flush(fd)

    def flush_folder(self, path: str) -> None:
        self.step("flush folder")
        super().flush_folder(path)

    def close(self, fd: int) -> None:
        super().close(fd)  # Linux frees the descriptor whatever close answers
        self.step("close")


BEFORE = {
    "no file": None,
    "empty": b"",
    "whole lines": line("1") + line("2"),
    "a dead writer's tail": line("1") + b'{"from":',
}
KEPT = {"no file": b"", "empty": b"", "whole lines": line("1") + line("2"), "a dead writer's tail": line("1")}


def prepared(tmp_path: Path, before: str) -> Place:
    place = Place(tmp_path)
    data = BEFORE[before]
    if data is not None:
        place.path.write_bytes(data)
    return place


def call_names(tmp_path: Path, before: str) -> list[str]:
    counter = Faulty(0, lambda _: None)
    assert isinstance(prepared(tmp_path, before).append(line("x"), line("y"), calls=counter), Appended)
    return counter.calls


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_any_call_that_fails_leaves_nothing_added(tmp_path: Path, before: str, number: int) -> None:
    names = call_names(tmp_path / "dry", before)
    assert {"write", "flush", "close", "flush folder"} <= set(names)
    for at, name in enumerate(names, 1):
        place = prepared(tmp_path / str(at), before)
        result = place.append(
            line("x"), line("y"), calls=Faulty(at, lambda _: OSError(number, os.strerror(number)))
        )
        assert isinstance(result, AppendFailed), name
        assert result.clean
        assert errno.errorcode[number] in result.why
        assert (place.bytes() or b"") in {KEPT[before], BEFORE[before] or b""}, name
        assert isinstance(place.append(line("z")), Appended)
        assert place.bytes() == KEPT[before] + line("z")


class ShortWrites(FileCalls):
    """Each write takes a few bytes; the disk is full after `room` of them."""

    def __init__(self, room: int, step: int = 7) -> None:
        self.room = room
        self.step = step
        self.flushes = 0

    def write(self, fd: int, data: memoryview) -> int:
        size = min(self.room, self.step, len(data))
        if size == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= size
        return super().write(fd, data[:size])

    def flush(self, fd: int) -> None:
        self.flushes += 1
        super().flush(fd)


def test_short_writes_go_on_to_the_end(place: Place) -> None:
    assert place.append(line("x"), line("y"), calls=ShortWrites(10_000)) == Appended()
    assert place.bytes() == line("x") + line("y")


def test_a_disk_that_fills_up_at_any_byte_leaves_nothing_added(place: Place) -> None:
    place.append(line("1"))
    size = len(line("x") + line("y"))
    for room in range(size):
        calls = ShortWrites(room, step=size)
        result = place.append(line("x"), line("y"), calls=calls)
        assert isinstance(result, AppendFailed)
        assert result.no_room
        assert calls.flushes == 1, "the cut-back is flushed"
        assert place.bytes() == line("1")


def test_a_cut_back_that_fails_too_is_told(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    class NoTruncate(ShortWrites):
        def truncate(self, fd: int, size: int) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    result = place.append(line("x"), calls=NoTruncate(5))
    assert isinstance(result, AppendFailed)
    assert not result.clean
    assert "No space left on device" in result.why
    assert "cutting it back failed too" in result.why
    assert "may be in the inbox" in result.why
    assert caplog.records[-1].levelno == logging.ERROR
    assert place.append(line("z")) == Appended(5), "the next append cuts the half line back"
    assert place.bytes() == line("z")


def test_no_log_line_holds_text_of_a_message(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    place.path.write_bytes(b'{"msg":"secret-tail')
    place.append(line("secret-new"), calls=ShortWrites(20))
    assert caplog.records
    assert "secret" not in caplog.text


# Killed


class KilledError(BaseException):
    """No `except OSError` catches it, as nothing runs in a process that kill -9 ended."""


@pytest.mark.parametrize("before", BEFORE)
def test_killed_at_any_call_the_next_append_leaves_whole_lines(tmp_path: Path, before: str) -> None:
    for at, name in enumerate(call_names(tmp_path / "dry", before), 1):
        place = prepared(tmp_path / str(at), before)
        with pytest.raises(KilledError):
            place.append(line("x"), line("y"), calls=Faulty(at, lambda _: KilledError()))
        assert isinstance(place.append(line("z")), Appended)
        data = place.bytes()
        # Lines nobody was told of may be there, whole and in order; those before and after are.
        assert data in {KEPT[before] + line("z"), KEPT[before] + line("x") + line("y") + line("z")}, name


@on_posix
@pytest.mark.parametrize("before", BEFORE)
def test_a_process_that_really_dies_at_any_call(tmp_path: Path, before: str) -> None:
    count = len(call_names(tmp_path / "dry", before))
    places = [prepared(tmp_path / str(at), before) for at in range(1, count + 1)]
    homes = [place.folder.home for place in places]
    command = [sys.executable, "-m", "tests.filing.die_at", *homes]
    subprocess.run(command, check=True, timeout=60)
    for place in places:
        assert isinstance(place.append(line("z")), Appended)
        data = place.bytes()
        assert data in {KEPT[before] + line("z"), KEPT[before] + line("x") + line("y") + line("z")}


# Names


def test_a_new_file_is_flushed_into_its_folder_before_the_answer(place: Place) -> None:
    calls = Faulty(0, lambda _: None)
    inboxes = Inboxes(place.folder, calls)
    inboxes.append("h", [line("1")])
    assert calls.calls.count("flush folder") == 2, "inbox/, and once the home that holds its name"
    inboxes.append("h", [line("2")])
    assert calls.calls.count("flush folder") == 2
    inboxes.append("g", [line("1")])
    assert calls.calls.count("flush folder") == 3


def test_a_file_that_a_dead_process_made_is_flushed_into_its_folder_too(place: Place) -> None:
    place.path.write_bytes(b"")
    calls = Faulty(0, lambda _: None)
    place.append(line("1"), calls=calls)
    assert "flush folder" in calls.calls


def test_a_replaced_file_is_flushed_into_its_folder_again(place: Place) -> None:
    calls = Faulty(0, lambda _: None)
    inboxes = Inboxes(place.folder, calls)
    inboxes.append("h", [line("1")])
    Path(place.path).replace(place.path.with_suffix(".old"))
    inboxes.append("h", [line("2")])
    assert calls.calls.count("flush folder") == 3
    assert place.bytes() == line("2")


def test_what_is_flushed_comes_before_what_is_answered(place: Place) -> None:
    calls = Faulty(0, lambda _: None)
    place.append(line("1"), calls=calls)
    written = calls.calls.index("write")
    assert calls.calls[written:] == ["write", "flush", "flush folder", "flush folder", "close"]
