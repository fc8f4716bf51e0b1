"""Writing inbox-lock-manager at the start of a daemon."""

import logging
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from filing.comm_folder import CommFolder, FileCalls
from filing.lock_manager import LockRecord, Role
from filing.lock_record import RecordFate, RecordStart, read_record, start_record
from tests.filing.support import on_posix


@pytest.fixture
def folder(tmp_path: Path) -> CommFolder:
    return CommFolder(str(tmp_path / "home"))


def start(folder: CommFolder, own: str = "local m", machine_id: str | None = "m", **how: Any) -> RecordStart:
    return start_record(folder, how.pop("role", Role.HUB), own, machine_id, **how)


def names(folder: CommFolder) -> list[str]:
    return sorted(path.name for path in Path(folder.home).iterdir())


def write(folder: CommFolder, text: str) -> None:
    Path(folder.home).mkdir(exist_ok=True, parents=True)
    Path(folder.lock_record).write_text(text, encoding="utf-8", newline="")


def test_a_hub_makes_the_folder_and_the_record(folder: CommFolder) -> None:
    result = start(folder)
    assert result.fate is RecordFate.CREATED
    assert result.level == logging.INFO
    assert Path(folder.lock_record).read_bytes() == b"local m\nm\n"
    assert names(folder) == ["inbox", "inbox-lock-manager"]


@on_posix
def test_the_record_is_private(folder: CommFolder) -> None:
    start(folder)
    assert stat.S_IMODE(Path(folder.lock_record).stat().st_mode) == 0o600


def test_a_record_that_names_this_manager_is_left_alone(folder: CommFolder) -> None:
    write(folder, "local m\r\nanother machine\r\n")
    assert start(folder).fate is RecordFate.CURRENT
    assert Path(folder.lock_record).read_bytes() == b"local m\r\nanother machine\r\n"


def test_after_a_remount_the_hub_replaces_its_own_record(folder: CommFolder) -> None:
    write(folder, "none@m\nm\n")
    result = start(folder)
    assert result.fate is RecordFate.REPLACED
    assert result.level == logging.WARNING
    assert "'none@m'" in result.line
    assert Path(folder.lock_record).read_bytes() == b"local m\nm\n"
    assert names(folder) == ["inbox", "inbox-lock-manager"]


def test_another_machines_record_is_left_and_logged_as_an_error(folder: CommFolder) -> None:
    write(folder, "local x\nx\n")
    result = start(folder)
    assert result.fate is RecordFate.KEPT
    assert result.level == logging.ERROR
    assert "'local x', written by machine x" in result.line
    assert Path(folder.lock_record).read_bytes() == b"local x\nx\n"


def test_a_guest_touches_nothing(folder: CommFolder) -> None:
    assert start(folder, role=Role.GUEST).fate is RecordFate.KEPT
    assert not Path(folder.home).exists()


def test_without_a_machine_id_nothing_is_written(folder: CommFolder) -> None:
    result = start(folder, own="none", machine_id=None)
    assert result.fate is RecordFate.KEPT
    assert result.level == logging.ERROR
    assert "/etc/machine-id" in result.line
    assert read_record(folder) is None


def test_the_loser_of_a_race_reads_the_winners_record(folder: CommFolder) -> None:
    class OtherDaemonFirst(FileCalls):
        def flush(self, fd: int) -> None:
            # Between this daemon's read and its link.
            if not Path(folder.lock_record).exists():
                write(folder, "local x\nx\n")
            super().flush(fd)

    result = start(folder, files=OtherDaemonFirst())
    assert result.fate is RecordFate.KEPT
    assert read_record(folder) == LockRecord("local x", "x")
    assert names(folder) == ["inbox", "inbox-lock-manager"]


def test_a_link_that_was_made_and_answered_exists_is_ours(
    folder: CommFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def retransmitted(source: str, target: str) -> None:
        link(source, target)
        raise FileExistsError

    monkeypatch.setattr(os, "link", retransmitted)
    assert start(folder).fate is RecordFate.CREATED
    assert read_record(folder) == LockRecord("local m", "m")


def test_a_start_that_cannot_write_says_so_and_goes_on(folder: CommFolder) -> None:
    class FullDisk(FileCalls):
        def write(self, fd: int, data: memoryview) -> int:
            raise OSError(28, "No space left on device")

    result = start(folder, files=FullDisk())
    assert result.fate is RecordFate.FAILED
    assert result.level == logging.ERROR
    assert "No space left on device" in result.line
    assert names(folder) == ["inbox"]


def test_a_colon_in_the_machine_id_is_no_part_of_a_file_name(folder: CommFolder) -> None:
    seen = []

    class Watch(FileCalls):
        def open(self, path: str, flags: int, mode: int) -> int:
            seen.append(Path(path).name)
            return super().open(path, flags, mode)

    start(folder, own="local a:b", machine_id="a:b", files=Watch())
    assert len(seen) == 1
    assert seen[0].startswith(f".inbox-lock-manager.a.b.{os.getpid()}.")
    assert read_record(folder) == LockRecord("local a:b", "a:b")
