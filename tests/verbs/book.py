"""An address book to test: a comm folder, projects to stand in, and the verbs as real processes."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from filing.liveness import utc_stamp
from filing.naming import host_component
from filing.platform.process import no_fresh_read
from filing.registry_lock.record import LOCK_NAME
from tests.verbs.support import BOUND_S, ROOT, Result
from verbs.project import raw_host

HOST = "boxa"
BOX_PART = host_component(raw_host() or HOST)
HOLDER = """
import sys
from filing.registry_lock import registry_lock
with registry_lock(sys.argv[1], 0.0, host="boxa"):
    print("held", flush=True)
    sys.stdin.read()
"""


class Book:
    """`run` starts a verb in a project's folder; the environment holds nothing of the one who tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "comm"
        self.registry = self.home / "registry.json"
        self.lock = self.home / LOCK_NAME
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "SOT_COMM_HOME": str(self.home),
            "SOT_SELF_HOST": HOST,
            "PYTHONPATH": str(ROOT),
            "PYTHONUTF8": "1",
        }
        for variable in ("SYSTEMROOT", "TEMP"):  # Windows starts no process without them
            if variable in os.environ:
                self.env[variable] = os.environ[variable]

    def project(self, name: str = "app") -> Path:
        root = self.folder / name
        (root / ".git").mkdir(parents=True, exist_ok=True)
        return root

    def command(self, verb: str, *args: str) -> list[str]:
        return [sys.executable, "-W", "error", "-m", f"verbs.{verb}", *args]

    def start(
        self, verb: str, *args: str, cwd: Path | str | None = None, **env: str
    ) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            self.command(verb, *args),
            cwd=cwd or self.project(),
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, verb: str, *args: str, cwd: Path | str | None = None, **env: str) -> Result:
        return ended(self.start(verb, *args, cwd=cwd, **env))

    def write(self, agents: Mapping[str, Any], **members: Any) -> None:
        self.home.mkdir(mode=0o700, exist_ok=True)
        text = json.dumps({"protocol_version": 1, "agents": agents, **members})
        self.registry.write_text(text, encoding="utf-8")

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.registry.read_bytes())
        return document

    def agents(self) -> dict[str, Any]:
        agents: dict[str, Any] = self.document()["agents"]
        return agents

    def self_file(self, slot: str = "nopane") -> Path:
        return self.home / "self" / f"{HOST}__{slot}.txt"

    def everything(self) -> dict[str, bytes | None]:
        """All that is in the comm folder, to be compared after a verb that must write nothing."""
        found = sorted(self.home.rglob("*"))
        return {str(path): path.read_bytes() if path.is_file() else None for path in found}

    @contextmanager
    def lock_held(self) -> Iterator["subprocess.Popen[bytes]"]:
        """Another process of this box has the registry lock while the block runs, unless it is killed."""
        command = [sys.executable, "-c", HOLDER, str(self.home)]
        with subprocess.Popen(command, env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline().strip() == b"held"
            try:
                yield holder
            finally:
                holder.communicate(timeout=BOUND_S)

    def dead_holder(self) -> None:
        """Leave the registry lock of a process that was killed."""
        with self.lock_held() as holder:
            holder.kill()
        assert self.lock.exists()


def ended(process: "subprocess.Popen[bytes]") -> Result:
    out, err = process.communicate(timeout=BOUND_S)
    assert b"Traceback" not in err
    return Result(process.returncode, out.decode(), err.decode())


def row(root: Path | str = "/elsewhere/app", *, age_s: float = 0, **members: Any) -> dict[str, Any]:
    seen = utc_stamp(time.time() - age_s)
    return {"host": HOST, "workspace_id": "", "root": str(root), "last_seen": seen, **members}


def prove_deaths(folder: Path) -> None:
    """Go on only where this box proves a death in a comm folder there (PROTOCOL Proof of death)."""
    why = no_fresh_read(str(folder))
    if why is not None:
        pytest.skip(f"no death can be proved in {folder}: {why}")


def mount(folder: Path, *options: str) -> None:
    """Mount something; the test is skipped where that is not to be had."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("a file system of its own is mounted for this, which needs root on Linux")
    folder.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *options, str(folder)], capture_output=True, text=True, timeout=BOUND_S)
    if done.returncode != 0:
        pytest.skip(f"it cannot be mounted here: {done.stderr.partition(chr(10))[0]}")


def unmount(folder: Path) -> None:
    subprocess.run(["umount", str(folder)], capture_output=True, check=True, timeout=BOUND_S)
