"""Self files: one slot, one project; a slot that names another is refused when written and found at rest."""

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filing.comm_folder import FileCalls
from filing.fresh_read import ReadFailed
from filing.self_file import (
    NO_ROW,
    Audit,
    SelfFile,
    SlotTaken,
    audit_slot,
    conflicting_claim,
    parse_self,
    read_self,
    read_slots,
    row_in_name,
    self_path,
    self_text,
    slot_in_name,
    slot_of,
    slug,
    write_self,
    write_slot,
)
from tests.filing.support import on_posix

OWN = SelfFile("alpha-box", "alpha", "/p/alpha")
OTHER = SelfFile("beta-box", "beta", "/p/beta")


# The path


def test_a_slot_is_the_rows_or_the_shared_one(tmp_path: Path) -> None:
    assert slot_of("ws-alpha-6a1") == "ws-alpha-6a1"
    assert slot_of(None) == slot_of("") == "nopane"
    path = self_path(str(tmp_path), "box", "ws-alpha-6a1")
    assert Path(path) == tmp_path / "self" / "box__ws-alpha-6a1.txt"


@pytest.mark.parametrize(
    ("host", "slot"), [("", "x"), ("box", ""), ("box", "../x"), ("b/x", "x"), ("b", "x\0")]
)
def test_a_name_that_would_leave_the_folder_is_refused(host: str, slot: str) -> None:
    with pytest.raises(ValueError, match="cannot be part"):
        self_path("/c", host, slot)


@pytest.mark.parametrize(
    ("name", "host", "slot", "row"),
    [
        ("box__ws-a-1.txt", "box", "ws-a-1", "ws-a-1"),
        ("box__nopane.txt", "box", "nopane", None),
        ("other__ws-a-1.txt", "box", "ws-a-1", "ws-a-1"),
        ("my__box__ws-a__b-1.txt", "my__box", "ws-a__b-1", "ws-a__b-1"),
        ("box__ws-a__b-1.txt", "", "ws-a__b-1", "ws-a__b-1"),
        ("private.txt", "box", None, None),
        ("box__.txt", "box", None, None),
        ("__x.txt", "box", None, None),
        ("box__ws-a-1.json", "box", None, None),
    ],
)
def test_what_a_name_says(name: str, host: str, slot: str | None, row: str | None) -> None:
    assert slot_in_name(name, host) == slot
    assert row_in_name(name, host) == row


# The text


@pytest.mark.parametrize(
    ("data", "own"),
    [
        (b"alpha-box\nrepo=alpha\nroot=/p/alpha\n", OWN),
        (b"alpha-box\r\nrepo=alpha\r\nroot=/p/alpha\r\n", OWN),
        (b"alpha-box\nrepo=alpha\n", SelfFile("alpha-box", "alpha", "")),
        (b"alpha-box", SelfFile("alpha-box", "", "")),
        (b"alpha-box\nroot=/p/alpha\n", SelfFile("alpha-box", "", "/p/alpha")),
        (b"alpha-box\nroot=/p/alpha\nnew=1\nrepo=alpha\nrepo=late", OWN),
        (b" alpha-box \nrepo=alpha\nroot=/p/alpha\n", OWN),
        (b"", None),
        (b"\nrepo=alpha\n", None),
        (b"\0\0\0\0", None),
        (b"a\nrepo=\xff\nroot=\n", SelfFile("a", "\udcff", "")),
    ],
)
def test_what_a_slot_says(data: bytes, own: SelfFile | None) -> None:
    assert parse_self(data) == own


WORDS = st.text(st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]), max_size=12)


HANDLES = WORDS.map(str.strip).filter(bool)


@given(st.builds(SelfFile, HANDLES, WORDS, WORDS))
def test_what_is_written_reads_back(own: SelfFile) -> None:
    assert parse_self(self_text(own)) == own


def test_a_folder_name_with_a_line_end_is_refused() -> None:
    with pytest.raises(ValueError, match="holds a line end"):
        self_text(SelfFile("a", "re\npo", "/r"))


# The conflict rule


@pytest.mark.parametrize(
    ("slot", "stands", "claim"),
    [
        ("ws-a-1", None, None),
        ("ws-a-1", SelfFile("stale-name", "other", "/p/alpha"), None),  # root= decides alone
        ("ws-a-1", SelfFile("alpha-box", "alpha", "/p/other"), "root=/p/other"),
        ("ws-a-1", SelfFile("x", "", "/p/other"), "root=/p/other"),
        ("ws-a-1", SelfFile("x", "alpha", ""), None),
        ("ws-a-1", SelfFile("x", "beta", ""), "repo=beta (an older slot, with no root=)"),
        ("ws-a-1", SelfFile("x", "", ""), None),
        ("nopane", OTHER, None),
    ],
)
def test_a_slot_belongs_to_one_project(slot: str, stands: SelfFile | None, claim: str | None) -> None:
    assert conflicting_claim(slot, stands, OWN) == claim


# The file


def test_a_slot_is_written_and_read(tmp_path: Path) -> None:
    home = str(tmp_path / "comm")
    path = self_path(home, "box", "ws-alpha-1")
    assert read_self(path) is None
    assert write_slot(home, "box", "ws-alpha-1", OWN) is None
    assert write_slot(home, "box", "ws-alpha-1", OWN) is None
    assert read_self(path) == OWN
    assert [found.name for found in Path(path).parent.iterdir()] == ["box__ws-alpha-1.txt"]


@on_posix
def test_a_slot_is_its_owners_alone(tmp_path: Path) -> None:
    home = str(tmp_path / "comm")
    write_slot(home, "box", "x", OWN)
    path = Path(self_path(home, "box", "x"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_another_projects_slot_is_left_unless_it_is_repinned(tmp_path: Path) -> None:
    home = str(tmp_path / "comm")
    write_slot(home, "box", "ws-beta-1", OTHER)
    refused = write_slot(home, "box", "ws-beta-1", OWN)
    assert isinstance(refused, SlotTaken)
    assert "REFUSING to write @alpha-box" in refused.sentence
    assert "it names @beta-box, claimed for root=/p/beta" in refused.sentence
    assert "join again with --repin" in refused.sentence
    assert read_self(self_path(home, "box", "ws-beta-1")) == OTHER
    assert write_slot(home, "box", "ws-beta-1", OWN, repin=True) is None
    assert read_self(self_path(home, "box", "ws-beta-1")) == OWN


def test_the_shared_slot_is_the_last_writers(tmp_path: Path) -> None:
    home = str(tmp_path / "comm")
    write_slot(home, "box", "nopane", OTHER)
    assert write_slot(home, "box", "nopane", OWN) is None
    assert read_self(self_path(home, "box", "nopane")) == OWN


@on_posix
def test_a_slot_that_cannot_be_read_may_name_anybody(tmp_path: Path) -> None:
    home = str(tmp_path / "comm")
    path = self_path(home, "box", "ws-alpha-1")
    Path(path).parent.mkdir(parents=True)
    Path(path).symlink_to(tmp_path / "elsewhere")
    assert read_self(path) == ReadFailed("is a symbolic link")
    refused = write_slot(home, "box", "ws-alpha-1", OWN)
    assert isinstance(refused, SlotTaken)
    assert "it could not be read (is a symbolic link)" in refused.sentence
    assert write_slot(home, "box", "ws-alpha-1", OWN, repin=True) is None
    assert not (tmp_path / "elsewhere").exists()


def test_a_failed_write_leaves_the_slot_as_it_was(tmp_path: Path) -> None:
    class FullDisk(FileCalls):
        def write(self, fd: int, data: memoryview) -> int:
            raise OSError(28, "No space left on device")

    home = str(tmp_path / "comm")
    write_slot(home, "box", "nopane", OTHER)
    with pytest.raises(OSError, match="No space"):
        write_slot(home, "box", "nopane", OWN, files=FullDisk())
    assert read_self(self_path(home, "box", "nopane")) == OTHER
    assert len(list((tmp_path / "comm" / "self").iterdir())) == 1


def test_a_pinned_self_file_stands_wherever_it_was_pinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (str(tmp_path / "new" / "me"), "me.txt"):
        assert write_self(path, "", OTHER) is None
        refused = write_self(path, "", OWN)
        assert refused is not None
        assert f"the identity slot {path}: it names @" in refused.sentence
        assert read_self(path) == OTHER
        assert write_self(path, NO_ROW, OWN) is None
        assert write_self(path, "", OTHER, repin=True) is None
        assert read_self(path) == OTHER
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["me.txt", "new"]


# The audit


@pytest.mark.parametrize(
    ("name", "own", "verdict"),
    [
        ("h__ws-alpha-6a1.txt", OWN, Audit.AGREES),
        ("h__ws-alpha_jl-6a2.txt", SelfFile("Alpha-h", "Alpha.jl", "/p/Alpha.jl"), Audit.AGREES),
        ("h__ws-alpha-beta-7b1.txt", SelfFile("x", "alpha- beta", "/p"), Audit.AGREES),
        ("h__ws-beta-cx-6a3.txt", OTHER, Audit.SUFFIXED),
        ("h__ws-beta-srv-6a3.txt", SelfFile("beta-srv-h", "beta", "/srv/beta"), Audit.SUFFIXED),
        ("h__ws-beta_2-6a3.txt", OTHER, Audit.SUFFIXED),
        ("h__ws-epsilon-6a4.txt", OWN, Audit.DIFFERS),
        ("h__ws-alphatools-6a4.txt", OWN, Audit.DIFFERS),
        ("h__ws-alpha-7b2.txt", SelfFile("x", "alpha-tools", "/p/alpha-tools"), Audit.DIFFERS),
        ("h__ws-my__pkg-7b2.txt", OWN, Audit.DIFFERS),
        ("h__ws-alpha-6a1.txt", SelfFile("x", "", ""), Audit.NO_REPO),
        ("h__ws-alpha-6a1.txt", None, Audit.NO_REPO),
        ("h__ws-alpha-6a1.txt", ReadFailed("EIO"), Audit.UNREADABLE),
        ("h__nopane.txt", OTHER, Audit.NOT_A_ROW),
        ("h__17.txt", OTHER, Audit.NOT_A_ROW),
        ("h__ws-alpha.txt", OTHER, Audit.NOT_A_ROW),
        ("h__ws-.txt", OTHER, Audit.NOT_A_ROW),
        ("private.txt", OTHER, Audit.NOT_A_ROW),
    ],
)
def test_the_audit_finds_only_a_slot_that_names_another_project(
    name: str, own: SelfFile | ReadFailed | None, verdict: Audit
) -> None:
    finding = audit_slot(name, own, "h")
    assert finding.audit is verdict
    assert bool(finding.key_slug) is (verdict is not Audit.NOT_A_ROW)


@pytest.mark.parametrize(
    ("label", "made"),
    [
        ("MyPackage.jl", "mypackage_jl"),
        ("Foo Bar", "foo-bar"),
        ("/abs/path", "abs-path"),
        ("  ", "default"),
        ("", "default"),
        ("a--b", "a--b"),
        ("a- b", "a-b"),
        ("ab-!", "ab"),
        ("\u212aelvin", "elvin"),
    ],
)
def test_how_the_daemon_makes_a_name_of_a_label(label: str, made: str) -> None:
    assert slug(label) == made


def test_every_slot_is_looked_at(tmp_path: Path) -> None:
    home = str(tmp_path / "comm")
    for slot, own in (("ws-beta-1", OTHER), ("nopane", OWN)):
        write_slot(home, "h", slot, own)
    (tmp_path / "comm" / "self" / "note.txt").write_text("not a slot")
    assert read_slots(home) == [("h__nopane.txt", OWN), ("h__ws-beta-1.txt", OTHER)]


def test_without_the_folder_there_is_nothing_to_audit(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_slots(str(tmp_path))
