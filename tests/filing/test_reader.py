"""The reader's batch: read once under the shared lock, busy is try again, the cursor is of what was read."""

import errno
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from filing import platform, reader
from filing.comm_folder import CommFolder
from filing.cursor import cursor_path
from filing.inbox import Inboxes, inbox_line
from filing.local_append import append_locally
from filing.outcome import FILED
from filing.private_file import PrivateReads
from filing.reader import BUSY_EXIT, Batch, Busy, InboxUnreadable, read_batch, save_cursor
from filing.script_lock import let_go
from tests.filing.support import FakeMachine, Home, held_elsewhere, on_posix

BUSY = Busy("the inbox for @h is being written — nothing was read; run comm-poll again")


def line(text: str = "hi", sender: str = "s") -> bytes:
    return inbox_line(sender=sender, to="h", text=text, broadcast=False, stamp="2026-01-01T00:00:00Z")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    (home.path / "inbox-lock-manager").write_text("local m1\nm1\n")
    (home.path / "inbox").mkdir(mode=0o700)
    return home


def ask(home: Home, *, wait_s: float = 30.0, **seams: Any) -> Batch | Busy | InboxUnreadable:
    all_seams: dict[str, Any] = {"machine": FakeMachine(), "system": "linux"} | seams
    return read_batch(str(home.path), "h", wait_s=wait_s, **all_seams)


def read(home: Home, **seams: Any) -> Batch:
    batch = ask(home, **seams)
    assert isinstance(batch, Batch)
    return batch


def show(home: Home, **seams: Any) -> list[str]:
    """A whole comm-poll."""
    batch = read(home, **seams)
    if batch.polled.cursor is not None:
        save_cursor(str(home.path), "h", batch.polled.cursor)
    return [shown.text for shown in batch.polled.shown]


def test_a_poll_shows_what_is_new_and_nothing_twice(home: Home) -> None:
    home.inbox("h").write_bytes(line("one") + line("two"))
    assert show(home) == ["one", "two"]
    assert show(home) == []
    with home.inbox("h").open("ab") as inbox:
        inbox.write(line("three"))
    assert read(home).polled.unread == 1
    assert show(home) == ["three"]


def test_a_batch_that_was_not_shown_comes_again(home: Home) -> None:
    home.inbox("h").write_bytes(line("one"))
    assert read(home) == read(home)
    assert not (home.path / "read").exists()


def test_without_an_inbox_nothing_is_made(home: Home) -> None:
    batch = read(home)
    assert (batch.exists, batch.polled.shown, batch.warnings) == (False, (), ())
    assert list((home.path / "inbox").iterdir()) == []


@on_posix
def test_a_file_in_the_inbox_folder_s_place_is_not_no_messages(home: Home) -> None:
    home.inbox("h").write_bytes(line())
    show(home)
    shutil.rmtree(home.path / "inbox")
    (home.path / "inbox").touch()
    answer = ask(home)
    assert isinstance(answer, InboxUnreadable)
    assert answer.sentence.startswith("the inbox for @h could not be read: ")
    assert "(ENOTDIR)" in answer.sentence


@pytest.mark.parametrize("code", [errno.EACCES, errno.ESTALE, errno.EIO])
def test_an_inbox_that_cannot_be_looked_at_is_not_no_messages(
    home: Home, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def lstat(path: str) -> os.stat_result:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "lstat", lstat)
    answer = ask(home)
    monkeypatch.undo()
    assert isinstance(answer, InboxUnreadable)
    assert errno.errorcode[code] in answer.sentence


def test_an_empty_inbox_is_one(home: Home) -> None:
    home.inbox("h").touch()
    assert read(home).exists


# The lock


@pytest.mark.parametrize("kind", ["local m1", "none@m1", "nfs4 server:/export"])
def test_a_held_lock_is_busy_and_the_cursor_stays(home: Home, kind: str) -> None:
    (home.path / "inbox-lock-manager").write_text(f"{kind}\nm1\n")
    home.inbox("h").write_bytes(line("one"))
    with held_elsewhere(home.lock("h")):
        assert ask(home, wait_s=0.1, machine=FakeMachine(kind)) == BUSY
    assert show(home, machine=FakeMachine(kind)) == ["one"]
    assert BUSY_EXIT == 75
    assert reader.READ_WAIT_S == 3.0


def test_readers_do_not_hold_each_other_up(home: Home) -> None:
    home.inbox("h").write_bytes(line("one"))
    with held_elsewhere(home.lock("h"), shared=True):
        assert show(home, wait_s=0.0) == ["one"]


def test_the_lock_is_let_go_before_anything_is_shown(home: Home) -> None:
    home.inbox("h").write_bytes(line("one"))
    read(home)
    appended = append_locally(str(home.path), "h", line("two"), 0, machine=FakeMachine(), system="linux")
    assert appended == FILED


def test_the_file_is_read_while_the_lock_is_held(home: Home) -> None:
    held = []

    class Spying(PrivateReads):
        def open(self, path: str) -> int:
            fd = Inboxes(CommFolder(str(home.path))).open_lock("h")
            held.append(not platform.try_lock(fd))
            let_go(fd)
            return super().open(path)

    home.inbox("h").write_bytes(line("one"))
    read(home, private_reads=Spying())
    assert held == [True, True]  # inbox and cursor


@pytest.mark.parametrize(
    "seams", [{"system": "darwin"}, {"machine": FakeMachine("local m2", "m2")}], ids=["system", "machine"]
)
def test_a_box_whose_lock_excludes_nobody_reads_unlocked(home: Home, seams: dict[str, Any]) -> None:
    home.inbox("h").write_bytes(line("one"))
    with held_elsewhere(home.lock("h")):
        batch = read(home, wait_s=0.0, **seams)
    assert (len(batch.polled.shown), batch.warnings) == (1, ())


@on_posix
def test_a_lock_that_fails_is_named_and_the_read_runs_unlocked(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(fd: int, *, shared: bool = False) -> bool:
        raise OSError(37, "No locks available")

    home.inbox("h").write_bytes(line("one"))
    monkeypatch.setattr(platform, "try_lock", no_locks)
    (warning,) = read(home).warnings
    assert warning == (
        "WARNING: the inbox lock for @h failed (inbox/h.lock: No locks available (ENOLCK)) — reading without "
        "it; a line may show twice, none is lost"
    )
    monkeypatch.undo()
    home.lock("h").unlink()
    home.lock("h").mkdir()
    batch = read(home)
    assert "inbox/h.lock is a folder" in batch.warnings[0]
    assert len(batch.polled.shown) == 1


# What can be wrong


def test_a_line_that_was_cut_back_is_told_and_the_new_one_shown(home: Home) -> None:
    home.inbox("h").write_bytes(line("one") + line("lost"))
    show(home)
    home.inbox("h").write_bytes(line("one") + line("new"))
    batch = read(home)
    assert batch.warnings == (
        "note: the last line read from @h's inbox was cut back; reading from the line before it",
    )
    assert show(home) == ["new"]


def test_a_line_shown_and_then_replaced_is_noticed_by_the_next_poll(home: Home) -> None:
    """The cursor is of the bytes that were read, not of those that stand there when it is written."""
    home.inbox("h").write_bytes(line("shown"))
    batch = read(home)
    home.inbox("h").write_bytes(line("refiled"))
    assert batch.polled.cursor is not None
    save_cursor(str(home.path), "h", batch.polled.cursor)
    assert show(home) == ["refiled"]


def test_half_a_line_is_reported_with_its_place_and_the_way_out(home: Home) -> None:
    home.inbox("h").write_bytes(line("one") + b'{"from":"s"')
    batch = read(home)
    (warning,) = batch.warnings
    assert f"{home.inbox('h')}: line 2 is half a line (11 bytes) and is not shown" in warning
    assert "The next message to @h cuts it off; to keep it, copy it out before" in warning
    assert [shown.text for shown in batch.polled.shown] == ["one"]
    show(home)
    assert append_locally(str(home.path), "h", line("two"), 0, machine=FakeMachine(), system="linux") == FILED
    assert show(home) == ["two"]
    assert read(home).warnings == ()


def test_lines_that_hold_no_message_are_named_once(home: Home) -> None:
    home.inbox("h").write_bytes(b"junk\n" + line("one") + b"5\n")
    (warning,) = read(home).warnings
    assert "2 lines from 1 on held no message" in warning
    assert show(home) == ["one"]
    assert read(home).warnings == ()


@on_posix
def test_an_inbox_that_cannot_be_read_is_never_no_messages(home: Home, tmp_path: Path) -> None:
    home.inbox("h").symlink_to(tmp_path / "nowhere")
    assert ask(home) == InboxUnreadable(
        "the inbox for @h could not be read: inbox/h.jsonl is a symbolic link"
    )
    home.inbox("h").unlink()
    if sys.platform != "win32":
        os.mkfifo(home.inbox("h"))
    begin = time.monotonic()
    assert isinstance(ask(home), InboxUnreadable)
    assert time.monotonic() - begin < 5


@on_posix
def test_a_cursor_that_cannot_be_read_shows_the_inbox_from_its_start(home: Home) -> None:
    home.inbox("h").write_bytes(line("one") + line("two"))
    show(home)
    path = Path(cursor_path(CommFolder(str(home.path)), "h"))
    path.unlink()
    path.mkdir()
    batch = read(home)
    assert "the read cursor for @h could not be read (is not a regular file)" in batch.warnings[0]
    assert len(batch.polled.shown) == 2


def test_a_read_that_fails_lets_the_lock_go(home: Home) -> None:
    class BadDisk(PrivateReads):
        def read(self, fd: int, size: int) -> bytes:
            raise OSError(5, "Input/output error")

    home.inbox("h").write_bytes(line("one"))
    assert ask(home, private_reads=BadDisk()) == InboxUnreadable(
        "the inbox for @h could not be read: inbox/h.jsonl: Input/output error (EIO)"
    )
    assert append_locally(str(home.path), "h", line(), 0, machine=FakeMachine(), system="linux") == FILED


def test_a_path_is_made_of_a_handle_only(home: Home) -> None:
    with pytest.raises(ValueError, match="not a handle"):
        read_batch(str(home.path), "../h")
