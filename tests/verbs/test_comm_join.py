"""comm-join, as a real process."""

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from filing.naming import tiers
from filing.registry_write import update_registry
from tests.filing.support import on_posix
from tests.support.mounts import fat
from tests.verbs.book import BOX_PART, HOST, Book, ended, mount, prove_deaths, row, unmount
from tests.verbs.support import Result
from verbs import comm_join
from verbs.project import raw_host

ME = f"app-{BOX_PART}"
UNREADABLE = "the registry could not be read, so no handle was derived; nothing was written"
NOT_UPDATED = "the registry could not be read or updated, so nothing was written"


def held_by_a_row(handle: str, holder: str = "ws-x-1") -> str:
    return (
        f"comm-join: REFUSING to join: @{handle} is held by a row (row {holder}); "
        "a session outside any row cannot join as it\n"
    )


# Joining


def test_a_first_join_makes_the_folder_the_row_and_the_self_file(book: Book) -> None:
    root = book.project()
    (root / "src").mkdir()
    done = book.run("comm_join", "--expertise", "files, rust-backend,, ", cwd=root / "src")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"Joined as @{ME}",
        f"  project     app, {root}",
        f"  box         {HOST}, outside any row",
        f"  reached by  comm-send @{ME} 'text', from any box",
        f"  inbox       {book.home}/inbox/{ME}.jsonl  (comm-poll shows it)",
    ]
    assert book.document()["protocol_version"] == 1
    entry = book.agents()[ME]
    stamp = entry["joined"]
    assert entry == {
        "host": HOST,
        "workspace_id": "",
        "repo": "app",
        "root": str(root),
        "expertise": ["files", "rust-backend"],
        "status": "idle",
        "joined": stamp,
        "last_seen": stamp,
        "state": "idle",
        "summary": "",
        "status_at": stamp,
    }
    assert book.self_file().read_text() == f"{ME}\nrepo=app\nroot={root}\n"
    assert sorted(path.name for path in book.home.iterdir()) == [
        "inbox",
        "read",
        "registry.json",
        "self",
        "state",
    ]


@on_posix
def test_all_that_a_join_makes_is_private(book: Book) -> None:
    assert book.run("comm_join").code == 0
    for path in (book.home, *book.home.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_json_says_the_same_to_a_program(book: Book) -> None:
    done = book.run("comm_join", "--json", SOT_WORKSPACE_ID="ws-app-1")
    told = json.loads(done.out)
    assert (done.code, done.err) == (0, "")
    assert told["row"] == book.agents()[ME]
    assert told["row"]["workspace_id"] == "ws-app-1"
    assert {key: told[key] for key in ("handle", "rejoined", "tier", "protocol_version", "notices")} == {
        "handle": ME,
        "rejoined": False,
        "tier": 1,
        "protocol_version": 1,
        "notices": [],
    }
    assert told["registry"] == str(book.registry)
    assert told["inbox"] == str(book.home / "inbox" / f"{ME}.jsonl")
    assert told["self_file"] == str(book.self_file("ws-app-1"))
    assert json.loads(book.run("comm_join", "--json", SOT_WORKSPACE_ID="ws-app-1").out)["rejoined"] is True


def test_joining_again_keeps_the_facts_and_the_other_rows_as_they_are(book: Book) -> None:
    other = {"host": "boxz", "odd": [1, None]}
    old = row(book.project(), joined="2026-01-01T00:00:00Z", expertise=["a"], note="building", floor="user")
    book.write({"other-boxz": other, ME: old}, future={"x": 1})
    assert book.run("comm_join").out.startswith(f"Joined again as @{ME}\n")
    document = book.document()
    assert list(document) == ["protocol_version", "agents", "future"]
    assert document["agents"]["other-boxz"] == other
    entry = document["agents"][ME]
    kept = {key: entry[key] for key in ("joined", "expertise", "state", "summary", "floor")}
    assert kept == {
        "joined": "2026-01-01T00:00:00Z",
        "expertise": ["a"],
        "state": "working",
        "summary": "building",
        "floor": "user",
    }


# The handle


@pytest.mark.parametrize(
    ("args", "env"),
    [
        (["--name", "mine"], {}),
        (["--name=@mine"], {"SOT_COMM_NAME": "other"}),
        ([], {"SOT_COMM_NAME": "mine"}),
    ],
)
def test_a_name_that_is_given_overrides_the_derived_one(
    book: Book, args: list[str], env: dict[str, str]
) -> None:
    assert book.run("comm_join", *args, **env).code == 0
    assert list(book.agents()) == ["mine"]
    assert book.self_file().read_text().startswith("mine\n")
    # And the self file keeps it from then on.
    assert book.run("comm_join").out.startswith("Joined again as @mine\n")


def test_the_shared_slot_of_another_project_is_not_this_ones_handle(book: Book) -> None:
    book.run("comm_join", "--name", "mine", cwd=book.project("one"))
    assert book.run("comm_join", cwd=book.project("two")).code == 0
    assert set(book.agents()) == {"mine", f"two-{BOX_PART}"}


def test_projects_of_one_name_get_a_handle_each_and_are_told(book: Book) -> None:
    first, second = book.project("a/app"), book.project("b/app")
    assert book.run("comm_join", cwd=first).err == ""
    done = book.run("comm_join", cwd=second)
    tier2 = f"app-b-{BOX_PART}"
    assert done.err == f"comm: @{ME} (by {first}) already held — joining as @{tier2} instead\n"
    assert done.out.startswith(f"Joined as @{tier2}\n")
    assert {handle: entry["root"] for handle, entry in book.agents().items()} == {
        ME: str(first),
        tier2: str(second),
    }


def test_six_joins_at_once_are_all_written(book: Book) -> None:
    roots = [book.project(f"{letter}/app") for letter in "abcdef"]
    running = [
        book.start("comm_join", cwd=root, SOT_WORKSPACE_ID=f"ws-app-{number}")
        for number, root in enumerate(roots)
    ]
    assert [ended(process).code for process in running] == [0] * 6
    agents = book.agents()
    assert {entry["root"] for entry in agents.values()} == set(map(str, roots))
    assert set(agents) == {ME} | {
        f"app-{entry['root'].split('/')[-2]}-{BOX_PART}" for handle, entry in agents.items() if handle != ME
    }
    for handle, entry in agents.items():
        assert book.self_file(entry["workspace_id"]).read_text().startswith(f"{handle}\n")
    assert not list(book.home.glob(".registry.lock*"))


def test_no_handle_is_left_where_three_projects_have_all_three(book: Book) -> None:
    root = book.project()
    book.write({handle: row() for handle, _ in tiers(str(root), raw_host() or HOST)})
    done = book.run("comm_join")
    assert done.code == 1
    assert done.err.startswith("comm: every derived handle for this project is already held: ")
    assert not book.self_file().exists()


@pytest.mark.parametrize("word", ["a/b", "", "x" * 65, "fe@boxa", "é", "\x1b[31m"])
def test_what_is_no_handle_is_a_usage_error(book: Book, word: str) -> None:
    done = book.run("comm_join", "--name", word)
    assert (done.code, done.out) == (2, "")
    assert "comm-join: error: not a handle: " in done.err
    assert "\x1b" not in done.err
    assert not book.home.exists()


# A handle that a row holds


def test_a_rows_handle_is_refused_to_a_session_outside_any_row(book: Book) -> None:
    book.write({"theirs": row(workspace_id="ws-x-1")})
    before = book.document()
    for args, env in ((["--name", "theirs"], {}), ([], {"SOT_COMM_NAME": "theirs"})):
        assert book.run("comm_join", *args, **env) == Result(1, "", held_by_a_row("theirs"))
    assert book.document() == before
    assert not book.self_file().exists()


def test_an_id_exported_over_a_private_self_file_names_no_row(book: Book) -> None:
    book.write({"theirs": row(workspace_id="ws-x-1")})
    private = str(book.folder / "private.txt")
    env = {"SOT_WORKSPACE_ID": "ws-x-1", "SOT_COMM_SELF_FILE": private}
    assert book.run("comm_join", "--name", "theirs", **env) == Result(1, "", held_by_a_row("theirs"))
    assert book.run("comm_join", **env).code == 0
    assert book.agents()[ME]["workspace_id"] == ""
    assert Path(private).read_text().startswith(f"{ME}\n")
    assert not book.self_file().exists()


def test_a_derived_join_steps_past_a_row_of_its_own_folder(book: Book) -> None:
    root = book.project()
    book.write({ME: row(root, workspace_id="ws-app-1")})
    done = book.run("comm_join")
    _, (tier2, _), _ = tiers(str(root), raw_host() or HOST)
    assert done.code == 0
    assert done.err == f"comm: @{ME} is held by a row; a session outside any row joins as @{tier2}\n"
    assert book.agents()[ME]["workspace_id"] == "ws-app-1"
    assert set(book.agents()) == {ME, tier2}


def test_a_self_file_that_names_a_rows_handle_is_written_anew(book: Book) -> None:
    book.run("comm_join", "--name", "mine")
    book.write({"mine": row(book.project(), workspace_id="ws-x-1")})
    done = book.run("comm_join")
    assert done.err == f"comm: @mine (named by this session's self file) is held by a row; joining as @{ME}\n"
    assert book.self_file().read_text().startswith(f"{ME}\n")
    assert book.agents()["mine"]["workspace_id"] == "ws-x-1"


def test_a_row_takes_its_handle_back_and_says_so_where_it_was_another_rows(book: Book) -> None:
    book.write({ME: row(book.project(), workspace_id="ws-app-0", note="kept")})
    done = book.run("comm_join", SOT_WORKSPACE_ID="ws-app-1")
    assert (done.code, done.err) == (0, "")
    assert book.agents()[ME]["workspace_id"] == "ws-app-1"
    assert book.agents()[ME]["note"] == "kept"
    done = book.run("comm_join", "--name", ME, SOT_WORKSPACE_ID="ws-app-2")
    assert done.err == f"comm: @{ME} was row ws-app-1's; row ws-app-2 holds it now\n"


# The slot


def claim_slot(book: Book, slot: str = "ws-app-1", root: str = "/p/alpha") -> Path:
    path = book.self_file(slot)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"alpha-box\nrepo=alpha\nroot={root}\n")
    return path


def test_a_slot_of_another_project_is_refused_with_nothing_written(book: Book) -> None:
    path = claim_slot(book)
    before = book.everything()
    done = book.run("comm_join", SOT_WORKSPACE_ID="ws-app-1")
    assert (done.code, done.out) == (3, "")
    assert done.err == (
        f"comm-join: REFUSING to join: the identity slot {path} is not this project's: it names @alpha-box, "
        "claimed for root=/p/alpha. A row whose slot names another project's session reads that session's "
        f"mail. If this row really is {book.project()} now, join again with --repin; nothing was written\n"
    )
    assert book.everything() == before


@pytest.mark.parametrize("text", ["zz\nroot=/x\nrepo=nope", " zz\nrepo=nope\nroot=/x\n"])
def test_a_claim_is_one_however_it_is_laid_out(book: Book, text: str) -> None:
    path = claim_slot(book)
    path.write_text(text)
    done = book.run("comm_join", SOT_WORKSPACE_ID="ws-app-1")
    assert done.code == 3
    assert "it names @zz, claimed for root=/x." in done.err
    assert path.read_text() == text


def test_a_pinned_self_file_without_a_folder_stands_in_the_working_folder(book: Book) -> None:
    done = book.run("comm_join", SOT_COMM_SELF_FILE="me.txt")
    assert (done.code, done.err) == (0, "")
    assert (book.project() / "me.txt").read_text().startswith(f"{ME}\n")
    assert book.run("comm_leave", SOT_COMM_SELF_FILE="me.txt").code == 0
    assert book.agents() == {}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere such bytes do not come in")
def test_what_is_no_utf8_says_what_and_where(book: Book) -> None:
    odd = book.project().parent / "x\udce9"
    odd.mkdir()
    shown = str(book.project().parent / "x\\udce9")
    for folder, env, why in [
        (odd, {}, f"the project folder's path is not UTF-8 at character {len(str(odd)) - 1}: {shown}"),
        (
            None,
            {"SOT_SELF_HOST": "b\udce9"},
            "this box's name (SOT_SELF_HOST) is not UTF-8 at character 1: b\\udce9",
        ),
        (None, {"SOT_WORKSPACE_ID": "\udce9"}, "SOT_WORKSPACE_ID is not UTF-8 at character 0: \\udce9"),
        (
            None,
            {"SOT_COMM_SELF_FILE": "boxa__a\udce9.txt"},
            "the row id in SOT_COMM_SELF_FILE is not UTF-8 at character 1: a\\udce9",
        ),
    ]:
        done = book.run("comm_join", cwd=folder, **env)
        assert done == Result(1, "", f"FAILED: {why}; nothing was written\n")
    done = book.run("comm_join", "--expertise", "x, \udce9")
    assert done.code == 2
    assert done.err.endswith("comm-join: error: --expertise is not UTF-8 at character 3\n")
    assert not book.home.exists()


def test_repin_takes_the_slot(book: Book) -> None:
    path = claim_slot(book)
    assert book.run("comm_join", "--repin", SOT_WORKSPACE_ID="ws-app-1").code == 0
    assert path.read_text() == f"{ME}\nrepo=app\nroot={book.project()}\n"
    assert book.run("comm_join", SOT_WORKSPACE_ID="ws-app-1").code == 0


@on_posix
def test_a_slot_that_cannot_be_read_may_be_anybodys(book: Book) -> None:
    path = book.self_file("ws-app-1")
    path.parent.mkdir(parents=True)
    path.symlink_to("/p/elsewhere.txt")
    done = book.run("comm_join", SOT_WORKSPACE_ID="ws-app-1")
    assert done == Result(
        1,
        "",
        f"FAILED: the identity slot {path} could not be read (is a symbolic link), so it may be another "
        "project's: mend that, or join again with --repin; nothing was written\n",
    )
    assert book.run("comm_join", "--repin", SOT_WORKSPACE_ID="ws-app-1").code == 0
    assert path.read_text().startswith(f"{ME}\n")
    assert not path.is_symlink()


def test_a_slot_that_was_claimed_while_the_join_ran_is_not_written_over(
    book: Book, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable in [name for name in os.environ if name.startswith("SOT_")]:
        monkeypatch.delenv(variable)
    for variable in ("SOT_COMM_HOME", "SOT_SELF_HOST"):
        monkeypatch.setenv(variable, book.env[variable])
    monkeypatch.setenv("SOT_WORKSPACE_ID", "ws-app-1")
    monkeypatch.chdir(book.project())

    def another_is_faster(*args: Any, **named: Any) -> Any:
        claim_slot(book)
        return update_registry(*args, **named)

    monkeypatch.setattr(comm_join, "update_registry", another_is_faster)
    assert comm_join.main([]) == 3
    assert capsys.readouterr().err.endswith(f"; nothing was written but the registry row of @{ME}\n")
    assert book.self_file("ws-app-1").read_text().startswith("alpha-box\n")
    assert list(book.agents()) == [ME]


def test_a_row_id_that_is_no_file_name_is_refused(book: Book) -> None:
    done = book.run("comm_join", SOT_WORKSPACE_ID="../x")
    told = "'../x' cannot be part of a self file's name"
    assert done == Result(1, "", f"FAILED: this session has no self file: {told}; nothing was written\n")
    assert not book.home.exists()


# The registry


@pytest.mark.parametrize("version", [2, None, "1", True])
def test_another_protocol_version_is_warned_of_loudly(book: Book, version: Any) -> None:
    book.write({}, protocol_version=version)
    done = book.run("comm_join")
    found = "no protocol_version" if version is None else f"protocol_version {json.dumps(version)}"
    assert done.code == 0
    assert done.err == (
        f"WARNING: {book.registry} has {found} and this comm-join speaks 1: mail between the two may be "
        "lost. One machine's comm commands are older; update them there (ShipTools.update_comm())\n"
    )
    assert book.document()["protocol_version"] == version  # it is not this command's to change


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ('{\n "agents": {\n  "a": {},\n }\n}', ":3: a comma stands before the closing }"),
        ('{"agents": []}', ": it has no object .agents"),
        ("", ": it is empty"),
    ],
)
def test_a_registry_that_cannot_be_read_is_left_as_it_is(book: Book, text: str, note: str) -> None:
    book.home.mkdir(mode=0o700)
    book.registry.write_text(text)
    way_out = (
        "mend it in an editor, or move the file aside: the next comm-join makes an empty one, "
        "and every session then joins again with comm-join --name HANDLE"
    )
    for args, sentence in (([], UNREADABLE), (["--name", "mine"], NOT_UPDATED)):
        done = book.run("comm_join", *args)
        assert done == Result(1, "", f"FAILED: {sentence}\n  {book.registry}{note}\n  {way_out}\n")
    assert book.registry.read_text() == text
    assert not book.self_file().exists()


@on_posix
def test_what_cannot_stand_in_a_registry_is_told_before_anything_is_written(book: Book) -> None:
    for name in (b"two\nlines", b"not utf-8 \xff"):
        root = Path(os.fsdecode(os.fsencode(book.folder) + b"/" + name))
        try:
            root.mkdir()
        except OSError:
            pytest.skip("this file system takes no such name")
        done = book.run("comm_join", cwd=root)
        assert done.code == 1
        assert done.err.startswith("FAILED: ")
        assert done.err.endswith("; nothing was written\n")
        assert len(done.err.splitlines()) == 1
    assert not book.home.exists()


@on_posix
def test_a_working_folder_that_is_gone_is_told(book: Book) -> None:
    gone = book.folder / "gone"
    gone.mkdir()
    verb = book.command("comm_join")
    book.command = lambda *_: ["sh", "-c", 'rmdir "$0" && exec "$@"', str(gone), *verb]  # type: ignore[method-assign]
    done = book.run("comm_join", cwd=gone)
    assert done.code == 1
    assert done.err == (
        "FAILED: the working folder cannot be told: No such file or directory (ENOENT); nothing was written\n"
    )
    assert not book.home.exists()


def test_a_box_without_a_name_still_has_the_machines(book: Book) -> None:
    del book.env["SOT_SELF_HOST"]
    done = book.run("comm_join", "--json")
    assert done.code == 0
    assert json.loads(done.out)["row"]["host"] == raw_host().lower()


# The lock


def test_a_live_holders_lock_is_waited_for_and_named(book: Book) -> None:
    assert book.run("comm_join").code == 0
    before = book.document()
    with book.lock_held() as holder:
        done = book.run("comm_join", SOT_LOCK_WAIT_SECS="0")
    assert done.code == 1
    assert done.err.startswith(f"FAILED: registry lock {book.lock} is held by boxa pid {holder.pid} start ")
    assert done.err.count("\n") == 1
    assert book.document() == before
    assert book.run("comm_join", SOT_LOCK_WAIT_SECS="0").code == 0


def test_a_dead_holders_lock_is_reclaimed_on_the_way(book: Book) -> None:
    book.run("comm_join")
    prove_deaths(book.home)
    book.dead_holder()
    assert book.run("comm_join", SOT_LOCK_WAIT_SECS="0").code == 0
    assert not book.lock.exists()


def test_an_older_versions_lock_is_left_to_a_person(book: Book) -> None:
    book.run("comm_join")
    book.lock.mkdir()
    done = book.run("comm_join", SOT_LOCK_WAIT_SECS="0")
    assert done.code == 1
    assert done.err.startswith(f"FAILED: registry lock {book.lock} still held (")
    assert done.err.endswith(
        " old): held by an older version that records no holder. "
        f"If its holder is dead, remove {book.lock} by hand and retry.\n"
    )


def test_a_wait_that_is_no_number_is_refused_before_anything_is_written(book: Book) -> None:
    done = book.run("comm_join", SOT_LOCK_WAIT_SECS="soon")
    told = "SOT_LOCK_WAIT_SECS is 'soon'; it takes a number from 0 to 3600; nothing was written"
    assert done == Result(1, "", f"FAILED: {told}\n")
    assert not book.home.exists()


# Disks


NO_LINKS = """
import errno, os, sys
def link(source, target):
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))
os.link = link
from verbs.comm_join import main
sys.exit(main())
"""


def test_a_folder_without_hard_links_is_named(book: Book) -> None:
    book.command = lambda *_: [sys.executable, "-c", NO_LINKS]  # type: ignore[method-assign]
    told = f"FAILED: cannot hard-link in {book.home}: Operation not permitted (EPERM)\n"
    assert book.run("comm_join") == Result(1, "", told)
    book.write({})
    assert book.run("comm_join") == Result(1, "", told)
    assert book.agents() == {}
    assert sorted(path.name for path in book.home.iterdir()) == [
        "inbox",
        "read",
        "registry.json",
        "self",
        "state",
    ]


def test_on_fat_every_write_fails_and_says_why(book: Book) -> None:
    with fat(book.home, book.folder / "fat"):
        done = book.run("comm_join")
        assert done.code == 1
        assert done.err.startswith(f"FAILED: cannot hard-link in {book.home}: ")
        assert not book.registry.exists()


def test_a_full_disk_loses_nothing(book: Book) -> None:
    mount(book.home, "-t", "tmpfs", "-o", "size=64k,mode=0700", "none")
    try:
        assert book.run("comm_join", cwd=book.project("one")).code == 0
        before = book.document()
        with pytest.raises(OSError, match="No space left"):
            (book.home / "filler").write_bytes(b"\0" * 1_000_000)
        done = book.run("comm_join", cwd=book.project("two"))
        assert done.code == 1
        assert done.err.startswith(f"FAILED: registry lock {book.lock} was not taken: its temp file ")
        assert done.err.endswith(" could not be written: No space left on device (ENOSPC)\n")
        assert book.document() == before
        (book.home / "filler").unlink()
        assert book.run("comm_join", cwd=book.project("two")).code == 0
        assert len(book.agents()) == 2
    finally:
        unmount(book.home)


def test_a_read_only_folder_is_told_and_left_alone(book: Book) -> None:
    mount(book.home, "-t", "tmpfs", "-o", "size=1m,mode=0700", "none")
    try:
        assert book.run("comm_join").code == 0
        before = book.everything()
        mount(book.home, "-o", "remount,ro")
        read_only = "Read-only file system (EROFS)"
        for verb in ("comm_join", "comm_leave"):
            done = book.run(verb)
            assert done.code == 1
            assert done.err.startswith(f"FAILED: registry lock {book.lock} was not taken: its temp file ")
            assert done.err.endswith(f" could not be written: {read_only}\n")
        assert book.everything() == before
        assert book.run("comm_list").code == 0
        assert book.run("comm_self_audit").code == 0
    finally:
        unmount(book.home)


@pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() == 0, reason="root may write everywhere; Windows has no such mode"
)
def test_a_folder_of_somebody_else_is_told(book: Book) -> None:
    book.folder.joinpath("comm").mkdir(mode=0o500)
    done = book.run("comm_join")
    assert done == Result(
        1, "", f"FAILED: the comm folder {book.home} could not be made: Permission denied (EACCES)\n"
    )


@pytest.mark.skipif(
    sys.platform != "linux", reason="the kernel's own folder takes no file, from root neither"
)
def test_a_self_file_that_cannot_be_written_is_told_and_the_row_stands(book: Book) -> None:
    done = book.run("comm_join", SOT_COMM_SELF_FILE="/proc/me.txt")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(
        f"FAILED: @{ME} has its registry row, but the self file /proc/me.txt could not be written ("
    )
    assert list(book.agents()) == [ME]


# The command line


def test_help_shows_how_it_is_typed(book: Book) -> None:
    done = book.run("comm_join", "--help")
    assert (done.code, done.err) == (0, "")
    assert '  comm-join --expertise "files, rust-backend"' in done.out
    assert "exit codes: 0 joined;" in done.out


@pytest.mark.parametrize("args", [["--bad"], ["word"], ["--name"], ["--nam", "x"], ["--json=1"]])
def test_what_it_cannot_read_is_a_usage_error(book: Book, args: list[str]) -> None:
    done = book.run("comm_join", *args)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("usage: comm-join ")
    assert not book.home.exists()
