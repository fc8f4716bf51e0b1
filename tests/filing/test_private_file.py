"""The comm folder's small files: replaced whole and flushed, whatever stood there and whatever the umask."""

import os
import stat
from pathlib import Path

import pytest

from filing.comm_folder import FileCalls, UnfitFileError
from filing.private_file import read_private, replace_private
from tests.filing.support import on_posix


class Recording(FileCalls):
    def __init__(self) -> None:
        self.done: list[str] = []

    def write(self, fd: int, data: memoryview) -> int:
        self.done.append("write")
        return super().write(fd, data[:2])  # a short write is no failure

    def flush(self, fd: int) -> None:
        self.done.append("flush")
        super().flush(fd)

    def close(self, fd: int) -> None:
        self.done.append("close")
        super().close(fd)

    def flush_folder(self, path: str) -> None:
        self.done.append(f"flush {Path(path).name}: {sorted(found.name for found in Path(path).iterdir())}")
        super().flush_folder(path)


def test_the_bytes_are_on_the_disk_before_the_name_and_the_name_before_the_end(tmp_path: Path) -> None:
    calls = Recording()
    replace_private(str(tmp_path / "file"), b"abcd", calls)
    assert calls.done == ["write", "write", "flush", "close", f"flush {tmp_path.name}: ['file']"]
    assert read_private(str(tmp_path / "file")) == b"abcd"


@on_posix
def test_the_umask_takes_nothing_and_gives_nothing(tmp_path: Path) -> None:
    for umask in (0o777, 0o000):
        path = tmp_path / "file"
        before = os.umask(umask)
        try:
            replace_private(str(path), b"x")
        finally:
            os.umask(before)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_missing_file_is_none_and_an_empty_one_is_empty(tmp_path: Path) -> None:
    assert read_private(str(tmp_path / "file")) is None
    (tmp_path / "file").touch()
    assert read_private(str(tmp_path / "file")) == b""


def test_a_folder_in_the_files_place_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(OSError, match=r"is not a regular file|Permission") as told:
        read_private(str(tmp_path / "file"))
    assert isinstance(told.value, UnfitFileError) or os.name == "nt"
    with pytest.raises(OSError):
        replace_private(str(tmp_path / "file"), b"x")
    assert [found.name for found in tmp_path.iterdir()] == ["file"]
