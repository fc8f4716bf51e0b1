"""comm-registry-lock-clear, as a real process."""

from tests.filing.support import on_posix
from tests.verbs.book import Book, prove_deaths
from tests.verbs.support import Result


def test_without_a_lock_it_is_free(book: Book) -> None:
    free = Result(0, f"registry lock {book.lock} is free\n", "")
    assert book.run("comm_registry_lock_clear") == free
    assert not book.home.exists()
    book.run("comm_join")
    assert book.run("comm_registry_lock_clear") == free


def test_a_dead_holders_lock_is_cleared(book: Book) -> None:
    book.write({})
    prove_deaths(book.home)
    book.dead_holder()
    pid = book.lock.read_text().split(":")[4]
    done = book.run("comm_registry_lock_clear")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"registry lock {book.lock} was cleared: its holder, boxa pid {pid} start ")
    assert not book.lock.exists()
    assert book.run("comm_join").code == 0


def test_a_live_holder_keeps_it(book: Book) -> None:
    book.write({})
    with book.lock_held() as holder:
        record = book.lock.read_text()
        done = book.run("comm_registry_lock_clear")
        assert book.lock.read_text() == record
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"registry lock {book.lock} is held by boxa pid {holder.pid} start ")
    assert not book.lock.exists()


def test_a_holder_of_another_machine_keeps_it(book: Book) -> None:
    book.write({})
    prove_deaths(book.home)
    book.lock.write_text("boxz:m:b:1:7:9\n")
    done = book.run("comm_registry_lock_clear")
    assert done.code == 1
    assert done.err.endswith(
        "If it is dead: run any comm command on boxz, or, if boxz will not run again "
        f"or a comm command there says it cannot prove a death, remove {book.lock} by hand.\n"
    )


def test_an_older_versions_lock_is_left_to_a_person(book: Book) -> None:
    book.write({})
    book.lock.mkdir()
    done = book.run("comm_registry_lock_clear")
    assert done.code == 1
    assert "held by an older version that records no holder. " in done.err
    assert done.err.endswith(f"remove {book.lock} by hand and retry.\n")
    assert book.lock.is_dir()


@on_posix
def test_a_link_that_leads_nowhere_is_not_free(book: Book) -> None:
    book.write({})
    book.lock.symlink_to("gone")
    why = "its record names no holder (it is a symbolic link that leads nowhere). "
    done = book.run("comm_registry_lock_clear")
    assert (done.code, done.out) == (1, "")
    assert why in done.err
    assert done.err.endswith(f"remove {book.lock} by hand and retry.\n")
    assert why in book.run("comm_join", SOT_LOCK_WAIT_SECS="0").err
    assert book.lock.is_symlink()


def test_controls_in_a_record_reach_no_terminal(book: Book) -> None:
    book.write({})
    book.lock.write_text("\x1b[31m:m:b:1:7:9\n")
    done = book.run("comm_registry_lock_clear")
    assert done.code == 1
    assert "\x1b" not in done.err


def test_help_and_usage(book: Book) -> None:
    done = book.run("comm_registry_lock_clear", "--help")
    assert (done.code, done.err) == (0, "")
    assert "  comm-registry-lock-clear " in done.out
    done = book.run("comm_registry_lock_clear", "now")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("usage: comm-registry-lock-clear ")
