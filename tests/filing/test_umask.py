"""What filing makes is 0700 or 0600 under every umask, from the first folder to the last temp file."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from filing.comm_folder import CommFolder, make_private_folder
from filing.comm_home import HomeReady, ensure_home
from filing.cursor import write_cursor
from filing.local_append import append_locally
from filing.lock_manager import Role
from filing.lock_record import RecordFate, start_record
from filing.outcome import FILED
from filing.registry_lock import registry_lock
from filing.registry_write import Written, update_registry
from filing.self_file import SelfFile, write_slot
from tests.filing.support import FakeMachine, on_posix

ROOT = Path(__file__).parents[2]

pytestmark = on_posix


def work(home: str) -> None:
    """All that makes files, in the order of a box's first day. The modes are judged before a join closes
    what it finds open.
    """
    folder = CommFolder(home)
    assert start_record(folder, Role.HUB, "none@m1", "m1").fate is RecordFate.CREATED
    judge(home)
    assert start_record(folder, Role.HUB, "local m1", "m1").fate is RecordFate.REPLACED
    judge(home)
    make_private_folder(f"{home}/state/new")
    # A registry of its own making, and only then the join that closes older folders.
    assert isinstance(ensure_home(home), HomeReady)
    assert isinstance(update_registry(home, lambda document: document), Written)
    with registry_lock(home):
        judge(home)
    filed = append_locally(home, "h", b"{}\n", 0, machine=FakeMachine(), system="linux")
    assert filed is FILED
    write_cursor(folder, "h", "1\n")
    assert write_slot(home, "box", "nopane", SelfFile("h", "", "")) is None
    judge(home)


def judge(home: str) -> None:
    for path in (Path(home), *Path(home).rglob("*")):
        status = path.stat()
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(status.st_mode) == wanted, f"{path}: {status.st_mode:o}"


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o277, 0o377, 0o777], ids=oct)
def test_the_umask_decides_nothing(tmp_path: Path, mask: int) -> None:
    command = [sys.executable, "-B", "-m", "tests.filing.test_umask", oct(mask), str(tmp_path / "home")]
    child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert child.returncode == 0, child.stderr
    judge(str(tmp_path / "home"))


if __name__ == "__main__":
    os.umask(int(sys.argv[1], 8))
    work(sys.argv[2])
