"""Comm folders on file systems that cannot serve one: full, read-only, without links, proving nothing.

Each needs a mount of its own, so root; elsewhere the same calls are made to fail in `test_registry_lock` and
`test_registry_write`.
"""

import json
import os
import shutil
import subprocess
import sys
from mmap import PAGESIZE as PAGE
from pathlib import Path

import pytest

from filing.comm_home import HomeNotReady, HomeReady, ensure_home
from filing.registry import Listing, read_registry
from filing.registry_lock import LockNotTakenError, clear, registry_lock
from filing.registry_lock.lock import this_process
from filing.registry_write import Document, NotWritten, Written, update_registry
from tests.support.mounts import fat, mounted

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux's mount command")


def join_h(document: Document) -> Document:
    document["agents"]["h"] = {"host": "box", "text": "x" * PAGE}
    return document


def entries(home: Path) -> set[str]:
    return {entry.name for entry in home.iterdir()}


def fill_but(folder: Path, pages: int) -> None:
    """Leave that many pages of a tmpfs free."""
    usage = shutil.disk_usage(folder)
    (folder / "ballast").write_bytes(bytes(usage.free - pages * PAGE))
    assert shutil.disk_usage(folder).free == pages * PAGE


@pytest.mark.parametrize(("pages", "sentence"), [(0, "its temp file"), (1, "could not be flushed")])
def test_a_full_disk_is_named_and_nothing_is_half_written(tmp_path: Path, pages: int, sentence: str) -> None:
    """With no page left the lock's record finds no room; with one, the new registry does not."""
    with mounted(tmp_path / "m", "-t", "tmpfs", "-o", "size=128k", "tmpfs") as folder:
        home = folder / "comm"
        assert ensure_home(str(home)) == HomeReady()
        before = (home / "registry.json").read_bytes()
        at_rest = entries(home)
        fill_but(folder, pages)
        answer = update_registry(str(home), join_h)
        assert isinstance(answer, NotWritten)
        assert sentence in answer.sentence
        assert "No space left on device (ENOSPC)" in answer.sentence
        assert (home / "registry.json").read_bytes() == before
        assert entries(home) == at_rest
        (folder / "ballast").unlink()
        assert update_registry(str(home), join_h) == Written()


def test_a_full_disk_gets_no_registry(tmp_path: Path) -> None:
    with mounted(tmp_path / "m", "-t", "tmpfs", "-o", "size=128k", "tmpfs") as folder:
        home = folder / "comm"
        for name in ("inbox", "read", "self", "state"):
            (home / name).mkdir(parents=True)
        fill_but(folder, 0)
        answer = ensure_home(str(home))
        assert isinstance(answer, HomeNotReady)
        assert "No space left on device (ENOSPC)" in answer.sentence
        assert not list(home.glob("registry.json*"))


def test_a_read_only_folder_is_named(tmp_path: Path) -> None:
    with mounted(tmp_path / "m", "-t", "tmpfs", "tmpfs") as folder:
        home = folder / "comm"
        ensure_home(str(home))
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        answer = update_registry(str(home), join_h)
        assert isinstance(answer, NotWritten)
        assert "Read-only file system (EROFS)" in answer.sentence
        assert isinstance(read_registry(str(home)), Listing)
        assert ensure_home(str(home)) == HomeReady()  # all is there, and closed
        other = ensure_home(str(folder / "other"))
        assert isinstance(other, HomeNotReady)
        assert "Read-only file system (EROFS)" in other.sentence


def test_an_overlay_proves_no_death(tmp_path: Path) -> None:
    for name in ("lower", "upper", "work"):
        (tmp_path / name).mkdir()
    layers = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    with mounted(tmp_path / "m", "-t", "overlay", "-o", layers, "overlay") as folder:
        home = folder / "comm"
        assert ensure_home(str(home)) == HomeReady()
        assert update_registry(str(home), join_h) == Written()
        me = this_process(str(home), "boxa")
        assert me.no_proof is not None
        assert "overlay" in me.no_proof
        assert str(me.record) == f"boxa:-:-:-:{os.getpid()}:-"
        with registry_lock(str(home), 0, host="boxa"):
            assert (home / ".registry.lock").read_text() == f"{me.record}\n"
            shutil.copy(home / ".registry.lock", folder / "kept")
        (folder / "kept").rename(home / ".registry.lock")
        with pytest.raises(LockNotTakenError, match="No box can prove boxa"), registry_lock(str(home), 0):
            pass
        assert not clear(str(home)).ok


def test_fat_has_no_hard_links(tmp_path: Path) -> None:
    with fat(tmp_path / "m", tmp_path / "fat.img") as folder:
        home = folder / "comm"
        answer = ensure_home(str(home))
        assert isinstance(answer, HomeNotReady)
        assert answer.sentence.startswith(f"cannot hard-link in {home}: ")
        (home / "registry.json").write_text(json.dumps({"agents": {}}))
        written = update_registry(str(home), join_h)
        assert isinstance(written, NotWritten)
        assert written.sentence.startswith(f"cannot hard-link in {home}: ")
        assert not [name for name in entries(home) if name.startswith(".registry") or name.endswith(".tmp")]
