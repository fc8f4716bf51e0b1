"""comm-status as a real process: the ten verbs on a row, who may send them, and what is shown."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from filing.work_state import DECLARATIONS, EVENTS
from tests.filing.support import table
from tests.verbs.book import row
from tests.verbs.mail import ME, STAMP, YOU, Mail, broken_pipe
from tests.verbs.support import BOUND_S, ROOT, Result
from verbs.comm_status import described, turn_path

WRITTEN = Result(0, "", "")
TEXT_OF = {"blocked": ["which?"], "waiting": ["for CI"]}


def entry(mail: Mail) -> dict[str, Any]:
    found: dict[str, Any] = mail.agents()[ME]
    return found


def discarded(sentence: str, code: int = 1) -> Result:
    return Result(code, "", f"{sentence}\n")


# The ten verbs


@pytest.mark.parametrize("verb", [*EVENTS, *DECLARATIONS])
def test_a_verb_stamps_the_row_and_leaves_the_rest(mail: Mail, verb: str) -> None:
    mail.enlist(me_boxa={**row(mail.me), "last_seen": STAMP, "expertise": ["files"], "new": {"a": 1}})
    assert mail.status(verb, *TEXT_OF.get(verb, [])) == WRITTEN
    after = entry(mail)
    assert after["status_at"] == after["last_seen"] > STAMP
    assert (after["expertise"], after["new"], after["root"]) == (["files"], {"a": 1}, str(mail.me))
    assert mail.agents()[YOU] == mail.rows[YOU]


def test_a_turn_as_hooks_and_the_session_tell_it(mail: Mail) -> None:
    told = []
    for words in [
        ["prompt", "--origin", "user"],
        ["working", "rebuilding", "backend"],
        ["blocked", "which branch?"],
        ["dialog", "Allow Bash?"],
        ["resumed"],
        ["stop"],
        ["prompt", "--origin", "user"],
        ["stop"],
    ]:
        assert mail.status(*words) == WRITTEN
        told.append((words[0], entry(mail)["state"], entry(mail)["summary"]))
    assert told == [
        ("prompt", "working", ""),
        ("working", "working", "rebuilding backend"),
        ("blocked", "working", ""),
        ("dialog", "blocked", "Allow Bash?"),
        ("resumed", "working", ""),
        ("stop", "blocked", "which branch?"),
        ("prompt", "working", ""),
        ("stop", "done", ""),
    ]


def test_no_text_keeps_the_note_and_an_empty_one_clears_it(mail: Mail) -> None:
    mail.status("working", "on it")
    mail.status("idle")
    assert entry(mail)["note"] == "on it"
    mail.status("idle", "")
    assert entry(mail)["note"] == ""


@pytest.mark.parametrize("text", ["-- a point", "@you", "/clear", "two\nlines", '"q"', "🎉"])
def test_a_text_is_kept_as_it_is(mail: Mail, text: str) -> None:
    assert mail.status("working", text) == WRITTEN
    assert entry(mail)["note"] == text
    assert entry(mail)["summary"] == text.replace("\n", " ")


def test_the_origin_of_a_turn(mail: Mail) -> None:
    for env, words, floor in [
        ({}, [], "machine"),
        ({"COMM_STATUS_ORIGIN": "user"}, [], "user"),
        ({"COMM_STATUS_ORIGIN": "user"}, ["--origin", "machine"], "machine"),
    ]:
        assert mail.status("prompt", *words, **env) == WRITTEN
        assert entry(mail)["floor"] == floor


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["nix"], f"unknown verb 'nix' (one of {', '.join(EVENTS + DECLARATIONS)})"),
        (["blocked"], "blocked needs its text"),
        (["waiting", " "], "waiting needs its text"),
        (["prompt", "--origin", "me"], "the origin of a turn is user or machine, not 'me'"),
    ],
)
def test_a_usage_error_exits_2_and_writes_nothing(mail: Mail, words: list[str], why: str) -> None:
    assert mail.status(*words) == discarded(f"comm-status: {why} -- stamp discarded", 2)
    assert mail.agents() == mail.rows


IN_A_DELETED_FOLDER = ["sh", "-c", 'mkdir gone && cd gone && rmdir ../gone && exec "$@"', "sh"]


@pytest.mark.skipif(sys.platform == "win32", reason="a command line is Unicode there")
def test_a_text_that_is_no_utf8_says_where(mail: Mail) -> None:
    why = "comm-status: the text is not UTF-8 at character 3 -- stamp discarded"
    for verb in ("working", "dialog"):
        assert mail.status(verb, "caf\udce9") == discarded(why, 2)
    assert mail.agents() == mail.rows


def in_a_deleted_folder(mail: Mail, verb: str, *words: str, **env: str) -> Result:
    done = subprocess.run(
        [*IN_A_DELETED_FOLDER, *mail.command(verb, *words)],
        cwd=mail.me,
        env={**mail.env, "PYTHONPATH": str(ROOT), **env},
        capture_output=True,
        timeout=BOUND_S,
        text=True,
    )
    return Result(done.returncode, done.stdout, done.stderr)


@pytest.mark.skipif(sys.platform == "win32", reason="a working folder cannot be deleted there")
@pytest.mark.parametrize("verb", EVENTS)
def test_an_event_outside_any_joined_session_is_silent_wherever_it_is(mail: Mail, verb: str) -> None:
    lost = "FAILED: the working folder cannot be told: No such file or directory"
    joined = in_a_deleted_folder(mail, "comm_status", verb)
    assert (joined.code, joined.out) == (1, "")
    assert joined.err.startswith(lost)
    assert in_a_deleted_folder(mail, "comm_leave").err.startswith(lost)
    assert in_a_deleted_folder(mail, "comm_status", verb, SOT_COMM_NAME="nobody") == WRITTEN
    mail.self_file().unlink()
    assert in_a_deleted_folder(mail, "comm_status", verb) == WRITTEN
    assert mail.status(verb, "--origin", "me") == WRITTEN
    assert mail.status(verb, COMM_STATUS_ORIGIN="me", SOT_COMM_NAME="nobody") == WRITTEN
    assert mail.agents() == mail.rows


def test_a_hold_without_a_text_keeps_the_one_that_stands(mail: Mail) -> None:
    mail.status("waiting", "for CI")
    assert mail.status("waiting") == WRITTEN
    assert entry(mail)["waiting"] == "for CI"


# A turn's file


def test_a_turn_is_marked_while_it_runs(mail: Mail) -> None:
    mark = mail.home / "state" / "turn-boxa__nopane"
    mail.status("working")
    assert not mark.exists()
    mail.status("prompt")
    assert mark.exists()
    if sys.platform != "win32":
        assert mark.stat().st_mode & 0o777 == 0o600
    mail.status("dialog", "?")
    assert mark.exists()
    mail.status("stop")
    assert not mark.exists()
    assert mail.status("stop") == WRITTEN


def test_a_turn_that_cannot_be_marked_is_stamped(mail: Mail) -> None:
    (mail.home / "state").write_text("in the way")
    assert mail.status("prompt") == WRITTEN
    assert entry(mail)["state"] == "working"


def test_the_mark_is_the_self_slot_s() -> None:
    assert turn_path("/c", "/c/self/boxa__ws-a-1.txt") == str(Path("/c") / "state" / "turn-boxa__ws-a-1")


# Who may stamp


@pytest.mark.parametrize("verb", EVENTS)
def test_an_event_outside_any_joined_session_is_silent(mail: Mail, verb: str) -> None:
    mail.write({})
    before = mail.everything()
    assert mail.status(verb) == WRITTEN
    mail.self_file().unlink()
    assert mail.status(verb) == WRITTEN
    assert mail.status(verb, SOT_COMM_HOME=str(mail.folder / "none")) == WRITTEN
    del before[str(mail.self_file())]
    assert mail.everything() == before
    assert not (mail.folder / "none").exists()


@pytest.mark.parametrize("verb", DECLARATIONS)
def test_a_declaration_there_is_lost_and_says_so(mail: Mail, verb: str) -> None:
    mail.write({})
    done = mail.status(verb, *TEXT_OF.get(verb, []))
    assert done == discarded(
        f"comm-status: no registry row for @{ME} -- stamp discarded; run it where comm-join was run"
    )
    mail.self_file().unlink()
    done = mail.status(verb, *TEXT_OF.get(verb, []))
    first, why = done.err.splitlines()
    assert first.startswith("comm-status: no registry row for this session -- stamp discarded")
    assert why == f"  there is no {mail.self_file()}"
    assert done.code == 1


@pytest.mark.parametrize("verb", ["prompt", "working"])
def test_an_unreadable_registry_fails_every_verb(mail: Mail, verb: str) -> None:
    mail.registry.write_text('{"agents": {"a": 1,}}')
    done = mail.status(verb)
    first, place, _ = done.err.splitlines()
    assert (done.code, done.out) == (1, "")
    assert first == "FAILED: the registry could not be read; stamp discarded"
    assert place == f"  {mail.registry}:1: a comma stands before the closing }}"


def test_another_s_row_is_not_stamped(mail: Mail) -> None:
    for held, why in {
        "ws-me-1": f"@{ME} belongs to row ws-me-1; this process carries no row id, "
        "so it is not this row's inbox",
        "": f"your identity @{ME} is registered for another project (/elsewhere), and this is {mail.me}; "
        f"reclaim it with comm-join --name {ME}",
    }.items():
        mail.enlist(me_boxa={**row("/elsewhere"), "workspace_id": held})
        assert mail.status("prompt") == WRITTEN
        assert mail.status("done") == discarded(f"comm-status: {why} -- stamp discarded")
        assert mail.agents() == mail.rows


def test_a_held_registry_lock_is_waited_for_and_named(mail: Mail) -> None:
    with mail.lock_held():
        done = mail.status("done", SOT_LOCK_WAIT_SECS="0.1")
    assert done.code == 1
    assert done.err.startswith(f"FAILED: registry lock {mail.lock} is held by boxa pid ")
    assert mail.agents() == mail.rows
    assert "SOT_LOCK_WAIT_SECS is 'x'" in mail.status("done", SOT_LOCK_WAIT_SECS="x").err


# SOT_COMM_ROW_HANDLE


@pytest.mark.parametrize("verb", ["prompt", "stop", "join", "working", "done"])
def test_a_row_s_handle_takes_only_what_a_screen_can_show(mail: Mail, verb: str) -> None:
    why = f"SOT_COMM_ROW_HANDLE takes only dialog and resumed, not {verb!r}"
    assert mail.status(verb, SOT_COMM_ROW_HANDLE=YOU) == discarded(
        f"comm-status: {why} -- stamp discarded", 2
    )
    assert mail.agents() == mail.rows


def test_a_row_s_handle_is_taken_only_from_the_daemon(mail: Mail) -> None:
    done = mail.status("dialog", "Allow?", SOT_COMM_ROW_HANDLE=YOU)
    why = "SOT_COMM_ROW_HANDLE is taken only from sotd, its parent"
    assert done == discarded(f"comm-status: {why} -- stamp discarded")
    assert mail.agents() == mail.rows


@pytest.mark.skipif(sys.platform != "linux", reason="a parent's program is told on Linux alone")
def test_the_daemon_says_what_a_row_s_screen_shows(mail: Mail) -> None:
    daemon = mail.folder / "sotd"
    shutil.copy(Path("/bin/sh").resolve(), daemon)
    for words, state in {("dialog", "Allow?"): "blocked", ("resumed",): "idle"}.items():
        done = subprocess.run(
            [str(daemon), "-c", '"$@"; exit $?', "sotd", *mail.command("comm_status", *words)],
            cwd=mail.folder,
            env={**mail.env, "SOT_COMM_ROW_HANDLE": YOU},
            capture_output=True,
            timeout=BOUND_S,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert mail.agents()[YOU]["state"] == state
    assert mail.agents()[ME] == mail.rows[ME]
    assert not (mail.home / "state").exists()


# What is shown


def test_without_a_verb_the_state_is_shown(mail: Mail) -> None:
    assert mail.status() == Result(0, f"@{ME} is idle\n", "")
    mail.status("waiting", "for CI\x1b[31m")
    at = entry(mail)["status_at"]
    assert mail.status() == Result(0, f"@{ME} is waiting: for CI [31m (since {at})\n", "")
    told = json.loads(mail.status("--json").out)
    assert (told["handle"], told["state"], told["facts"]) == (
        ME,
        "waiting",
        {"waiting": "for CI\x1b[31m"},
    )
    told = json.loads(mail.status("done", "it is", "--json").out)
    assert (told["state"], told["summary"], told["facts"]) == (
        "done",
        "it is",
        {"done": True, "note": "it is"},
    )


@pytest.mark.parametrize("case", table("work_state", "reduction"), ids=lambda case: str(case["facts"]))
def test_what_is_shown_is_derived_from_the_facts(case: dict[str, Any]) -> None:
    told = described("h", {**case["facts"], "state": "written over", "summary": "by a client"})
    assert (told["state"], told["summary"]) == (case["state"], case["summary"])


def test_a_session_that_has_no_state_says_why(mail: Mail) -> None:
    mail.write({})
    why = f"your identity @{ME} has no registry row; reclaim it with comm-join --name {ME}"
    assert mail.status() == Result(1, "", f"FAILED: {why}\n")
    mail.self_file().unlink()
    why = f"not joined: there is no {mail.self_file()}; run comm-join first"
    assert mail.status() == Result(1, "", f"FAILED: {why}\n")
    mail.pin(ME, mail.me)
    mail.registry.write_text("")
    assert mail.status().err.startswith("FAILED: the registry could not be read; nothing was shown\n")


def test_help_names_the_ten_verbs(mail: Mail) -> None:
    done = mail.status("--help")
    assert done.code == 0
    assert all(verb in done.out for verb in EVENTS + DECLARATIONS)
    assert 'comm-status working "rebuilding backend"' in done.out


def test_a_reader_that_left_costs_no_traceback(mail: Mail) -> None:
    assert broken_pipe(mail, "comm_status") == (0, b"")
