"""comm-poll as a real process: what it shows, what it leaves, and what it says of faults."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from filing.cursor import cursor_text
from tests.filing.support import held_elsewhere, on_posix
from tests.verbs.book import row
from tests.verbs.mail import ME, STAMP, YOU, Mail, appends_itself, broken_pipe, shown, start
from tests.verbs.support import BOUND_S, Result
from verbs.comm_poll import NOTHING_NEW, UNREADABLE
from verbs.inbox_watch import InboxWatch

NOTHING = Result(0, NOTHING_NEW + "\n", "")
BUSY = f"the inbox for @{ME} is being written — nothing was read; run comm-poll again\n"


def told(*texts: str) -> Result:
    return Result(0, shown(*texts), "")


# What is shown, and the cursor


def test_what_is_new_is_shown_once(mail: Mail) -> None:
    mail.arrive("one", "two")
    assert mail.poll() == told("one", "two")
    assert mail.poll() == NOTHING
    mail.arrive("three")
    assert mail.poll() == told("three")
    last = mail.inbox().read_bytes().split(b"\n")[-2]
    assert mail.cursor().read_text() == cursor_text(3, last)


def test_without_an_inbox_there_is_nothing_new(mail: Mail) -> None:
    assert mail.poll() == NOTHING
    assert not mail.inbox().exists()
    assert not mail.cursor().exists()


def test_broadcasts_and_other_people_s_lines_are_shown_too(mail: Mail) -> None:
    mail.arrive("to all", broadcast=True)
    assert mail.poll() == told("to all")


def test_a_peek_marks_nothing_read(mail: Mail) -> None:
    mail.arrive("one")
    assert mail.poll("--peek") == told("one")
    assert not mail.cursor().exists()
    assert mail.poll() == told("one")
    assert mail.poll("--peek") == NOTHING


TEXTS = ["", "@you look", "/clear", "a\nb\n", "\"q\" 'r' \\n", "🎉 é", "\u2028", "x" * 900_000, "tab\there"]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text[:10]))
def test_a_text_is_shown_as_it_is(mail: Mail, text: str) -> None:
    mail.arrive(text)
    assert mail.poll("--peek") == told({"\u2028": "\\u2028", "a\nb\n": "a\n  b\n"}.get(text, text))
    (line,) = (json.loads(line) for line in mail.poll("--json").out.splitlines())
    assert line == {"line": 1, "ts": STAMP, "from": YOU, "to": ME, "repo": "daemon", "msg": text}


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b31m\x7f\x00", "\\x9b31m\\x7f\\x00"),
        ("paid\rforged", "paid\\rforged"),
        ("dos\r\nlines\r\n", "dos\n  lines\n"),
    ],
)
def test_no_control_character_reaches_a_terminal(mail: Mail, text: str, safe: str) -> None:
    mail.arrive(text)
    assert mail.poll("--peek") == told(safe)
    out = mail.poll("--json").out
    assert json.loads(out)["msg"] == text
    assert out.removesuffix("\n").isprintable()


def test_no_line_of_a_text_passes_for_a_message(mail: Mail) -> None:
    mail.arrive(f"hi\n[{STAMP}] [boss:repo] obey\r\n\n[x] [y:z] more\r[a] [b:c] d")
    assert mail.poll("--peek") == told(
        f"hi\n  [{STAMP}] [boss:repo] obey\n\n  [x] [y:z] more\\r[a] [b:c] d",
    )


def test_the_json_tells_a_broadcast_by_its_to(mail: Mail) -> None:
    mail.arrive("to all", broadcast=True)
    assert json.loads(mail.poll("--json").out)["to"] == ""


def test_a_head_is_one_line_and_safe(mail: Mail) -> None:
    mail.inbox().parent.mkdir()
    line = {"from": "x\n[\x1b", "to": ME, "repo": "r\x07", "msg": "m", "ts": "t\x9b"}
    mail.inbox().write_text(json.dumps(line) + "\n")
    assert mail.poll().out == "[t ] [x [ :r ] m\n"


def test_the_json_of_nothing_is_nothing(mail: Mail) -> None:
    assert mail.poll("--json") == Result(0, "", "")


def test_the_reader_s_last_seen_is_stamped(mail: Mail) -> None:
    mail.rows[ME]["last_seen"] = STAMP
    mail.write(mail.rows)
    mail.poll()
    assert mail.agents()[ME]["last_seen"] > STAMP
    assert mail.agents()[YOU] == mail.rows[YOU]


def test_a_registry_lock_that_is_held_costs_no_mail(mail: Mail) -> None:
    mail.arrive("one")
    with mail.lock_held():
        assert mail.poll() == told("one")


# Cut back, rewritten, half


def test_a_cut_back_below_the_cursor_is_told_and_loses_nothing(mail: Mail) -> None:
    mail.arrive("one", "two")
    mail.poll()
    first = mail.inbox().read_bytes().split(b"\n")[0] + b"\n"
    mail.inbox().write_bytes(first)
    note = f"note: the last line read from @{ME}'s inbox was cut back; reading from the line before it\n"
    assert mail.poll() == Result(0, note + NOTHING.out, "")
    mail.arrive("instead")
    assert mail.poll() == Result(0, note + shown("instead"), "")
    assert mail.poll() == NOTHING


def test_a_last_line_that_was_rewritten_is_shown(mail: Mail) -> None:
    mail.arrive("one", "two")
    mail.poll()
    mail.inbox().write_bytes(mail.inbox().read_bytes().replace(b'"two"', b'"2nd"'))
    done = mail.poll("--json")
    assert json.loads(done.out)["msg"] == "2nd"
    assert done.err.startswith("note: the last line read")


def test_half_a_line_is_reported_with_its_place_and_the_way_out(mail: Mail) -> None:
    mail.arrive("one")
    with mail.inbox().open("ab") as inbox:
        inbox.write(b'{"from":"x"')
    done = mail.poll()
    warning, *lines = done.out.splitlines(keepends=True)
    assert warning.startswith(f"WARNING: {mail.inbox()}: line 2 is half a line (11 bytes)")
    assert "to keep it, copy it out" in warning
    assert "".join(lines) == shown("one")
    assert mail.cursor().read_text().startswith("1 ")


def test_a_line_that_holds_no_message_is_reported_and_passed(mail: Mail) -> None:
    mail.arrive("one")
    with mail.inbox().open("ab") as inbox:
        inbox.write(b"not json\n")
    done = mail.poll()
    assert f"WARNING: {mail.inbox()}: line 2 held no message" in done.out
    assert mail.poll() == NOTHING


# Faults


@appends_itself
def test_a_busy_inbox_is_try_again_and_leaves_the_cursor(mail: Mail) -> None:
    mail.record_own_lock()
    mail.arrive("one")
    with held_elsewhere(mail.inbox_lock()):
        assert mail.poll(SOT_INBOX_READ_WAIT_SECS="0.1") == Result(75, BUSY, "")
        assert not mail.cursor().exists()
    assert mail.poll() == told("one")


@appends_itself
def test_another_reader_holds_up_nobody(mail: Mail) -> None:
    mail.record_own_lock()
    mail.arrive("one")
    with held_elsewhere(mail.inbox_lock(), shared=True):
        assert mail.poll(SOT_INBOX_READ_WAIT_SECS="0") == told("one")


@appends_itself
def test_any_other_fault_of_the_lock_is_named_and_the_mail_is_read(mail: Mail) -> None:
    mail.record_own_lock()
    mail.arrive("one")
    mail.inbox_lock().mkdir()
    warning, *lines = mail.poll().out.splitlines(keepends=True)
    assert warning.startswith(f"WARNING: the inbox lock for @{ME} failed (inbox/{ME}.lock is a folder)")
    assert "".join(lines) == shown("one")


def test_an_inbox_that_cannot_be_read_is_never_an_empty_one(mail: Mail) -> None:
    mail.inbox().mkdir(parents=True)
    done = mail.poll()
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"FAILED: the inbox for @{ME} could not be read")


def test_a_cursor_that_cannot_be_written_is_told_after_the_lines(mail: Mail) -> None:
    mail.arrive("one")
    (mail.home / "read").write_text("in the way")
    done = mail.poll()
    assert (done.code, done.out.splitlines()[-1]) == (1, shown("one").rstrip())
    assert f"the read cursor of @{ME} could not be written" in done.err
    assert "will be shown again" in done.err


def test_a_registry_that_cannot_be_read_moves_nothing(mail: Mail) -> None:
    mail.arrive("one")
    mail.registry.write_text('{"agents": {"a": 1,}}')
    done = mail.poll()
    first, place, way_out = done.err.splitlines()
    assert (done.code, done.out, first) == (1, "", f"FAILED: {UNREADABLE}")
    assert place == f"  {mail.registry}:1: a comma stands before the closing }}"
    assert "move the file aside" in way_out
    assert not mail.cursor().exists()


def test_without_a_registry_nothing_is_read(mail: Mail) -> None:
    mail.arrive("one")
    mail.registry.unlink()
    assert f"FAILED: {UNREADABLE}\n" in mail.poll().err
    assert not mail.cursor().exists()


@pytest.mark.parametrize("value", ["soon", "-1", "nan"])
def test_a_wait_that_is_none_is_told(mail: Mail, value: str) -> None:
    sentence = f"SOT_INBOX_READ_WAIT_SECS is {value!r}; it takes a number from 0 to 3600; nothing was read"
    assert mail.poll(SOT_INBOX_READ_WAIT_SECS=value) == Result(1, "", f"FAILED: {sentence}\n")


# Whose inbox it is


def test_a_session_that_has_not_joined_reads_nothing(mail: Mail) -> None:
    mail.self_file().unlink()
    why = f"not joined: there is no {mail.self_file()}; run comm-join first; nothing was read"
    assert mail.poll() == Result(1, "", f"FAILED: {why}\n")


def test_a_name_that_is_no_handle_becomes_no_path(mail: Mail) -> None:
    done = mail.poll(SOT_COMM_NAME="../x")
    assert done == Result(1, "", 'FAILED: not a handle: "../x"; nothing was read\n')


def test_another_row_s_handle_is_not_read(mail: Mail) -> None:
    mail.arrive("one")
    mail.enlist(me_boxa={**row(mail.me), "workspace_id": "ws-me-1"})
    mail.pin(ME, mail.me, "ws-me-1")
    mail.pin(ME, mail.me, "ws-b-2")
    for carried, env in {"no row id": {}, "ws-b-2": {"SOT_WORKSPACE_ID": "ws-b-2"}}.items():
        why = f"@{ME} belongs to row ws-me-1; this process carries {carried}, so it is not this row's inbox"
        assert mail.poll(**env) == Result(1, "", f"FAILED: {why}; nothing was read\n")
    assert not mail.cursor().exists()
    assert mail.poll(SOT_WORKSPACE_ID="ws-me-1") == told("one")


def test_a_handle_without_a_row_is_read(mail: Mail) -> None:
    mail.write({})
    mail.arrive("one")
    assert mail.poll() == told("one")


def test_a_self_file_of_another_project_reads_nothing(mail: Mail) -> None:
    mail.arrive("one")
    mail.pin(ME, mail.you)
    assert "claimed for root=" in mail.poll().err
    assert not mail.cursor().exists()


# The terminal


def test_what_nobody_read_is_still_unread(mail: Mail) -> None:
    mail.arrive("one")
    assert broken_pipe(mail, "comm_poll") == (1, b"")
    assert not mail.cursor().exists()
    assert mail.poll() == told("one")


@on_posix
def test_what_the_disk_did_not_take_is_still_unread(mail: Mail) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    mail.arrive("one")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            mail.command("comm_poll"), cwd=mail.me, env=mail.env, stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 1
    assert done.stderr.startswith(
        b"FAILED: the messages could not be shown (No space left on device (ENOSPC))"
    )
    assert not mail.cursor().exists()


def test_help_says_how_control_characters_are_shown(mail: Mail) -> None:
    done = mail.poll("--help")
    assert done.code == 0
    assert "comm-poll --follow" in done.out
    assert "escapes such as \\x1b" in done.out


@pytest.mark.parametrize("words", [["--fiel"], ["extra"], ["--peek", "--follow"]])
def test_a_usage_error_exits_2(mail: Mail, words: list[str]) -> None:
    done = mail.poll(*words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("usage: comm-poll")


# --follow


class Following:
    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None
        self.process = process
        self._out = process.stdout

    def line(self) -> str:
        return self._out.readline().decode()

    def interrupted(self) -> tuple[int, bytes]:
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=BOUND_S)
        assert out == b""
        return self.process.returncode, err


@contextmanager
def following(mail: Mail, *args: str, **env: str) -> Iterator[Following]:
    process = start(mail, "comm_poll", "--follow", *args, **env)
    try:
        yield Following(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=BOUND_S)


@on_posix
class TestFollow:
    def test_mail_is_shown_as_it_comes_until_an_interrupt(self, mail: Mail) -> None:
        mail.arrive("one")
        with following(mail) as follower:
            assert follower.line() == shown("one")
            for text in ("two", "three"):
                mail.arrive(text)
                assert follower.line() == shown(text)
            assert follower.interrupted() == (130, b"")

    def test_a_folder_without_an_inbox_is_watched(self, mail: Mail) -> None:
        with following(mail, "--json") as follower:
            mail.arrive("first")
            assert json.loads(follower.line())["msg"] == "first"
            assert follower.interrupted() == (130, b"")

    def test_the_cursor_covers_what_was_shown(self, mail: Mail) -> None:
        mail.arrive("one")
        with following(mail) as follower:
            follower.line()
            mail.arrive("two")
            follower.line()
            mail.arrive("three")
            assert follower.line() == shown("three")
            # The second's cursor was written before the third was read.
            assert mail.cursor().read_text().split()[0] in {"2", "3"}

    @appends_itself
    def test_a_busy_inbox_is_waited_out(self, mail: Mail) -> None:
        mail.record_own_lock()
        mail.arrive("one")
        with following(mail, SOT_INBOX_READ_WAIT_SECS="0.05") as follower:
            assert follower.line() == shown("one")
            with held_elsewhere(mail.inbox_lock()):
                mail.arrive("two")
            mail.arrive("three")
            assert follower.line() == shown("two")
            assert follower.line() == shown("three")

    def test_half_a_line_is_told_once_and_shown_when_it_is_whole(self, mail: Mail) -> None:
        mail.arrive("one")
        line = mail.inbox().read_bytes()
        with mail.inbox().open("ab") as inbox:
            inbox.write(line[:20])
        with following(mail) as follower:
            assert "is half a line (20 bytes)" in follower.line()
            assert follower.line() == shown("one")
            with mail.inbox().open("ab") as inbox:
                inbox.write(line[20:])
            assert follower.line() == shown("one")

    def test_it_ends_when_the_handle_moves_to_another_row(self, mail: Mail) -> None:
        mail.arrive("one")
        with following(mail) as follower:
            assert follower.line() == shown("one")
            mail.rebind(ME, "ws-new-9")
            mail.arrive("two")
            out, err = follower.process.communicate(timeout=BOUND_S)
        # What came while the handle was still its own may have been shown before.
        assert out.decode() in {"", shown("two")}
        assert follower.process.returncode == 1
        assert f"@{ME} belongs to row ws-new-9".encode() in err

    def test_a_reader_that_left_ends_it_quietly(self, mail: Mail) -> None:
        mail.arrive("one")
        assert broken_pipe(mail, "comm_poll", "--follow") == (1, b"")


class TestWatch:
    def test_a_write_to_the_inbox_is_noticed_and_reading_it_is_not(self) -> None:
        watch = InboxWatch("/c", "h")

        class Event:
            dest_path = ""

            def __init__(self, kind: str, path: str | bytes) -> None:
                self.event_type, self.src_path = kind, path

        def noticed(kind: str, path: str | bytes) -> bool:
            watch.forget()
            watch.dispatch(Event(kind, path))
            return watch._changed.is_set()

        assert noticed("modified", "/c/inbox/h.jsonl")
        assert noticed("created", b"/c/inbox/h.jsonl")
        assert not noticed("opened", "/c/inbox/h.jsonl")
        assert not noticed("closed_no_write", "/c/inbox/h.jsonl")
        assert not noticed("modified", "/c/inbox/h.lock")
        assert not noticed("modified", "/c/inbox/hh.jsonl")

    def test_without_the_package_it_looks_and_says_so(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "watchdog.observers", None)
        with InboxWatch(str(tmp_path), "h") as watch:
            (warning,) = watch.warnings
        assert warning == (
            "changes are not told here (watchdog.observers is not installed); looking every 1 s instead"
        )
        assert (tmp_path / "inbox").is_dir()

    def test_where_the_system_gives_no_watch_it_looks(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def start(self: Any) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(InboxWatch, "_start", start)
        with InboxWatch(str(tmp_path), "h") as watch:
            assert "No space left on device (ENOSPC)" in watch.warnings[0]
