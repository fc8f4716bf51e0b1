"""Real processes at one registry, killed and frozen inside its lock (`registry_hammer`)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from filing.platform import process
from tests.filing.support import on_posix

WORKERS, KILLS, SECONDS = 6, 80, 25


@on_posix
def test_no_acknowledged_update_is_lost_and_no_live_holder_forced(tmp_path: Path) -> None:
    """The hammer ends in an AssertionError at the first registry that does not parse, update that is lost,
    live holder that is forced, and dead one that is not cleared.
    """
    if (why := process.no_fresh_read(str(tmp_path))) is not None:
        pytest.skip(f"dead holders are cleared by hand here: {why}")
    command = [sys.executable, "-m", "tests.filing.registry_hammer", str(tmp_path / "comm")]
    done = subprocess.run(
        [*command, str(WORKERS), str(KILLS), str(SECONDS)], capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    print(done.stdout)
    counted = json.loads(done.stdout)
    assert min(counted.values()) > 0, counted
