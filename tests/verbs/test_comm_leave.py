"""comm-leave, as a real process."""

import pytest

from filing.registry_row import Present
from tests.filing.support import on_posix
from tests.verbs.book import BOX_PART, Book, prove_deaths, row
from tests.verbs.support import Result
from verbs import comm_leave
from verbs.comm_leave import UNREADABLE

ME = f"app-{BOX_PART}"


def not_joined(why: str) -> Result:
    return Result(0, f"Not joined: {why}. There is nothing to leave.\n", "")


def left(handle: str = ME) -> Result:
    return Result(0, f"@{handle} is removed from the registry; its inbox and read cursor stay.\n", "")


def absent(handle: str) -> Result:
    return Result(0, f"@{handle} is not in the registry: there is nothing to remove.\n", "")


# Leaving


def test_leaving_takes_the_row_and_the_self_file_and_leaves_the_mail(book: Book) -> None:
    book.run("comm_join")
    mail, cursor = book.home / "inbox" / f"{ME}.jsonl", book.home / "read" / f"{ME}.cursor"
    mail.write_text("{}\n")
    cursor.write_text("1 2-3")
    assert book.run("comm_leave") == left()
    assert book.agents() == {}
    assert not book.self_file().exists()
    assert (mail.read_text(), cursor.read_text()) == ("{}\n", "1 2-3")
    assert book.run("comm_leave") == not_joined(f"there is no {book.self_file()}")


def test_the_shared_slot_of_another_project_is_not_left(book: Book) -> None:
    there = book.project("there")
    book.run("comm_join", "--name", "theirs", cwd=there)
    here = book.project()
    why = f"{book.self_file()} names @theirs, claimed for root={there}, and this is {here}"
    assert book.run("comm_leave", cwd=here) == not_joined(why)
    assert list(book.agents()) == ["theirs"]
    assert book.self_file().exists()


def test_a_row_leaves_its_own_slot(book: Book) -> None:
    book.run("comm_join", SOT_WORKSPACE_ID="ws-app-1")
    assert book.run("comm_leave") == not_joined(f"there is no {book.self_file()}")
    assert book.run("comm_leave", SOT_WORKSPACE_ID="ws-app-1") == left()
    assert not book.self_file("ws-app-1").exists()


def test_a_name_in_the_environment_leaves_the_slot_of_another_handle(book: Book) -> None:
    book.run("comm_join", "--name", "mine")
    book.run("comm_join", "--name", "kept")
    assert book.run("comm_leave", SOT_COMM_NAME="mine") == left("mine")
    assert list(book.agents()) == ["kept"]
    assert book.self_file().exists()


def test_leaving_after_the_row_went_frees_the_slot(book: Book) -> None:
    book.run("comm_join")
    book.write({})
    assert book.run("comm_leave") == absent(ME)
    assert not book.self_file().exists()


@on_posix
def test_a_self_file_that_cannot_be_read_is_not_not_joined(book: Book) -> None:
    book.run("comm_join")
    book.self_file().unlink()
    book.self_file().symlink_to("/p/elsewhere.txt")
    told = f"the self file {book.self_file()} could not be read (is a symbolic link); nothing was removed"
    assert book.run("comm_leave") == Result(1, "", f"FAILED: {told}\n")
    assert book.run("comm_leave", "--name", ME) == left()


# Another's row


def test_an_orphans_row_goes_and_nothing_else(book: Book) -> None:
    book.run("comm_join")
    agents = book.agents()
    book.write({**agents, "orphan": row()})
    assert book.run("comm_leave", "--name", "@orphan") == left("orphan")
    assert book.agents() == agents
    assert book.self_file().exists()
    assert book.run("comm_leave", "--name", "orphan") == absent("orphan")


def test_an_orphan_that_the_shared_slot_names_for_another_project_keeps_its_self_file(book: Book) -> None:
    book.run("comm_join", "--name", "theirs", cwd=book.project("there"))
    assert book.run("comm_leave", "--name", "theirs", cwd=book.project("here")) == left("theirs")
    assert book.self_file().exists()


def test_a_row_that_goes_while_one_leaves_is_not_removed_twice(
    book: Book, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    book.write({})
    for variable in ("SOT_COMM_HOME", "SOT_SELF_HOST"):
        monkeypatch.setenv(variable, book.env[variable])
    monkeypatch.setattr(comm_leave, "read_row", lambda *_: Present({}))
    assert comm_leave.main(["--name", "orphan"]) == 0
    assert capsys.readouterr().out == absent("orphan").out


def test_naming_oneself_is_leaving(book: Book) -> None:
    book.run("comm_join")
    assert book.run("comm_leave", "--name", ME) == left()
    assert not book.self_file().exists()


@pytest.mark.parametrize("env", [{}, {"SOT_WORKSPACE_ID": "ws-app-1"}])
def test_a_handle_that_another_row_holds_is_refused(book: Book, env: dict[str, str]) -> None:
    book.write({"theirs": row(workspace_id="ws-x-1"), "boxz": row(workspace_id="ws-y-2", host="boxz")})
    before = book.everything()
    for handle, holder in (("theirs", "ws-x-1"), ("boxz", "ws-y-2")):
        why = f"it is held by a row (row {holder}); nothing was removed"
        told = f"comm-leave: REFUSING to remove @{handle}: {why}"
        assert book.run("comm_leave", "--name", handle, **env) == Result(1, "", f"{told}\n")
    assert book.everything() == before


def test_a_row_removes_what_it_holds_itself(book: Book) -> None:
    book.write({"mine": row(workspace_id="ws-app-1")})
    assert book.run("comm_leave", "--name", "mine", SOT_WORKSPACE_ID="ws-app-1") == left("mine")


def test_a_self_file_whose_handle_a_row_took_removes_nothing(book: Book) -> None:
    book.run("comm_join")
    book.write({ME: row(workspace_id="ws-x-1")})
    before = book.everything()
    told = (
        f"comm-leave: @{ME} belongs to row ws-x-1; this process carries no row id, "
        "so it is not this row's inbox; nothing was removed"
    )
    assert book.run("comm_leave") == Result(1, "", f"{told}\n")
    assert book.everything() == before


def test_a_handle_that_another_project_took_is_not_ones_own_to_leave(book: Book) -> None:
    book.run("comm_join")
    book.write({ME: row("/elsewhere/app")})
    before = book.everything()
    told = (
        f"comm-leave: your identity @{ME} is registered for another project (/elsewhere/app), and this is "
        f"{book.project()}; reclaim it with comm-join --name {ME}; nothing was removed"
    )
    assert book.run("comm_leave") == Result(1, "", f"{told}\n")
    assert book.everything() == before


# The registry and its lock


def test_an_unreadable_registry_is_left_as_it_is(book: Book) -> None:
    book.run("comm_join")
    book.registry.write_text('{\n"agents": {},\n}')
    for args in ([], ["--name", "x"]):
        done = book.run("comm_leave", *args)
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith(
            f"FAILED: {UNREADABLE}\n  {book.registry}:2: a comma stands before the closing }}\n  mend it "
        )
    assert book.self_file().exists()


def test_a_missing_registry_is_unreadable(book: Book) -> None:
    done = book.run("comm_leave", "--name", "x")
    note = f"there is no {book.registry}: comm-join, run in a project's folder, makes one"
    assert done == Result(1, "", f"FAILED: {UNREADABLE}\n  {note}\n")
    assert not book.home.exists()


def test_a_held_lock_keeps_the_row(book: Book) -> None:
    book.run("comm_join")
    with book.lock_held():
        done = book.run("comm_leave", SOT_LOCK_WAIT_SECS="0")
    assert done.code == 1
    assert done.err.startswith(f"FAILED: registry lock {book.lock} is held by boxa pid ")
    assert list(book.agents()) == [ME]
    assert book.self_file().exists()


def test_a_dead_holders_lock_keeps_nobody_in(book: Book) -> None:
    book.run("comm_join")
    prove_deaths(book.home)
    book.dead_holder()
    assert book.run("comm_leave", SOT_LOCK_WAIT_SECS="0") == left()


# The command line


def test_help_shows_how_it_is_typed(book: Book) -> None:
    done = book.run("comm_leave", "--help")
    assert (done.code, done.err) == (0, "")
    assert "  comm-leave --name MyRepo-old-lab " in done.out


@pytest.mark.parametrize("args", [["--bad"], ["app"], ["--name"], ["--name", "a b"], ["--name="]])
def test_what_it_cannot_read_is_a_usage_error(book: Book, args: list[str]) -> None:
    done = book.run("comm_leave", *args)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("usage: comm-leave ")
