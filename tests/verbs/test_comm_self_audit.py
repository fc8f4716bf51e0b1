"""comm-self-audit, as a real process."""

import json

import pytest

from tests.filing.support import on_posix
from tests.verbs.book import BOX_PART, HOST, Book
from tests.verbs.support import Result


def slot(book: Book, name: str, text: str) -> None:
    folder = book.home / "self"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{HOST}__{name}.txt").write_text(text, encoding="utf-8")


def healthy(book: Book) -> None:
    slot(book, "nopane", "beta-box\nrepo=beta\n")
    slot(book, "ws-alpha-1a", "alpha-box\nrepo=alpha\nroot=/p/alpha\n")
    slot(book, "ws-alpha-cx-2b", "alpha-cx-box\nrepo=alpha\n")
    slot(book, "ws-old-3c", "old-box\n")
    slot(book, "7", "numbered\nrepo=x\n")


def test_slots_that_name_their_own_project_pass(book: Book) -> None:
    healthy(book)
    counts = "1 agree, 1 agree but for a suffix, 1 carry no repo=, 2 belong to no row"
    assert book.run("comm_self_audit") == Result(0, f"comm-self-audit: {counts}\n", "")


def test_a_slot_that_names_another_project_is_reported(book: Book) -> None:
    healthy(book)
    slot(book, "ws-beta-4d", "alpha-box\nrepo=alpha\n")
    done = book.run("comm_self_audit")
    assert done.code == 1
    counts = "1 agree, 1 agree but for a suffix, 1 name another project, 1 carry no repo=, 2 belong to no row"
    assert done.out.splitlines() == [
        f"DIFFERS      {HOST}__ws-beta-4d.txt: names @alpha-box, repo=alpha, in a row of beta",
        f"comm-self-audit: {counts}",
    ]
    assert done.err.startswith("comm-join, run in such a row ")


def test_verbose_lists_them_all(book: Book) -> None:
    healthy(book)
    done = book.run("comm_self_audit", "-v")
    assert done.code == 0
    assert len(done.out.splitlines()) == 6
    assert f"agrees       {HOST}__ws-alpha-1a.txt: names @alpha-box, repo=alpha\n" in done.out
    assert f"no repo=     {HOST}__ws-old-3c.txt: names @old-box, no repo=\n" in done.out


def test_json_tells_each_slot(book: Book) -> None:
    slot(book, "ws-beta-4d", "alpha-box\nrepo=alpha\nroot=/p/alpha\n")
    done = book.run("comm_self_audit", "--json")
    assert (done.code, done.err) == (1, "")
    assert json.loads(done.out) == {
        "folder": str(book.home / "self"),
        "slots": [
            {
                "file": f"{HOST}__ws-beta-4d.txt",
                "audit": "differs",
                "key": "beta",
                "handle": "alpha-box",
                "repo": "alpha",
                "root": "/p/alpha",
            }
        ],
    }


@on_posix
def test_a_slot_that_cannot_be_read_does_not_pass(book: Book) -> None:
    (book.home / "self").mkdir(parents=True)
    (book.home / "self" / f"{HOST}__ws-alpha-1a.txt").symlink_to("/p/elsewhere.txt")
    done = book.run("comm_self_audit")
    assert done.code == 1
    assert done.out.startswith(f"unreadable   {HOST}__ws-alpha-1a.txt: is a symbolic link\n")
    assert json.loads(book.run("comm_self_audit", "--json").out)["slots"][0]["why"] == "is a symbolic link"


def test_an_empty_slot_names_nobody(book: Book) -> None:
    slot(book, "ws-alpha-1a", "")
    assert "ws-alpha-1a.txt: names nobody\n" in book.run("comm_self_audit", "-v").out


def test_controls_in_a_slot_reach_no_terminal(book: Book) -> None:
    slot(book, "ws-beta-4d", "\x1b[31mred\nrepo=al\x07pha\n")
    done = book.run("comm_self_audit")
    assert done.code == 1
    assert "\x1b" not in done.out
    assert "\x07" not in done.out


def test_where_nobody_has_joined_there_is_nothing_wrong(book: Book) -> None:
    assert book.run("comm_self_audit") == Result(0, "comm-self-audit: no self files\n", "")
    assert not book.home.exists()


def test_a_folder_that_is_none_is_told(book: Book) -> None:
    book.home.mkdir()
    (book.home / "self").write_text("")
    done = book.run("comm_self_audit")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"FAILED: the self files of {book.home} could not be read: ")


def test_what_a_join_writes_passes(book: Book) -> None:
    book.run("comm_join", SOT_WORKSPACE_ID="ws-app-1")
    assert f"names @app-{BOX_PART}, repo=app" in book.run("comm_self_audit", "--verbose").out
    assert book.run("comm_self_audit").code == 0


def test_help_shows_how_it_is_typed(book: Book) -> None:
    done = book.run("comm_self_audit", "--help")
    assert (done.code, done.err) == (0, "")
    assert "  comm-self-audit --verbose " in done.out


@pytest.mark.parametrize("args", [["--bad"], ["x"]])
def test_what_it_cannot_read_is_a_usage_error(book: Book, args: list[str]) -> None:
    done = book.run("comm_self_audit", *args)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("usage: comm-self-audit ")
