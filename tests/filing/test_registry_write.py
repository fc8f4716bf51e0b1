"""One writer at a time, the whole registry or nothing, and what each failing call leaves behind."""

import errno
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from filing.comm_folder import FileCalls
from filing.comm_home import HomeNotReady, HomeReady, ensure_home
from filing.fresh_read import ReadCalls
from filing.registry_lock.lock import LockCalls
from filing.registry_lock.record import LOCK_NAME
from filing.registry_row import Absent, Present, RowAnswer, Unreadable, read_row
from filing.registry_write import (
    NOT_UPDATED,
    Document,
    NotWritten,
    Unchanged,
    WriteCalls,
    Written,
    touch_last_seen,
    update_registry,
)
from tests.filing.support import Home, case_name, from_base64, on_posix, table

NOW = 1_780_000_000.0
NOW_STAMP = "2026-05-28T20:26:40Z"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return Home(tmp_path).path


def fill(home: Path, text: str) -> Path:
    path = home / "registry.json"
    path.write_text(text, encoding="utf-8")
    return path


def join_h(document: Document) -> Document:
    document["agents"]["h"] = {"host": "box"}
    return document


def refused(text: str, why: str = "") -> NotWritten:
    return NotWritten(text, why)


# What is written

BEFORE = '{"agents":{"z":{"later":[1,{"ü":1.50}],"host":"b"},"a":null},"other":true,"protocol_version":2}'


def test_what_the_change_does_not_touch_stays_in_its_order(home: Path) -> None:
    path = fill(home, BEFORE)
    assert update_registry(str(home), join_h) == Written()
    text = path.read_text(encoding="utf-8")
    expected = json.loads(BEFORE)
    expected["agents"]["h"] = {"host": "box"}
    assert json.loads(text) == expected
    assert list(json.loads(text)) == ["agents", "other", "protocol_version"]
    assert list(json.loads(text)["agents"]) == ["z", "a", "h"]
    assert "ü" in text


def test_the_file_is_laid_out_as_jq_does_it(home: Path) -> None:
    path = fill(home, '{"protocol_version":1,"agents":{}}')
    update_registry(str(home), join_h)
    assert path.read_bytes() == (
        b'{\n  "protocol_version": 1,\n  "agents": {\n    "h": {\n      "host": "box"\n    }\n  }\n}\n'
    )


@on_posix
def test_the_file_is_its_owners_alone_and_nothing_else_is_left(home: Path) -> None:
    path = fill(home, '{"agents":{}}')
    path.chmod(0o644)
    before = os.umask(0)
    try:
        update_registry(str(home), join_h)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in home.iterdir()] == ["registry.json"]


def test_a_dead_writers_temp_file_is_in_nobodys_way(home: Path) -> None:
    fill(home, '{"agents":{}}')
    (home / "registry.json.tmp").write_text('{"agents":{"half', encoding="utf-8")
    assert update_registry(str(home), join_h) == Written()
    assert not (home / "registry.json.tmp").exists()


def test_a_change_that_asks_for_nothing_writes_nothing(home: Path) -> None:
    path = fill(home, BEFORE)
    assert update_registry(str(home), lambda document: None) == Unchanged()
    assert path.read_text(encoding="utf-8") == BEFORE


def test_the_change_runs_with_the_lock_held(home: Path) -> None:
    fill(home, '{"agents":{}}')
    held: list[bool] = []

    def change(document: Document) -> None:
        held.append((home / LOCK_NAME).exists())

    update_registry(str(home), change)
    assert held == [True]


def test_a_change_that_fails_writes_nothing_and_lets_go(home: Path) -> None:
    path = fill(home, BEFORE)

    def change(document: Document) -> Document:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        update_registry(str(home), change)
    assert path.read_text(encoding="utf-8") == BEFORE
    assert [entry.name for entry in home.iterdir()] == ["registry.json"]


# What is never written over

UNREADABLE = [
    case
    for case in table("registry_read", "cases")
    if case["read"] == "unreadable" or case.get("arms_differ")
]


@pytest.mark.parametrize("case", UNREADABLE, ids=case_name)
def test_an_unreadable_registry_is_never_written_over(case: dict[str, Any], home: Path) -> None:
    path = home / "registry.json"
    data = from_base64(case["bytes_b64"])
    if case["exists"] == "dir":
        path.mkdir()
    elif data is not None:
        path.write_bytes(data)
    answer = update_registry(str(home), join_h, calls=Calls())
    assert isinstance(answer, NotWritten)
    assert answer.sentence == NOT_UPDATED
    assert answer.why
    if data is not None:
        assert path.read_bytes() == data
    elif case["exists"] is False:
        assert not path.exists()
    assert not (home / LOCK_NAME).exists()


class NoPause(ReadCalls):
    def pause(self, seconds: float) -> None:
        pass


class Calls(WriteCalls):
    """The real folder, where a failing read is tried again at once."""

    reads = NoPause()


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "made",
    [
        {"agents": {}, "x": float("nan")},
        {"agents": {}, "x": {1, 2}},
        {"agents": {}, "x": "\udc80"},
        {"agents": {}, "x": nested(130)},
        {"agents": {}, "x": nested(100_000)},
        {"agents": []},
        {},
    ],
    ids=["NaN", "a set", "half a pair", "too deep", "far too deep", "agents a list", "no agents"],
)
def test_a_change_that_would_make_the_registry_unreadable_is_not_written(made: Document, home: Path) -> None:
    path = fill(home, BEFORE)
    answer = update_registry(str(home), lambda document: made)
    assert isinstance(answer, NotWritten)
    assert answer.sentence == NOT_UPDATED
    assert answer.why
    assert path.read_text(encoding="utf-8") == BEFORE


def test_a_lock_that_was_not_taken_is_the_answer(home: Path) -> None:
    fill(home, BEFORE)
    (home / LOCK_NAME).mkdir()
    answer = update_registry(str(home), join_h, 0)
    assert isinstance(answer, NotWritten)
    assert "held by an older version" in answer.sentence


# Calls that fail


class FailingFiles(FileCalls):
    """One call fails on registry.json.tmp, or on any of its names' folders."""

    def __init__(self, call: str, number: int) -> None:
        self.call = call
        self.number = number
        self.ours = -1

    def _fail(self, call: str, ours: bool) -> None:
        if call == self.call and ours:
            raise OSError(self.number, os.strerror(self.number))

    def open(self, path: str, flags: int, mode: int) -> int:
        ours = path.endswith("registry.json.tmp")
        self._fail("open", ours)
        fd = super().open(path, flags, mode)
        self.ours = fd if ours else -1
        return fd

    def write(self, fd: int, data: memoryview) -> int:
        if self.call == "write" and fd == self.ours:
            super().write(fd, data[:5])
        self._fail("write", fd == self.ours)
        return super().write(fd, data)

    def flush(self, fd: int) -> None:
        self._fail("flush", fd == self.ours)
        super().flush(fd)

    def flush_folder(self, path: str) -> None:
        self._fail("flush_folder", True)
        super().flush_folder(path)


@pytest.mark.parametrize("call", ["open", "write", "flush"])
def test_bytes_that_do_not_reach_the_disk_are_never_renamed_into_place(call: str, home: Path) -> None:
    path = fill(home, BEFORE)
    calls = Calls()
    calls.files = FailingFiles(call, errno.ENOSPC)
    assert update_registry(str(home), join_h, calls=calls) == refused(
        "the registry update could not be flushed (No space left on device (ENOSPC)), so nothing was written"
    )
    assert path.read_text(encoding="utf-8") == BEFORE
    assert [entry.name for entry in home.iterdir()] == ["registry.json"]


def test_short_writes_are_gone_on_with(home: Path) -> None:
    class Short(FileCalls):
        def write(self, fd: int, data: memoryview) -> int:
            return super().write(fd, data[:3])

    path = fill(home, BEFORE)
    calls = Calls()
    calls.files = Short()
    assert update_registry(str(home), join_h, calls=calls) == Written()
    assert json.loads(path.read_text(encoding="utf-8"))["agents"]["h"] == {"host": "box"}


def test_a_rename_that_fails_leaves_the_registry(home: Path) -> None:
    class Unrenamed(Calls):
        def rename(self, source: str, target: str) -> None:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    path = fill(home, BEFORE)
    assert update_registry(str(home), join_h, calls=Unrenamed()) == refused(
        "the registry update could not be renamed into place (Read-only file system (EROFS)), "
        "so nothing was written"
    )
    assert path.read_text(encoding="utf-8") == BEFORE
    assert [entry.name for entry in home.iterdir()] == ["registry.json"]


def test_a_folder_that_cannot_be_flushed_holds_the_new_registry_all_the_same(home: Path) -> None:
    fill(home, BEFORE)
    calls = Calls()
    calls.files = FailingFiles("flush_folder", errno.EIO)
    assert update_registry(str(home), join_h, calls=calls) == Written()
    assert isinstance(read_row(str(home), "h"), Present)


def test_an_update_reads_past_a_stale_handle(home: Path) -> None:
    """An NFS client can get ESTALE after its open: the file is opened again by its path."""

    class StaleOnce(NoPause):
        left = 1

        def read(self, fd: int, size: int) -> bytes:
            if self.left and not os.fstat(fd).st_size == 0:
                self.left -= 1
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
            return super().read(fd, size)

    fill(home, BEFORE)
    calls = Calls()
    calls.reads = StaleOnce()
    assert update_registry(str(home), join_h, calls=calls) == Written()


# last_seen


def test_a_touch_merges_the_stamp_into_the_row(home: Path) -> None:
    path = fill(home, '{"agents":{"h":{"host":"box","last_seen":"old","later":1},"g":{"host":"box"}}}')
    assert touch_last_seen(str(home), "h", NOW + 0.9) == Written()
    assert json.loads(path.read_text())["agents"] == {
        "h": {"host": "box", "last_seen": NOW_STAMP, "later": 1},
        "g": {"host": "box"},
    }


@pytest.mark.parametrize("agents", ["{}", '{"h":null}', '{"h":"x"}'])
def test_a_touch_never_makes_a_row(agents: str, home: Path) -> None:
    text = f'{{"agents":{agents}}}'
    path = fill(home, text)
    assert touch_last_seen(str(home), "h", NOW) == Unchanged()
    assert path.read_text() == text


def test_a_touch_that_fails_is_an_answer(home: Path) -> None:
    assert isinstance(touch_last_seen(str(home), "h", NOW), NotWritten)


# The read in three answers


@pytest.mark.parametrize("case", table("registry_read", "cases"), ids=case_name)
def test_a_row_is_present_absent_or_unreadable(case: dict[str, Any], home: Path) -> None:
    path = home / "registry.json"
    data = from_base64(case["bytes_b64"])
    if case["exists"] == "dir":
        path.mkdir()
    elif data is not None:
        path.write_bytes(data)
    answer = read_row(str(home), case["handle"], NoPause())
    expected: dict[str, RowAnswer] = {"present": Present(case["row"]), "absent": Absent()}
    if case.get("arms_differ"):  # jq reads past these; a reader as strict as the daemon does not
        assert isinstance(answer, Unreadable)
    elif case["read"] == "unreadable":
        assert isinstance(answer, Unreadable)
        assert answer.why
    else:
        assert answer == expected[case["read"]]


# The comm folder at a join


def modes(folder: Path) -> dict[str, int]:
    entries = [folder, *folder.rglob("*")]
    return {
        str(p.relative_to(folder)): stat.S_IMODE(p.lstat().st_mode) for p in entries if not p.is_symlink()
    }


@on_posix
def test_a_new_comm_folder_is_private_and_has_an_empty_registry(tmp_path: Path) -> None:
    home = tmp_path / "deep" / "comm"
    before = os.umask(0)
    try:
        assert ensure_home(str(home)) == HomeReady()
    finally:
        os.umask(before)
    assert modes(home) == {
        **dict.fromkeys([".", "inbox", "read", "self", "state"], 0o700),
        "registry.json": 0o600,
    }
    assert json.loads((home / "registry.json").read_text()) == {"protocol_version": 1, "agents": {}}


@pytest.mark.parametrize("text", ["", "hello", '{"agents":{"h":{}}}'])
def test_a_registry_that_is_there_is_never_replaced_or_repaired(home: Path, text: str) -> None:
    path = fill(home, text)
    assert ensure_home(str(home)) == HomeReady()
    assert path.read_text(encoding="utf-8") == text
    assert not list(home.glob("registry.json.*"))


def test_of_two_first_joins_one_makes_the_registry(home: Path) -> None:
    class Late(LockCalls):
        def link(self, source: str, target: str) -> None:
            fill(home, '{"agents":{"first":{}}}')
            super().link(source, target)

    assert ensure_home(str(home), calls=Late()) == HomeReady()
    assert isinstance(read_row(str(home), "first"), Present)
    assert not list(home.glob("registry.json.*"))


@on_posix
def test_an_older_folders_entries_are_closed_and_nothing_else_is_touched(home: Path) -> None:
    ours_files = [
        "registry.json",
        "registry.json.tmp",
        "registry.json.new.1.2",
        ".registry.lock",
        ".registry.lock.reclaim.a.b.c.d.1.2",
        ".registry.lock.tmp.a.b.c.d.1.2",
        "inbox-lock-manager",
        ".inbox-lock-manager.m.1.2",
        "gh-device-auth.json",
        "inbox/h.jsonl",
        "inbox/h.lock",
        "read/h.cursor",
        "self/b__w.txt",
        "state/mail-k.tick",
        "state/anything",
    ]
    ours_folders = [".", "inbox", "read", "self", "state", "probe", "probe/h"]
    others_files = [
        "VERSION",
        "bin/comm-send.sh",
        "notes.txt",
        "inbox/notes.txt",
        "probe/h/code.py",
        "probe/file",
    ]
    others_folders = ["bin", "elsewhere", "inbox/deep"]
    for folder in [*ours_folders, *others_folders]:
        (home / folder).mkdir(parents=True, exist_ok=True)
    for file in [*ours_files, *others_files]:
        (home / file).write_text("{}")
    for path in home.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    home.chmod(0o755)
    (home / "self" / "link.txt").symlink_to(home / "notes.txt")
    assert ensure_home(str(home)) == HomeReady()
    assert modes(home) == {
        **dict.fromkeys(ours_folders, 0o700),
        **dict.fromkeys(ours_files, 0o600),
        **dict.fromkeys(others_folders, 0o755),
        **dict.fromkeys(others_files, 0o644),
    }


@on_posix
def test_a_layout_folder_that_is_a_link_is_not_followed(home: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    (outside / "h.jsonl").write_text("")
    (outside / "h.jsonl").chmod(0o644)
    outside.chmod(0o755)
    (home / "inbox").symlink_to(outside)
    assert ensure_home(str(home)) == HomeReady()
    assert modes(outside) == {".": 0o755, "h.jsonl": 0o644}


@on_posix
def test_a_comm_folder_reached_by_a_link_is_closed(home: Path, tmp_path: Path) -> None:
    fill(home, BEFORE).chmod(0o644)
    home.chmod(0o755)
    (tmp_path / "link").symlink_to(home)
    assert ensure_home(str(tmp_path / "link")) == HomeReady()
    assert modes(home)["registry.json"] == 0o600
    assert modes(home)["."] == 0o700


@on_posix
def test_a_folder_that_serves_other_ends_keeps_its_modes(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.chmod(0o755)
    (home / ".git").mkdir()
    answer = ensure_home(str(home))
    assert isinstance(answer, HomeReady)
    assert "a git checkout" in answer.warnings[0]
    (home / ".git").rmdir()
    monkeypatch.setenv("HOME", str(home))
    answer = ensure_home(str(home))
    assert isinstance(answer, HomeReady)
    assert "a home folder" in answer.warnings[0]
    assert stat.S_IMODE(home.stat().st_mode) == 0o755


@on_posix
def test_an_entry_that_cannot_be_closed_is_a_warning(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_ours(path: str, mode: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    fill(home, BEFORE).chmod(0o644)
    ensure_home(str(home))
    (home / "registry.json").chmod(0o644)
    monkeypatch.setattr(os, "chmod", not_ours)
    assert ensure_home(str(home)) == HomeReady(
        (f"{home}/registry.json could not be made private: Operation not permitted (EPERM)",)
    )


def test_without_hard_links_there_is_no_registry(home: Path) -> None:
    class NoLinks(LockCalls):
        def link(self, source: str, target: str) -> None:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    assert ensure_home(str(home), calls=NoLinks()) == HomeNotReady(
        f"cannot hard-link in {home}: Operation not permitted (EPERM)"
    )
    assert not list(home.glob("registry.json*"))


@pytest.mark.parametrize(("call", "number"), [("write", errno.ENOSPC), ("flush", errno.EIO)])
def test_a_skeleton_that_does_not_reach_the_disk_is_not_published(home: Path, call: str, number: int) -> None:
    class Failing(FailingFiles):
        def open(self, path: str, flags: int, mode: int) -> int:
            self.ours = super().open(path, flags, mode)
            return self.ours

    calls = LockCalls()
    calls.files = Failing(call, number)
    answer = ensure_home(str(home), calls=calls)
    assert isinstance(answer, HomeNotReady)
    assert answer.sentence.endswith(f"({errno.errorcode[number]})")
    assert not list(home.glob("registry.json*"))


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_comm_folder_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    answer = ensure_home(str(tmp_path / "comm"))
    assert isinstance(answer, HomeNotReady)
    assert "Permission denied (EACCES)" in answer.sentence
