"""This system's own arm, whichever it is, and Linux's mount table in more detail."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from filing import platform
from filing.comm_folder import open_private
from filing.machine import THIS_MACHINE
from tests.filing.support import held_elsewhere


def test_the_lock_excludes_another_descriptor(tmp_path: Path) -> None:
    one, _ = open_private(str(tmp_path / "lock"))
    other, _ = open_private(str(tmp_path / "lock"))
    assert platform.try_lock(one)
    assert not platform.try_lock(other)
    assert not platform.try_lock(other, shared=True)
    platform.unlock(one)
    assert platform.try_lock(other, shared=True)
    assert platform.try_lock(one, shared=True)
    os.close(one)
    os.close(other)


def test_closing_lets_go(tmp_path: Path) -> None:
    one, _ = open_private(str(tmp_path / "lock"))
    platform.wait_lock(one)
    os.close(one)
    other, _ = open_private(str(tmp_path / "lock"))
    assert platform.try_lock(other)
    os.close(other)


def test_it_is_the_lock_that_flock_takes(tmp_path: Path) -> None:
    fd, _ = open_private(str(tmp_path / "f.lock"))
    with held_elsewhere(tmp_path / "f.lock"):
        assert not platform.try_lock(fd)
    with held_elsewhere(tmp_path / "f.lock", shared=True):
        assert not platform.try_lock(fd)
        assert platform.try_lock(fd, shared=True)
    assert platform.try_lock(fd)
    os.close(fd)


def test_flushes_of_a_file_and_a_folder(tmp_path: Path) -> None:
    fd, _ = open_private(str(tmp_path / "f"))
    os.write(fd, b"x")
    platform.flush(fd)
    os.close(fd)
    platform.flush_folder(str(tmp_path))


def test_this_machine_answers_without_failing(tmp_path: Path) -> None:
    machine_id = THIS_MACHINE.machine_id()
    for folder in (tmp_path, tmp_path / "not" / "there"):
        identity = THIS_MACHINE.own_identity(str(folder), machine_id)
        assert identity == THIS_MACHINE.own_identity(str(folder), machine_id)
        THIS_MACHINE.own_disk(str(folder), identity)
        if machine_id is None:
            assert identity == "none" or identity.startswith("nfs4 ")


if sys.platform == "linux":
    from filing.platform import linux

    TABLE = b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"

    def test_an_unreadable_mount_table_proves_no_lock(tmp_path: Path) -> None:
        mounts = linux.Mounts(str(tmp_path / "none"))
        assert mounts.identity(str(tmp_path), "m") == "none@m"
        (tmp_path / "none").write_bytes(TABLE)
        assert mounts.identity(str(tmp_path), "m") == "local m"

    def test_a_path_that_leads_elsewhere_is_asked_again(tmp_path: Path) -> None:
        mounts = linux.Mounts()
        proc_link = tmp_path / "home"
        proc_link.symlink_to(tmp_path)
        here = mounts.identity(str(proc_link), "m")
        assert here == mounts.identity(str(tmp_path), "m")
        proc_link.unlink()
        proc_link.symlink_to("/proc")
        assert mounts.identity(str(proc_link), "m") == "none@m"

    MOUNT_SCRIPT = """
import subprocess, sys
from filing.platform.linux import Mounts
folder = sys.argv[1]
mounts = Mounts()
before = mounts.identity(folder, "m")
subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
on_top = mounts.identity(folder, "m")
subprocess.run(["umount", folder], check=True)
print(before, on_top, mounts.identity(folder, "m"), sep="|")
"""

    def test_a_mount_over_the_folder_is_noticed(tmp_path: Path) -> None:
        """In a mount namespace of its own, which needs root or user namespaces."""
        command = ["unshare", "--mount", "--map-root-user", sys.executable, "-c", MOUNT_SCRIPT, str(tmp_path)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            pytest.skip("unshare (util-linux) is not installed")
        if done.returncode:
            pytest.skip(f"no mount namespace here: {done.stderr.strip()}")
        before, on_top, after = done.stdout.strip().split("|")
        assert on_top == "none@m"
        assert before == after
        assert before == linux.own_identity(str(tmp_path), "m")
