"""Real parts that a test needs: looked for, skipped with a reason on a person's machine, failed for in CI."""

import os
import shutil

import pytest


def need(*commands: str) -> None:
    """Go on only where every command is on PATH."""
    missing = [command for command in commands if shutil.which(command) is None]
    if missing:
        unavailable(f"not on PATH: {', '.join(missing)}")


def unavailable(reason: str) -> None:
    """End the test: it needs a part that is not here."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI must have this part: {reason}")
    pytest.skip(reason)
