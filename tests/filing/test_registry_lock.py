"""The registry lock on a real folder: what is on the disk, and what each failing call leads to."""

import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from filing.comm_folder import FileCalls
from filing.fresh_read import ReadCalls
from filing.platform import process
from filing.registry_lock import ClearAnswer, LockNotTakenError, clear, lock, registry_lock
from filing.registry_lock.lock import LockCalls, once_nobody_reads, this_process
from filing.registry_lock.record import LOCK_NAME, UNKNOWN, Record, parse_record
from tests.filing.support import on_posix
from tests.support.parts import need

PROVES = process.no_fresh_read(str(Path(__file__).parent)) is None
where_deaths_are_proved = pytest.mark.skipif(
    not PROVES, reason="this system, or the mount of the tests, proves no death"
)

GONE_PID = 4_000_000  # `Calls` knows it as a process that has ended
HOST = "boxa"


class Calls(LockCalls):
    """The real folder with a clock of its own: a pause takes no time but on this clock."""

    def __init__(self) -> None:
        self.clock_s = 0.0
        self.pauses: list[float] = []
        self.at_pause: Callable[[float], None] = lambda seconds: None

    def now_s(self) -> float:
        return self.clock_s

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.clock_s += seconds
        self.at_pause(seconds)

    def process_start(self, pid: int) -> str:
        if pid == GONE_PID:
            raise ProcessLookupError
        return super().process_start(pid)

    def age_s(self, path: str) -> float:
        super().age_s(path)
        return 7.0


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def calls() -> Calls:
    return Calls()


def me(home: Path) -> Record:
    return this_process(str(home), HOST).record


def dead(home: Path, start: str = "1") -> Record:
    mine = me(home)
    return Record(mine.name, mine.machine, mine.boot, mine.pidns, str(GONE_PID), start)


def elsewhere(pid: int = 12) -> Record:
    return Record("boxb", "m2", "b2", "100", str(pid), "34")


def lay(home: Path, record: Record, name: str = LOCK_NAME) -> None:
    (home / name).write_text(f"{record}\n", encoding="utf-8")


def names(home: Path) -> list[str]:
    return sorted(entry.name for entry in home.iterdir())


def sentence(home: Path, calls: LockCalls, wait_s: float = 0.0) -> str:
    with pytest.raises(LockNotTakenError) as caught, registry_lock(str(home), wait_s, host=HOST, calls=calls):
        pass
    return caught.value.sentence


def taken(home: Path, calls: LockCalls, wait_s: float = 0.0) -> str:
    """The lock's text while it is held."""
    with registry_lock(str(home), wait_s, host=HOST, calls=calls):
        return (home / LOCK_NAME).read_text(encoding="utf-8")


# Taking and releasing


def test_the_lock_is_a_file_that_names_its_holder_and_is_gone_afterwards(home: Path) -> None:
    with registry_lock(str(home), 0, host=HOST):
        assert names(home) == [LOCK_NAME]
        record = parse_record((home / LOCK_NAME).read_text(encoding="utf-8"))
        assert record == me(home)
        assert record is not None
        assert (record.name, record.pid) == (HOST, str(os.getpid()))
    assert names(home) == []


@where_deaths_are_proved
def test_every_proof_field_is_this_machines(home: Path) -> None:
    assert UNKNOWN not in {me(home).machine, me(home).boot, me(home).pidns, me(home).start}


@on_posix
def test_the_lock_is_its_owners_alone_whatever_the_umask(home: Path) -> None:
    before = os.umask(0)
    try:
        with registry_lock(str(home), 0):
            assert stat.S_IMODE((home / LOCK_NAME).stat().st_mode) == 0o600
    finally:
        os.umask(before)


def test_a_block_that_fails_releases_the_lock(home: Path) -> None:
    with pytest.raises(ZeroDivisionError), registry_lock(str(home), 0):
        raise ZeroDivisionError
    assert names(home) == []


def test_a_temp_file_that_a_dead_take_left_is_replaced(home: Path, calls: Calls) -> None:
    (home / me(home).temp_name).write_text("half a rec", encoding="utf-8")
    assert taken(home, calls) == f"{me(home)}\n"
    assert names(home) == []


def test_an_older_take_s_temp_file_is_no_proof_of_this_one(home: Path, calls: Calls) -> None:
    """It is a link to that take's marker, and its link count says nothing about the lock."""
    lay(home, elsewhere())
    marker = home / ".registry.lock.reclaim.some"
    lay(home, me(home), marker.name)
    os.link(marker, home / me(home).temp_name)
    assert "is held by boxb" in sentence(home, calls)


class LinkMadeYetRefused(Calls):
    """A retransmitted NFSv3 LINK: made, and answered by a failure."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def link(self, source: str, target: str) -> None:
        super().link(source, target)
        raise OSError(self.number, os.strerror(self.number))


@pytest.mark.parametrize("number", [errno.EEXIST, errno.EIO])
def test_a_failed_link_that_was_made_all_the_same_was_taken(home: Path, number: int) -> None:
    assert taken(home, LinkMadeYetRefused(number)) == f"{me(home)}\n"
    assert names(home) == []


class Unconfirmed(LinkMadeYetRefused):
    def link_count(self, path: str) -> int:
        raise OSError(errno.EIO, "no answer")


@where_deaths_are_proved
def test_a_lock_that_an_unconfirmed_link_left_is_reclaimed_by_the_next_take(home: Path, calls: Calls) -> None:
    assert "cannot hard-link in" in sentence(home, Unconfirmed(errno.EIO))
    assert names(home) == [LOCK_NAME]
    assert taken(home, calls) == f"{me(home)}\n"
    assert calls.pauses == [1.0]
    assert names(home) == []  # the marker naming this very process too


class NeverRemoved(Calls):
    """Another answer than "gone" to each removal of the files named."""

    def __init__(self, *kept: str) -> None:
        super().__init__()
        self.kept = set(kept)

    def unlink(self, path: str) -> None:
        if Path(path).name in self.kept and Path(path).exists():
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        super().unlink(path)


@where_deaths_are_proved
def test_a_release_that_failed_is_made_up_for_by_the_next_take(home: Path, calls: Calls) -> None:
    taken(home, NeverRemoved(LOCK_NAME))
    assert names(home) == [LOCK_NAME]
    assert taken(home, calls) == f"{me(home)}\n"
    assert names(home) == []


def test_a_temp_file_that_cannot_be_removed_does_no_harm(home: Path, calls: Calls) -> None:
    kept = NeverRemoved(me(home).temp_name)
    assert taken(home, kept) == f"{me(home)}\n"
    assert names(home) == [me(home).temp_name]
    assert taken(home, calls) == f"{me(home)}\n"
    assert names(home) == []


def test_release_leaves_a_lock_that_another_took_after_a_removal_by_hand(home: Path) -> None:
    with registry_lock(str(home), 0, host=HOST):
        (home / LOCK_NAME).unlink()
        lay(home, elsewhere())
    assert names(home) == [LOCK_NAME]


@on_posix
def test_a_child_forked_inside_the_block_does_not_release_its_parents_lock(home: Path) -> None:
    script = (
        "import os, sys\n"
        "from filing.registry_lock import registry_lock\n"
        "home = sys.argv[1]\n"
        "with registry_lock(home, 0):\n"
        "    child = os.fork()\n"
        "    if child:\n"
        "        os.waitpid(child, 0)\n"
        "        assert os.path.exists(home + '/.registry.lock')\n"
        "if not child:\n"
        "    try:\n"
        "        with registry_lock(home, 0): pass\n"
        "    except Exception as error: print(error.sentence)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(home)], capture_output=True, text=True, check=True
    )
    assert "is held by" in done.stdout, done  # not "was not tried": the turn is the child's own
    assert names(home) == []


# One thread at a time


def test_a_thread_that_never_gets_its_turn_says_so(home: Path) -> None:
    answers: list[str] = []

    def other() -> None:
        try:
            with registry_lock(str(home), 0):
                answers.append("taken")
        except LockNotTakenError as error:
            answers.append(error.sentence)

    with registry_lock(str(home), 0):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    (answer,) = answers
    assert answer == (
        f"registry lock {home}/.registry.lock was not tried: another thread of this daemon held its turn "
        "past the bound"
    )


def test_a_thread_whose_turn_comes_in_time_takes_the_lock(home: Path) -> None:
    inside = threading.Event()
    waited = threading.Event()

    def other() -> None:
        inside.set()
        with registry_lock(str(home), 60):
            waited.set()

    thread = threading.Thread(target=other)
    with registry_lock(str(home), 0):
        thread.start()
        assert inside.wait(60)
        assert not waited.is_set()
    thread.join()
    assert waited.is_set()


class Waiting(Calls):
    """Tells when the deadline was set, which is before the wait for the turn."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()

    def now_s(self) -> float:
        self.asked.set()
        return self.clock_s


def test_the_wait_for_the_turn_counts_inside_the_deadline(home: Path) -> None:
    waiting = Waiting()
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(sentence(home, waiting, 30)))
    with registry_lock(str(home), 0):
        lay(home, elsewhere())  # what the thread will find
        thread.start()
        assert waiting.asked.wait(60)
        waiting.clock_s = 30.0  # the wait for the turn took it all
    thread.join()
    assert "is held by boxb" in said[0]
    assert waiting.pauses == [0.0]


# Windows, where a file that is being read stays


def test_a_file_that_somebody_reads_is_removed_as_soon_as_nobody_does() -> None:
    answers = [PermissionError, PermissionError, None]

    def change() -> None:
        if error := answers.pop(0):
            raise error

    once_nobody_reads(change)
    assert answers == []


def test_a_file_that_is_read_for_good_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_READERS_WAIT_S", 0.0)

    def change() -> None:
        raise PermissionError

    with pytest.raises(PermissionError):
        once_nobody_reads(change)


# Holders


def test_a_live_holder_is_named_and_left_alone(home: Path, calls: Calls) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        record = parse_record(holder.stdout.readline().decode())
        assert record is not None
        said = sentence(home, calls, 1)
        assert said.startswith(
            f"registry lock {home}/.registry.lock is held by {HOST} pid {holder.pid} start {record.start} (7s"
        )
        if PROVES:
            assert said.endswith(f": its process is running. If it is dead, run any comm command on {HOST}.")
            assert sum(calls.pauses) == pytest.approx(1.0)
            assert clear(str(home), host=HOST, calls=calls) == ClearAnswer(ok=False, sentence=said)
        holder.communicate(b"\n")
    assert names(home) == []


HOLD = """
import sys
from filing.registry_lock import registry_lock
with registry_lock(sys.argv[1], 0, host="boxa"):
    print(open(sys.argv[1] + "/.registry.lock").read(), end="", flush=True)
    sys.stdin.readline()
"""


@where_deaths_are_proved
def test_a_killed_holders_lock_is_retaken_after_the_settle(home: Path) -> None:
    """With nothing replaced: the real second, the real pid."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        record = parse_record(holder.stdout.readline().decode())
        assert record is not None
        holder.kill()
    with registry_lock(str(home), 0, host=HOST):
        assert names(home) == [LOCK_NAME, record.marker_name]
    assert names(home) == [record.marker_name]


@where_deaths_are_proved
def test_a_dead_holders_lock_is_retaken_with_no_time_left(home: Path, calls: Calls) -> None:
    lay(home, dead(home))
    assert taken(home, calls) == f"{me(home)}\n"
    assert calls.pauses == [1.0]
    assert names(home) == [dead(home).marker_name]
    assert (home / dead(home).marker_name).read_text(encoding="utf-8") == f"{me(home)}\n"


@where_deaths_are_proved
def test_a_dead_reclaimers_marker_is_adopted(home: Path, calls: Calls) -> None:
    holder, reclaimer = dead(home), dead(home, "2")
    lay(home, holder)
    lay(home, reclaimer, holder.marker_name)
    assert taken(home, calls, 10) == f"{me(home)}\n"
    assert names(home) == sorted([holder.marker_name, reclaimer.marker_name])


@where_deaths_are_proved
def test_a_lock_taken_anew_during_the_settle_is_left_to_its_taker(home: Path, calls: Calls) -> None:
    lay(home, dead(home))
    calls.at_pause = lambda seconds: lay(home, elsewhere())
    assert sentence(home, calls) == (
        f"registry lock {home}/.registry.lock is held by boxb pid 12 start 34 (7s old): it was taken anew "
        "during the reclaim. If it is dead, run any comm command on boxb."
    )
    assert parse_record((home / LOCK_NAME).read_text()) == elsewhere()


@where_deaths_are_proved
def test_a_marker_that_names_the_dead_holder_itself_is_for_a_person(home: Path, calls: Calls) -> None:
    holder = dead(home)
    lay(home, holder)
    lay(home, holder, holder.marker_name)
    path = f"{home}/.registry.lock"
    said = sentence(home, calls, 10)
    assert said == (
        f"registry lock {path} still held (7s old): its reclaim marker {holder.marker_name} names {holder}, "
        f"whom its walk has already passed. If its holder is dead, remove {path} by hand and retry."
    )
    assert clear(str(home), host=HOST, calls=calls) == ClearAnswer(ok=False, sentence=said)


def test_the_lock_of_another_machine_is_never_forced(home: Path, calls: Calls) -> None:
    lay(home, elsewhere())
    assert "is held by boxb pid 12 start 34 (7s old)" in sentence(home, calls, 10)
    assert not clear(str(home), host=HOST, calls=calls).ok
    assert names(home) == [LOCK_NAME]


def test_an_older_versions_lock_is_a_folder(home: Path, calls: Calls) -> None:
    (home / LOCK_NAME).mkdir()
    path = f"{home}/.registry.lock"
    said = sentence(home, calls, 10)
    assert said == (
        f"registry lock {path} still held (7s old): held by an older version that records no holder. "
        f"If its holder is dead, remove {path} by hand and retry."
    )
    assert clear(str(home), host=HOST, calls=calls) == ClearAnswer(ok=False, sentence=said)
    assert names(home) == [LOCK_NAME]
    assert names(home / LOCK_NAME) == []


@on_posix
def test_an_older_waiter_waits_for_ours(home: Path) -> None:
    with registry_lock(str(home), 0):
        assert subprocess.run(["mkdir", home / LOCK_NAME], capture_output=True).returncode == 1


def test_the_shells_link_and_ours_exclude_each_other(home: Path, calls: Calls) -> None:
    need("link")
    lay(home, elsewhere(), "theirs")
    link = ["link", str(home / "theirs"), str(home / LOCK_NAME)]
    with registry_lock(str(home), 0):
        assert subprocess.run(link, capture_output=True).returncode == 1
    subprocess.run(link, check=True)
    assert "is held by boxb pid 12 start 34" in sentence(home, calls)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("hello", "hello"), ("", "it is empty"), ("  \n", "it is empty"), ("a\x1b[2J" + "b" * 99, "'a\\x1b[2J")],
)
def test_a_record_that_does_not_parse_is_for_a_person(
    home: Path, calls: Calls, text: str, shown: str
) -> None:
    (home / LOCK_NAME).write_text(text, encoding="utf-8")
    said = sentence(home, calls)
    assert f"still held (7s old): its record names no holder ({shown}" in said
    assert said.endswith("by hand and retry.")
    assert said.isprintable()
    assert (home / LOCK_NAME).read_text(encoding="utf-8") == text


class Unreadable(ReadCalls):
    def read(self, fd: int, size: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_record_that_cannot_be_read_is_said_to_be_so(home: Path, calls: Calls) -> None:
    lay(home, dead(home))
    calls.reads = Unreadable()
    assert sentence(home, calls) == (
        f"registry lock {home}/.registry.lock was not taken by the deadline: its record could not be read: "
        "Input/output error (EIO). Retry."
    )
    answer = clear(str(home), host=HOST, calls=calls)
    assert not answer.ok
    assert answer.sentence == (
        f"registry lock {home}/.registry.lock was not cleared: its record could not be read: "
        "Input/output error (EIO). Retry; if that stays so and its holder is dead, remove "
        f"{home}/.registry.lock by hand."
    )
    assert names(home) == [LOCK_NAME]


def test_a_folder_that_cannot_be_opened_proves_nothing(home: Path, calls: Calls) -> None:
    class Shut(ReadCalls):
        def revalidate(self, folder: str) -> None:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    lay(home, dead(home))
    calls.reads = Shut()
    assert "its record could not be read: Permission denied (EACCES)" in sentence(home, calls)
    assert names(home) == [LOCK_NAME]


def test_a_lock_released_while_it_was_waited_for_is_taken(home: Path, calls: Calls) -> None:
    lay(home, elsewhere())
    calls.at_pause = lambda seconds: (home / LOCK_NAME).unlink()
    assert taken(home, calls, 10) == f"{me(home)}\n"
    assert calls.pauses == [0.05]


# Folders that allow no lock


def no_links(source: str, target: str) -> None:
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


def test_without_hard_links_the_folder_is_named(
    home: Path, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "link", no_links)
    assert sentence(home, calls, 10) == f"cannot hard-link in {home}: Operation not permitted (EPERM)"
    assert calls.pauses == []
    assert names(home) == []


class Full(FileCalls):
    def write(self, fd: int, data: memoryview) -> int:
        os.write(fd, data[:3])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Unflushed(FileCalls):
    def flush(self, fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize(("files", "why"), [(Full(), "(ENOSPC)"), (Unflushed(), "(EIO)")])
def test_a_record_that_cannot_be_written_is_no_lock(
    home: Path, calls: Calls, files: FileCalls, why: str
) -> None:
    calls.files = files
    said = sentence(home, calls, 10)
    assert "its temp file" in said
    assert said.endswith(why)
    assert names(home) == []


def test_a_missing_folder_is_no_lock(home: Path, calls: Calls) -> None:
    assert "No such file or directory (ENOENT)" in sentence(home / "nowhere", calls)
    assert clear(str(home / "nowhere"), host=HOST, calls=calls).ok


# Clear


def test_clearing_where_there_is_no_lock(home: Path, calls: Calls) -> None:
    assert clear(str(home), calls=calls) == ClearAnswer(
        ok=True, sentence=f"registry lock {home}/.registry.lock is free"
    )


@where_deaths_are_proved
def test_clearing_a_dead_holders_lock_takes_the_reclaim_path(home: Path, calls: Calls) -> None:
    lay(home, dead(home))
    answer = clear(str(home), host=HOST, calls=calls)
    assert answer.ok
    assert f"{HOST} pid {GONE_PID}" in answer.sentence
    assert calls.pauses == [1.0]
    assert names(home) == [dead(home).marker_name]


@where_deaths_are_proved
def test_clearing_walks_past_any_number_of_dead_reclaimers(home: Path, calls: Calls) -> None:
    chain = [dead(home, str(number)) for number in range(1, 9)]
    lay(home, chain[0])
    for passed, creator in pairwise(chain):
        lay(home, creator, passed.marker_name)
    calls.clock_s = 1e9
    assert clear(str(home), host=HOST, calls=calls).ok
    assert LOCK_NAME not in names(home)


# Where nothing proves a death


@pytest.fixture
def unproving(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "no_fresh_read", lambda folder: "its mount proves nothing")


@pytest.mark.usefixtures("unproving")
def test_on_an_unproving_mount_records_have_no_proof_fields(home: Path, calls: Calls) -> None:
    assert taken(home, calls) == f"{HOST}:-:-:-:{os.getpid()}:-\n"


@pytest.mark.usefixtures("unproving")
def test_on_an_unproving_mount_not_even_ones_own_lock_is_reclaimed(home: Path, calls: Calls) -> None:
    lay(home, me(home))
    path = f"{home}/.registry.lock"
    said = sentence(home, calls)
    assert said == (
        f"registry lock {path} is held by {HOST} pid {os.getpid()} start - (7s old): this box cannot prove a "
        f"death (its mount proves nothing). No box can prove {HOST} pid {os.getpid()} dead (its record has "
        f"no proof fields): if it is, remove {path} by hand."
    )
    assert clear(str(home), host=HOST, calls=calls) == ClearAnswer(ok=False, sentence=said)


def test_a_box_without_a_name_is_a_dash(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOT_SELF_HOST", "My Box")
    assert this_process(str(home)).record.name == "My_Box"
    assert this_process(str(home), "").record.name == "-"


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_a_foreign_proc_proves_nothing_of_pids(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a sandbox that sees its host's /proc."""
    real = os.readlink
    monkeypatch.setattr(os, "readlink", lambda path: "1" if path == "/proc/self" else real(path))
    record = me(home)
    assert (record.pidns, record.start) == (UNKNOWN, UNKNOWN)
    assert record.boot != UNKNOWN or not PROVES


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_a_process_hidden_in_proc_is_not_taken_for_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under hidepid another account's process has no entry."""
    if sys.platform == "linux":
        from filing.platform import process_linux

        def hidden(path: str) -> str:
            raise FileNotFoundError(errno.ENOENT, path)

        assert process_linux.process_start(os.getpid()).isdigit()
        monkeypatch.setattr(process_linux, "_read", hidden)
        with pytest.raises(PermissionError):
            process_linux.process_start(os.getpid())
        with pytest.raises(OSError, match="no pid is that large"):
            process_linux.process_start(2**64)
        with subprocess.Popen(["true"]) as ended:
            pass
        with pytest.raises(ProcessLookupError):
            process_linux.process_start(ended.pid)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_the_start_is_read_past_a_name_with_brackets_and_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform == "linux":
        from filing.platform import process_linux

        fields = " ".join(["S", *(str(number) for number in range(4, 30))])
        monkeypatch.setattr(process_linux, "_read", lambda path: f"7 (a) S 1 (b) {fields}\n")
        assert process_linux.process_start(7) == "22"
        monkeypatch.setattr(process_linux, "_read", lambda path: "7 (a) S 1")
        with pytest.raises(OSError, match="cut short"):
            process_linux.process_start(7)


@on_posix
def test_a_link_that_a_person_put_in_the_lock_s_place_is_not_removed(tmp_path: Path) -> None:
    lock = tmp_path / LOCK_NAME
    with registry_lock(str(tmp_path), host="box"):
        lock.unlink()
        lock.symlink_to("gone")
    assert lock.is_symlink()
