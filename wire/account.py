"""This process's OS account, as a hello names it (WIRE section 3). Light: every send asks for it."""

import os
import sys


def os_user() -> str:
    """Return this process's OS account as a hello names it: `uid:<euid>`, or the SID on Windows."""
    if sys.platform == "win32":
        return _windows_sid()
    return f"uid:{os.geteuid()}"


def _windows_sid() -> str:
    import csv
    import subprocess

    # The last column of its one row is the SID: "box\\user","S-1-5-21-…".
    told = subprocess.run(
        ["whoami", "/user", "/fo", "csv", "/nh"], capture_output=True, text=True, timeout=10, check=True
    )
    return next(csv.reader([told.stdout.strip()]))[-1]
