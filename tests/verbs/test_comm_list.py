"""comm-list: the rows as they are listed, and the command as a real process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from filing.liveness import utc_stamp
from tests.filing.support import on_posix
from tests.verbs.book import BOX_PART, Book, ended, row
from tests.verbs.support import BOUND_S, Result
from verbs.comm_list import UNREADABLE, human_age, listed, wants_colour
from verbs.table import width

ME = f"app-{BOX_PART}"
NOW = 1_800_000_000.0
HOUR = 3600


def seen(age_s: float) -> dict[str, str]:
    return {"last_seen": utc_stamp(NOW - age_s)}


# The rows


def test_the_live_come_first_by_name_and_then_the_latest_seen() -> None:
    agents: dict[str, Any] = {
        "z": seen(0),
        "old": seen(9 * HOUR),
        "a": seen(599),
        "never": {},
        "late": seen(600),
        "odd": "text",
        "ahead": seen(-HOUR),
    }
    rows = listed(agents, "z", NOW)
    assert [agent.handle for agent in rows] == ["a", "ahead", "z", "late", "old", "never", "odd"]
    assert [agent.live for agent in rows] == [True] * 3 + [False] * 4
    assert [agent.age_s for agent in rows] == [599, 0, 0, 600, 9 * HOUR, None, None]
    assert [agent.handle for agent in rows if agent.me] == ["z"]


@pytest.mark.parametrize(
    ("age_s", "told"),
    [
        (None, "never"),
        (0, "0s ago"),
        (59, "59s ago"),
        (60, "1m ago"),
        (HOUR - 1, "59m ago"),
        (HOUR, "1h ago"),
        (24 * HOUR - 1, "23h ago"),
        (24 * HOUR, "1d ago"),
        (1000 * 24 * HOUR, "1000d ago"),
    ],
)
def test_an_age_is_told_in_one_unit(age_s: int | None, told: str) -> None:
    assert human_age(age_s) == told


@pytest.mark.parametrize(
    ("env", "platform", "coloured"),
    [
        ({}, "linux", True),
        ({"NO_COLOR": ""}, "linux", True),
        ({"NO_COLOR": "1"}, "linux", False),
        ({"TERM": "dumb"}, "linux", False),
        ({}, "win32", False),
        ({"WT_SESSION": "x"}, "win32", True),
    ],
)
def test_when_there_are_colours(env: dict[str, str], platform: str, coloured: bool) -> None:
    assert wants_colour(env, platform) is coloured


# The command


def several(book: Book) -> None:
    book.write(
        {
            "old-boxz": row(host="boxz", age_s=3 * HOUR + 5, state="working", summary="half\n done"),
            ME: row(book.project(), state="done", summary="a\tb \x1b[31mred\x07"),
            "asks-boxz": row(host="boxz", state="blocked", summary="which branch?"),
            "new-boxz": row(host="boxz", status="spawning"),
            "odd\x1b[2J": None,
        }
    )


def test_a_table_for_a_file_is_whole_aligned_and_plain(book: Book) -> None:
    several(book)
    handles = [f"{ME} (me)", "asks-boxz", "new-boxz", "old-boxz", "odd [2J"]
    handles[:3] = sorted(handles[:3])
    texts = {
        f"{ME} (me)": ("boxa", "live", "done", "a b [31mred"),
        "asks-boxz": ("boxz", "live", "blocked", "which branch?"),
        "new-boxz": ("boxz", "live", "spawning", ""),
        "old-boxz": ("boxz", "3h ago", "working", "half done"),
        "odd [2J": ("-", "never", "idle", ""),
    }
    done = book.run("comm_list", SOT_COMM_NAME=ME, COLUMNS="20")
    assert (done.code, done.err) == (0, "")
    wide = max(map(len, handles))
    expected = [f"{'HANDLE':<{wide}}  BOX   SEEN    STATE     SUMMARY"]
    for handle in handles:
        box, when, state, summary = texts[handle]
        expected.append(f"{handle:<{wide}}  {box:<4}  {when:<6}  {state:<8}  {summary}".rstrip())
    assert done.out.splitlines() == expected
    assert not set("\x1b\x07\t") & set(done.out)


def test_json_tells_each_row(book: Book) -> None:
    several(book)
    done = book.run("comm_list", "--json", SOT_COMM_NAME=ME)
    told = json.loads(done.out)
    assert (done.code, done.err) == (0, "")
    assert told["registry"] == str(book.registry)
    agents = {agent["handle"]: agent for agent in told["agents"]}
    assert [agent["handle"] for agent in told["agents"] if agent["live"]] == sorted(
        [ME, "asks-boxz", "new-boxz"]
    )
    assert agents[ME]["me"] is True
    assert agents[ME]["unread"] == 0
    assert agents[ME]["summary"] == "a\tb \x1b[31mred\x07"
    assert agents["old-boxz"]["age_s"] >= 3 * HOUR
    assert (agents["old-boxz"]["state"], agents["old-boxz"]["host"]) == ("working", "boxz")
    assert "unread" not in agents["old-boxz"]
    assert agents["odd\x1b[2J"]["age_s"] is None
    assert "\x1b" not in done.out


@on_posix
def test_a_terminal_gets_colours_and_no_line_that_wraps(book: Book) -> None:
    several(book)
    coloured = on_a_terminal(book, COLUMNS="30")
    assert "\x1b[32mlive\x1b[0m" in coloured
    assert "\x1b[31mred" not in coloured
    plain = on_a_terminal(book, COLUMNS="30", NO_COLOR="1")
    assert "\x1b" not in plain
    lines = plain.replace("\r\n", "\n").splitlines()
    assert len(lines) == 6
    assert all(width(line) <= 30 for line in lines)
    assert any(line.endswith("…") for line in lines)


def on_a_terminal(book: Book, **env: str) -> str:
    """What comm-list writes to a terminal."""
    if sys.platform == "win32":
        pytest.skip("no pty there")
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        book.command("comm_list"),
        cwd=book.project(),
        env={**book.env, "TERM": "xterm", "SOT_COMM_NAME": ME, **env},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
    )
    os.close(theirs)
    written = b""
    while block := _read(ours):
        written += block
    os.close(ours)
    _, err = process.communicate(timeout=BOUND_S)
    assert (process.returncode, err) == (0, b"")
    return written.decode()


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 65_536)
    except OSError:  # Linux: the other side has closed
        return b""


def test_who_is_me_comes_from_the_self_file(book: Book) -> None:
    book.run("comm_join")
    assert f"{ME} (me)  " in book.run("comm_list").out
    assert "(me)" not in book.run("comm_list", SOT_WORKSPACE_ID="ws-x-1").out


def test_a_handle_that_somebody_else_took_is_not_me(book: Book) -> None:
    book.run("comm_join")
    book.write({ME: row(workspace_id="ws-x-1")})
    done = book.run("comm_list")
    assert done.code == 0
    assert ME in done.out
    assert "(me)" not in done.out
    book.write({ME: row("/elsewhere/app")})
    assert "(me)" not in book.run("comm_list").out


def test_ones_own_unread_mail_is_told(book: Book) -> None:
    book.run("comm_join")
    line = json.dumps({"from": "peer", "to": ME, "repo": "r", "msg": "hi", "ts": "2026-01-01T00:00:00Z"})
    broadcast = json.dumps(
        {"from": "peer", "to": "", "repo": "r", "msg": "all", "ts": "2026-01-01T00:00:00Z"}
    )
    inbox = book.home / "inbox" / f"{ME}.jsonl"
    inbox.write_text(f"{line}\n{broadcast}\n")
    assert book.run("comm_list").out.endswith(f"\n\n1 unread for @{ME}: comm-poll shows it\n")
    inbox.write_text(f"{line}\n{line}\n{line}\n")
    (book.home / "read" / f"{ME}.cursor").write_text("1")
    assert book.run("comm_list").out.endswith(f"\n\n2 unread for @{ME}: comm-poll shows them\n")
    assert json.loads(book.run("comm_list", "--json").out)["agents"][0]["unread"] == 2


def test_a_session_without_its_row_is_told_how_to_get_it_back(book: Book) -> None:
    book.run("comm_join")
    book.write({"peer": row()})
    told = f"\nThis session is @{ME}, which has no row: comm-join --name {ME} takes it back\n"
    assert book.run("comm_list").out.endswith(told)


def test_a_name_that_is_no_handle_has_no_mail(book: Book) -> None:
    book.write({"../x": row(book.project())})
    done = book.run("comm_list", SOT_COMM_NAME="../x")
    assert (done.code, done.err) == (0, "")
    assert "../x (me)  " in done.out


def test_an_empty_registry_says_how_to_join(book: Book) -> None:
    book.write({})
    told = f"Nobody has joined yet ({book.registry}). comm-join, run in a project's folder, joins it.\n"
    assert book.run("comm_list") == Result(0, told, "")
    assert json.loads(book.run("comm_list", "--json").out) == {"registry": str(book.registry), "agents": []}


@pytest.mark.parametrize("args", [[], ["--json"]])
def test_a_registry_that_cannot_be_read_lists_nobody(book: Book, args: list[str]) -> None:
    done = book.run("comm_list", *args)
    note = f"there is no {book.registry}: comm-join, run in a project's folder, makes one"
    assert done == Result(1, "", f"FAILED: {UNREADABLE}\n  {note}\n")
    book.write({})
    book.registry.write_text('{"protocol_version": 1,\n "agents": {\n  "a": {"host": "b",}\n }}')
    done = book.run("comm_list", *args)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(
        f"FAILED: {UNREADABLE}\n  {book.registry}:3: a comma stands before the closing }}\n  mend it "
    )


def test_a_list_leaves_nothing_behind(book: Book) -> None:
    several(book)
    before = book.everything()
    assert book.run("comm_list").code == 0
    assert book.everything() == before


@on_posix
def test_a_reader_that_has_gone_is_no_error(book: Book) -> None:
    book.write({f"h{number}": row() for number in range(50)})
    for args in ([], ["--json"], ["--help"]):
        unread, full = os.pipe()
        os.close(unread)
        process = subprocess.Popen(
            book.command("comm_list", *args), cwd=book.project(), env=book.env, stdout=full, stderr=-1
        )
        os.close(full)
        _, err = process.communicate(timeout=BOUND_S)
        assert (process.returncode, err) == (0, b"")


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
def test_a_list_that_could_not_be_written_is_no_success(book: Book) -> None:
    book.write({"h": row()})
    with Path("/dev/full").open("wb") as full:
        process = subprocess.Popen(
            book.command("comm_list"), cwd=book.project(), env=book.env, stdout=full, stderr=subprocess.PIPE
        )
        _, err = process.communicate(timeout=BOUND_S)
    told = b"FAILED: the list could not be written: No space left on device (ENOSPC)\n"
    assert (process.returncode, err) == (1, told)


def test_a_thousand_rows_are_listed(book: Book) -> None:
    book.write({f"h{number:04}-boxz": row(age_s=number) for number in range(1000)})
    lines = book.run("comm_list").out.splitlines()
    assert len(lines) == 1001
    assert lines[1].startswith("h0000-boxz ")


def test_help_shows_how_it_is_typed(book: Book) -> None:
    done = book.run("comm_list", "--help")
    assert (done.code, done.err) == (0, "")
    assert "  comm-list --json | jq " in done.out
    assert book.run("comm_list", "--version").out.startswith("comm-list ")


@pytest.mark.parametrize("args", [["--bad\x1b[31m"], ["x"], ["--json=1"]])
def test_what_it_cannot_read_is_a_usage_error(book: Book, args: list[str]) -> None:
    done = ended(book.start("comm_list", *args))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("usage: comm-list ")
    assert "\x1b" not in done.err
