"""comm-send as a real process: its words, its one route, and what it says."""

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.filing.support import held_elsewhere, on_posix
from tests.verbs.book import row
from tests.verbs.mail import ME, YOU, Mail, appends_itself, broken_pipe, start
from tests.verbs.support import BOUND_S, FILED, WELCOME, Result, answering, failed, filed, res
from verbs import comm_send
from verbs.comm_send import USAGE
from verbs.frames import comm_file_frame
from wire.limits import MAX_FRAME_BYTES

pytestmark = on_posix  # the scripted daemon serves a Unix socket

REFUSED = answering(WELCOME, res("comm.file", {"error": "the daemon's own words", "code": "file_failed"}))
GONE = row(age_s=601)


def own_append(to: str = YOU) -> Result:
    return Result(0, f"  filed -> @{to}\n", "")


def why(done: Result, to: str = f"@{YOU}") -> str:
    """The reason of a FAILED line, which is all that was said."""
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"FAILED -> {to}: ")
    return done.err.removeprefix(f"FAILED -> {to}: ").removesuffix("\n")


# Words


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "there is no recipient: name one as @HANDLE, or give --broadcast"),
        (["you", "hi"], "a recipient begins with @: did you mean @you?"),
        (["@you"], 'there is no message: give its text (may be ""), or --file PATH'),
        (["--broadcast"], 'there is no message: give its text (may be ""), or --file PATH'),
        (
            ["@you", "--broadcast", "hi"],
            "--broadcast goes to everyone and takes no recipient, and @you was given",
        ),
        (["@you", "hi", "--file", "f"], "--file f is the message, and so is 'hi': give one of them"),
        (["@you", "--fiel", "f"], "unknown option --fiel; a message that begins with - goes after --"),
        (
            ["@you", "hi", "--endpoint", "unix:/x"],
            "--endpoint is an option of comm-relay; comm-send finds the way by itself",
        ),
        (["--all", "hi"], comm_send._HINTS["--all"]),
        (["--from", "x"], comm_send._HINTS["--from"]),
    ],
)
def test_a_usage_error_exits_2_with_a_usage_line(
    capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    assert comm_send.main(words) == 2
    assert capsys.readouterr() == ("", f"comm-send: {sentence}\n{USAGE}\n")


def test_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert comm_send.main(["--help"]) == 0
    assert "comm-send @MyRepo-lab" in capsys.readouterr().out


def test_help_behind_a_recipient_is_no_send(capsys: pytest.CaptureFixture[str]) -> None:
    assert comm_send.main(["@you", "--help"]) == 2
    assert "unknown option --help" in capsys.readouterr().err


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    from wire.version import VERSION

    assert comm_send.main(["--version"]) == 0
    assert capsys.readouterr().out == f"comm-send {VERSION}\n"


# Route 1, by its own hand

TEXTS = {
    "plain": "hi",
    "empty": "",
    "at": "@other look at this",
    "slash": "/clear",
    "lines": "one\ntwo\n\nthree\n",
    "quotes": "\"double\" 'single' \\ `tick` $HOME",
    "emoji": "done 🎉 — é \u2028 \u0085",
    "escape": "\x1b[31mred\x07",
}


@appends_itself
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_line_is_the_contract_s(mail: Mail, text: str) -> None:
    mail.record_own_lock()
    assert mail.send(f"@{YOU}", text) == own_append()
    (line,) = mail.lines(YOU)
    stamp = line.pop("ts")
    assert line == {"from": ME, "to": YOU, "repo": "me", "msg": text}
    assert len(stamp) == len("2026-01-01T00:00:00Z")
    assert mail.inbox(YOU).stat().st_mode & 0o777 == 0o600


@appends_itself
class TestOwnAppend:
    def test_words_are_joined_and_only_the_first_at_is_the_recipient(self, mail: Mail) -> None:
        mail.record_own_lock()
        assert mail.send(f"@{YOU}", "@me", "is", "text", "--", "--broadcast") == own_append()
        assert mail.lines(YOU)[0]["msg"] == "@me is text --broadcast"

    def test_members_stand_in_the_contract_s_order(self, mail: Mail) -> None:
        mail.record_own_lock()
        mail.send(f"@{YOU}", "hi")
        assert list(mail.lines(YOU)[0]) == ["from", "to", "repo", "msg", "ts"]

    @pytest.mark.parametrize("data", [b"nul \0 and \x01", b"no line end", b"", b"x" * 900_000, b"@a\n/b\n"])
    def test_a_file_s_bytes_are_the_body(self, mail: Mail, data: bytes) -> None:
        mail.record_own_lock()
        (mail.me / "body").write_bytes(data)
        assert mail.send(f"@{YOU}", "--file", "body") == own_append()
        assert mail.me_pipes(data, "comm_send", f"@{YOU}", "--file", "-") == own_append()
        assert [line["msg"].encode() for line in mail.lines(YOU)] == [data, data]

    def test_a_dead_writer_s_half_line_is_cut_back(self, mail: Mail) -> None:
        mail.record_own_lock()
        mail.arrive("whole", to=YOU)
        with mail.inbox(YOU).open("ab") as inbox:
            inbox.write(b'{"half')
        assert mail.send(f"@{YOU}", "hi").out == own_append().out
        assert [line["msg"] for line in mail.lines(YOU)] == ["whole", "hi"]

    def test_a_held_inbox_is_waited_for_and_then_refused(self, mail: Mail) -> None:
        mail.record_own_lock()
        with held_elsewhere(mail.inbox_lock(YOU)), mail.hub() as daemon:
            done = mail.send(f"@{YOU}", "hi", SOT_INBOX_LOCK_WAIT_SECS="0.1")
            held = f"the inbox lock for @{YOU} was held for 0.1s — nothing was appended"
            assert done == failed(held, f"@{YOU}")
            assert daemon.hellos == []  # never a second route
        assert mail.lines(YOU) == []

    def test_a_shared_lock_s_reader_is_waited_for_too(self, mail: Mail) -> None:
        mail.record_own_lock()
        with held_elsewhere(mail.inbox_lock(YOU), shared=True):
            assert "was held" in mail.send(f"@{YOU}", "hi", SOT_INBOX_LOCK_WAIT_SECS="0").err

    def test_a_disk_that_takes_nothing_is_told(self, mail: Mail) -> None:
        mail.record_own_lock()
        mail.inbox(YOU).mkdir()
        assert why(mail.send(f"@{YOU}", "hi")) == f"the append failed: inbox/{YOU}.jsonl is a folder"

    def test_a_handle_that_is_none_is_told(self, mail: Mail) -> None:
        mail.record_own_lock()
        mail.write({**mail.rows, "a/b": row()})
        assert why(mail.send("@a/b", "hi"), "@a/b") == 'not a handle: "a/b"'

    def test_a_send_to_oneself_is_filed(self, mail: Mail) -> None:
        mail.record_own_lock()
        assert mail.send(f"@{ME}", "note") == own_append(ME)
        assert mail.lines(ME)[0]["msg"] == "note"

    def test_the_sender_s_last_seen_is_stamped(self, mail: Mail) -> None:
        mail.record_own_lock()
        before = mail.rows[ME]["last_seen"] = "2026-01-01T00:00:00Z"
        mail.write(mail.rows)
        assert mail.send(f"@{YOU}", "hi") == own_append()
        assert mail.agents()[ME]["last_seen"] > before
        assert mail.agents()[YOU] == mail.rows[YOU]

    def test_a_registry_lock_that_is_held_costs_no_send(self, mail: Mail) -> None:
        mail.record_own_lock()
        with mail.lock_held():
            assert mail.send(f"@{YOU}", "hi") == own_append()
        assert mail.agents() == mail.rows

    def test_many_at_once_all_stand_whole(self, mail: Mail) -> None:
        mail.record_own_lock()
        texts = [f"{number} {'x' * 20_000}" for number in range(8)]
        senders = [start(mail, "comm_send", f"@{YOU}", text) for text in texts]
        assert [sender.communicate(timeout=BOUND_S) for sender in senders] == [
            (own_append().out.encode(), b"")
        ] * 8
        assert sorted(line["msg"] for line in mail.lines(YOU)) == sorted(texts)

    def test_comm_relay_files_what_the_registry_lists_in_the_same_way(self, mail: Mail) -> None:
        mail.record_own_lock()
        assert mail.me_does("comm_relay", "send", f"@{YOU}", "hi") == filed(YOU)
        assert mail.me_does("comm_relay", "send", "--from", "cron", f"@{YOU}", "hi") == filed(YOU)
        assert [line["from"] for line in mail.lines(YOU)] == [ME, "cron"]


# Whether it may be filed


@pytest.mark.parametrize("last_seen", [GONE["last_seen"], "", None, 5, "yesterday"])
def test_a_handle_that_no_live_session_holds_is_refused_before_anything_is_tried(
    mail: Mail, last_seen: Any
) -> None:
    mail.enlist(gone={**row(), "last_seen": last_seen})
    with mail.hub() as daemon:
        assert why(mail.send("@gone", "hi"), "@gone") == "no live session holds @gone"
        assert daemon.hellos == []


# Route 1, by the daemon


def test_where_this_box_may_not_append_its_daemon_files(mail: Mail) -> None:
    with mail.hub() as daemon:
        assert mail.send(f"@{YOU}", "é @x") == filed(YOU)
    (request,) = daemon.requests
    assert (request["op"], request["payload"]) == (
        "comm.file",
        {"from": ME, "to": YOU, "text": "é @x", "broadcast": False, "forwarded": False},
    )
    assert mail.lines(YOU) == []


@pytest.mark.parametrize("record", ["local another-machine\nanother-machine\n", "none\n", "none@other\n", ""])
def test_another_s_lock_manager_leaves_it_to_the_daemon(mail: Mail, record: str) -> None:
    (mail.home / "inbox-lock-manager").write_text(record)
    with mail.hub():
        assert mail.send(f"@{YOU}", "hi") == filed(YOU)
    assert mail.lines(YOU) == []


def test_the_daemon_s_refusal_is_passed_on_and_no_second_route_is_tried(mail: Mail) -> None:
    with mail.hub(REFUSED) as daemon:
        assert why(mail.send(f"@{YOU}", "hi")) == "the daemon's own words"
    assert len(daemon.requests) == 1


def test_this_box_s_own_daemon_comes_before_the_relay_endpoint(mail: Mail) -> None:
    nowhere = f"unix:{mail.runtime}/nowhere.sock"
    with mail.hub():
        assert mail.send(f"@{YOU}", "hi", SOT_RELAY_ENDPOINT=nowhere) == filed(YOU)
    silent = why(mail.send(f"@{YOU}", "hi", SOT_RELAY_ENDPOINT=nowhere))
    assert silent == f"the daemon did not answer at {nowhere}: No such file or directory"


def test_without_any_daemon_it_is_failed(mail: Mail) -> None:
    assert why(mail.send(f"@{YOU}", "hi")).startswith("no sotd daemon found; ")


# The wire


def test_what_the_registry_does_not_list_goes_over_the_wire(mail: Mail) -> None:
    with mail.hub() as daemon:
        assert mail.send("@far-away", "hi") == filed("far-away")
    assert daemon.requests[0]["payload"]["to"] == "far-away"


def test_a_row_without_a_host_lists_nobody(mail: Mail) -> None:
    mail.enlist(odd={**row(), "host": ""})
    with mail.hub(REFUSED):
        assert why(mail.send("@odd", "hi"), "@odd") == "the daemon's own words"


def test_comm_relay_asks_an_endpoint_that_was_named_whatever_the_registry_lists(mail: Mail) -> None:
    mail.record_own_lock()
    with mail.hub() as daemon:
        done = mail.me_does("comm_relay", "send", f"@{YOU}", "hi", "--endpoint", daemon.endpoint)
        assert done == filed(YOU)
        done = mail.me_does("comm_relay", "send", f"@{YOU}", "hi", SOT_RELAY_ENDPOINT=daemon.endpoint)
        assert done == filed(YOU)
        assert len(daemon.requests) == 2
    assert mail.lines(YOU) == []


@pytest.mark.parametrize("text", ["", "{", '{"agents": {"you-boxa": {}}'], ids=["empty", "cut", "cut later"])
def test_comm_relay_never_reads_absent_out_of_a_registry_that_may_list_the_handle(
    mail: Mail, text: str
) -> None:
    mail.registry.write_text(text)
    with mail.hub() as daemon:
        done = mail.me_does("comm_relay", "send", f"@{YOU}", "hi")
        assert done.err.startswith(f"FAILED -> @{YOU}: the registry could not be read, so identity @{ME} ")
        assert daemon.hellos == []


# Who sends


def test_an_unreadable_registry_is_told_with_its_line_and_the_way_out(mail: Mail) -> None:
    text = '{\n  "protocol_version": 1,\n  "agents": {\n    "x": {},\n  }\n}\n'
    mail.registry.write_text(text)
    with mail.hub() as daemon:
        done = mail.send(f"@{YOU}", "hi")
        assert daemon.hellos == []
    first, place, way_out = done.err.splitlines()
    assert first == (
        f"FAILED -> @{YOU}: the registry could not be read, so identity @{ME} is unverified; nothing was sent"
    )
    assert place == f"  {mail.registry}:4: a comma stands before the closing }}"
    assert "comm-join --name" in way_out
    assert (done.code, mail.registry.read_text()) == (1, text)


def test_a_missing_registry_is_unreadable_too(mail: Mail) -> None:
    mail.registry.unlink()
    assert f"identity @{ME} is unverified; nothing was sent" in mail.send(f"@{YOU}", "hi").err
    assert not mail.registry.exists()


def test_a_session_that_has_not_joined_sends_nothing(mail: Mail) -> None:
    mail.self_file().unlink()
    reason = (
        f"no sender: there is no {mail.self_file()}; join first (comm-join), or set SOT_COMM_NAME; "
        "nothing was sent"
    )
    assert why(mail.send(f"@{YOU}", "hi")) == reason
    assert why(mail.send("--broadcast", "hi"), "--broadcast") == reason


def test_a_handle_without_its_row_is_to_be_reclaimed(mail: Mail) -> None:
    del mail.rows[ME]
    mail.write(mail.rows)
    assert why(mail.send(f"@{YOU}", "hi")) == (
        f"your identity @{ME} has no registry row; reclaim it with comm-join --name {ME}; nothing was sent"
    )


def test_a_handle_that_another_project_joined_is_not_this_one_s(mail: Mail) -> None:
    mail.enlist(me_boxa=row("/elsewhere"))
    assert why(mail.send(f"@{YOU}", "hi")) == (
        f"your identity @{ME} is registered for another project (/elsewhere), and this is {mail.me}; "
        f"reclaim it with comm-join --name {ME}; nothing was sent"
    )


def test_a_row_that_holds_the_handle_sends_and_nobody_else(mail: Mail) -> None:
    mail.enlist(me_boxa={**row(mail.me), "workspace_id": "ws-me-1"})
    mail.pin(ME, mail.me, "ws-me-1")
    with mail.hub():
        assert mail.send(f"@{YOU}", "hi", SOT_WORKSPACE_ID="ws-me-1") == filed(YOU)
        for carried, env in {"no row id": {}, "ws-other-2": {"SOT_WORKSPACE_ID": "ws-other-2"}}.items():
            mail.pin(ME, mail.me, "ws-other-2")
            assert why(mail.send(f"@{YOU}", "hi", **env)) == (
                f"@{ME} belongs to row ws-me-1; this process carries {carried}, "
                "so it is not this row's inbox; nothing was sent"
            )


def test_a_self_file_of_another_project_gives_no_sender(mail: Mail) -> None:
    mail.pin(ME, mail.you)
    assert why(mail.send(f"@{YOU}", "hi")).startswith(
        f"no sender: {mail.self_file()} names @{ME}, claimed for root={mail.you}, and this is {mail.me};"
    )


def test_a_row_of_an_unknown_project_is_let_pass(mail: Mail) -> None:
    mail.enlist(me_boxa=row(""))
    with mail.hub():
        assert mail.send(f"@{YOU}", "hi") == filed(YOU)
        assert mail.send(f"@{YOU}", "hi", SOT_COMM_NAME=ME) == filed(YOU)


# The message


@pytest.mark.parametrize("listed", [True, False])
def test_the_most_that_a_request_holds_is_the_most_on_every_route(mail: Mail, listed: bool) -> None:
    mail.record_own_lock()
    to = YOU if listed else "far"
    room = MAX_FRAME_BYTES - len(comm_file_frame(ME, to, ""))
    (mail.me / "most").write_bytes(b"x" * room)
    (mail.me / "more").write_bytes(b"x" * (room + 1))
    with mail.hub():
        assert mail.send(f"@{to}", "--file", "most").out.strip() == f"filed -> @{to}"
        assert why(mail.send(f"@{to}", "--file", "more"), f"@{to}").endswith(
            f"and {MAX_FRAME_BYTES} is the most; nothing was sent"
        )


def test_what_cannot_be_read_is_told(mail: Mail) -> None:
    (mail.me / "latin").write_bytes(b"caf\xe9")
    for name, reason in {
        "none": "none could not be read: No such file or directory",
        "latin": "latin is not UTF-8 at byte 3",
    }.items():
        assert why(mail.send(f"@{YOU}", "--file", name)) == f"{reason}; nothing was sent"


@pytest.mark.skipif(sys.platform == "darwin", reason="argv of other bytes cannot be made there")
def test_words_that_are_not_utf_8_are_told(mail: Mail) -> None:
    mail.record_own_lock()
    done = mail.send(f"@{YOU}", os.fsdecode(b"caf\xe9"))
    assert why(done) == "the message is not UTF-8 at character 3; nothing was sent"
    assert mail.lines(YOU) == []


def test_a_wait_that_is_none_is_told(mail: Mail) -> None:
    done = mail.send(f"@{YOU}", "hi", SOT_INBOX_LOCK_WAIT_SECS="soon")
    assert why(done).startswith("SOT_INBOX_LOCK_WAIT_SECS is 'soon'; it takes a number")


# Broadcast


class TestBroadcast:
    @appends_itself
    def test_each_live_handle_but_oneself_gets_its_copy(self, mail: Mail) -> None:
        mail.record_own_lock()
        mail.enlist(third=row(), gone=GONE)
        done = mail.send("--broadcast", "@all", "hi")
        assert done == Result(
            0, f"  filed -> @third\n  filed -> @{YOU}\nbroadcast -> 2 of 2 live sessions\n", ""
        )
        for handle in (YOU, "third"):
            (line,) = mail.lines(handle)
            assert (line["from"], line["to"], line["msg"]) == (ME, "", "@all hi")
        assert mail.lines(ME) == mail.lines("gone") == []

    def test_the_daemon_is_told_that_it_is_one(self, mail: Mail) -> None:
        with mail.hub() as daemon:
            done = mail.send("--broadcast", "hi")
        assert done == Result(0, f"filed -> @{YOU}\nbroadcast -> 1 of 1 live sessions\n", "")
        assert daemon.requests[0]["payload"] == {
            "from": ME,
            "to": YOU,
            "text": "hi",
            "broadcast": True,
            "forwarded": False,
        }

    @appends_itself
    def test_one_that_fails_holds_up_no_other_and_is_told(self, mail: Mail) -> None:
        mail.record_own_lock()
        mail.enlist(first=row())
        with held_elsewhere(mail.inbox_lock("first")):
            done = mail.send("--broadcast", "hi", SOT_INBOX_LOCK_WAIT_SECS="0")
        assert done == Result(
            1,
            f"  filed -> @{YOU}\nbroadcast -> 1 of 2 live sessions\n",
            "FAILED -> @first: the inbox lock for @first was held for 0s — nothing was appended\n",
        )

    def test_with_nobody_there_nothing_failed(self, mail: Mail) -> None:
        mail.write({ME: mail.rows[ME]})
        assert mail.send("--broadcast", "hi") == Result(0, "broadcast -> 0 of 0 live sessions\n", "")

    def test_an_unreadable_registry_is_told(self, mail: Mail) -> None:
        mail.registry.write_text("")
        assert mail.send("--broadcast", "hi").err.startswith(
            f"FAILED -> --broadcast: the registry could not be read, so identity @{ME} is unverified; "
        )


# What becomes of the command


def test_a_reader_that_left_costs_no_traceback(mail: Mail) -> None:
    with mail.hub():
        assert broken_pipe(mail, "comm_send", f"@{YOU}", "hi") == (0, b"")


def test_an_interrupt_after_the_request_was_sent_says_that_nothing_is_known(mail: Mail) -> None:
    with mail.hub(answering(WELCOME)) as daemon:
        process = start(mail, "comm_send", f"@{YOU}", "hi", SOT_INBOX_LOCK_WAIT_SECS="60")
        assert daemon.asked.wait(BOUND_S)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=BOUND_S)
    assert (process.returncode, out) == (130, b"")
    assert err.startswith(f"FAILED -> @{YOU}: interrupted before an answer came".encode())


def test_an_answer_that_comes_with_noise_is_still_the_answer(mail: Mail) -> None:
    with mail.hub(answering(WELCOME + b"\nnoise\n" + FILED)):
        assert mail.send(f"@{YOU}", "hi") == filed(YOU)


@appends_itself
def test_a_send_imports_no_more_than_it_needs(mail: Mail) -> None:
    mail.record_own_lock()
    program = "import sys\nfrom verbs.comm_send import main\nmain()\nprint('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program, f"@{YOU}", "hi"],
        cwd=mail.me,
        env=mail.env,
        capture_output=True,
        text=True,
        check=True,
    )
    said, *imported = done.stdout.splitlines()
    assert said == f"  filed -> @{YOU}"
    assert {"argparse", "asyncio", "pydantic", "socket", "tomli", "websockets", "watchdog"}.isdisjoint(
        imported
    )
    assert "wire.server" not in imported


def test_the_row_s_other_members_stay(mail: Mail) -> None:
    mail.enlist(me_boxa={**row(mail.me), "expertise": ["files"], "new": {"a": 1}})
    with mail.hub():
        mail.send(f"@{YOU}", "hi")
    entry = json.loads(mail.registry.read_bytes())["agents"][ME]
    assert (entry["expertise"], entry["new"]) == (["files"], {"a": 1})
