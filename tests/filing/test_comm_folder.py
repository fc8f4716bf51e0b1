"""What this daemon makes is 0700 or 0600, and it writes through nothing but plain files of its own."""

import errno
import os
import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from filing.comm_folder import CommFolder, UnfitFileError, file_error_text, make_private_folder, open_private
from tests.filing.support import on_posix

pytestmark = on_posix


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o277, 0o777])
def test_the_umask_decides_nothing(tmp_path: Path, mask: int) -> None:
    folder = tmp_path / "home" / "inbox"
    with umask(mask):
        make_private_folder(str(folder))
        fd, _ = open_private(str(folder / "h.jsonl"))
        os.close(fd)
    assert mode(tmp_path / "home") == 0o700
    assert mode(folder) == 0o700
    assert mode(folder / "h.jsonl") == 0o600


def test_a_folder_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_private_folder(str(tmp_path))
    assert mode(tmp_path) == 0o755


def test_a_child_process_does_not_inherit_the_descriptor(tmp_path: Path) -> None:
    fd, _ = open_private(str(tmp_path / "f"))
    assert not os.get_inheritable(fd)
    os.close(fd)


def make(kind: str, path: Path) -> None:
    if sys.platform == "win32":
        return
    other = path.parent / "other"
    match kind:
        case "a symbolic link":
            other.write_bytes(b"")
            path.symlink_to(other)
        case "a dangling symbolic link":
            path.symlink_to(other)
        case "a hard link":
            other.write_bytes(b"")
            path.hardlink_to(other)
        case "a folder":
            path.mkdir()
        case "a FIFO":
            os.mkfifo(path)
        case "a socket":
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(path))
        case _:
            raise AssertionError(kind)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("a symbolic link", "is a symbolic link"),
        ("a dangling symbolic link", "is a symbolic link"),
        ("a hard link", "has a second name (a hard link)"),
        ("a folder", "is a folder"),
        ("a FIFO", "is a FIFO"),
        ("a socket", "is a socket"),
    ],
)
def test_what_is_no_plain_file_is_refused_by_its_name(tmp_path: Path, kind: str, words: str) -> None:
    path = tmp_path / "h.jsonl"
    make(kind, path)
    with pytest.raises(UnfitFileError) as refused:
        open_private(str(path))
    assert file_error_text("inbox/h.jsonl", refused.value) == f"inbox/h.jsonl {words}"
    if kind == "a dangling symbolic link":
        assert not (tmp_path / "other").exists()


def test_a_device_is_refused() -> None:
    with pytest.raises(UnfitFileError, match="is a device"):
        open_private("/dev/null")


def test_an_error_is_told_with_its_name() -> None:
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/secret/path")
    assert file_error_text("inbox/h.jsonl", error) == "inbox/h.jsonl: No space left on device (ENOSPC)"


def test_the_folders_names(tmp_path: Path) -> None:
    folder = CommFolder(str(tmp_path))
    assert folder.inbox("h") == str(tmp_path / "inbox" / "h.jsonl")
    assert folder.lock("h") == str(tmp_path / "inbox" / "h.lock")
    assert folder.lock_record == str(tmp_path / "inbox-lock-manager")
