"""What the tests of `filing` share: the golden tables, a comm folder to file into, util-linux `flock`."""

import base64
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from filing.filer import Filer, FileRequest, FilerSettings, TopologyState
from filing.liveness import utc_stamp
from filing.machine import Machine

VECTORS = Path(__file__).parent.parent / "vectors"

on_posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX file modes, links and FIFOs")


def table(file: str, name: str) -> list[Any]:
    cases = json.loads((VECTORS / f"{file}.json").read_text(encoding="utf-8"))[name]
    assert isinstance(cases, (list, dict))
    return cases if isinstance(cases, list) else [cases]


def case_name(case: Any) -> str:
    return str(case.get("name", "")) if isinstance(case, dict) else ""


def from_base64(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


class FakeMachine(Machine):
    """A machine with the given id, on whose mount every folder has the given identity."""

    def __init__(self, identity: str = "local m1", machine_id: str | None = "m1") -> None:
        self.identity = identity
        self.id = machine_id

    def machine_id(self) -> str | None:
        return self.id

    def own_identity(self, folder: str, machine_id: str | None) -> str:
        return self.identity

    def own_disk(self, folder: str, identity: str) -> bool:
        return identity.startswith("local ")


class Home:
    """A comm folder below `path`, with a registry of the given rows."""

    def __init__(self, path: Path) -> None:
        self.path = path / "comm"
        self.path.mkdir(mode=0o700)

    def enlist(self, *handles: str, host: str = "box", last_seen: str | None = None) -> None:
        seen = last_seen or utc_stamp(time.time() + 3600)
        self.write_registry({handle: {"host": host, "last_seen": seen} for handle in handles})

    def write_registry(self, agents: Mapping[str, Any]) -> None:
        text = json.dumps({"protocol_version": 1, "agents": agents})
        (self.path / "registry.json").write_text(text, encoding="utf-8")

    def inbox(self, handle: str) -> Path:
        return self.path / "inbox" / f"{handle}.jsonl"

    def lock(self, handle: str) -> Path:
        return self.path / "inbox" / f"{handle}.lock"

    def texts(self, handle: str) -> list[str]:
        """The messages of an inbox, which must hold whole, strict lines and nothing else."""
        if not self.inbox(handle).exists():
            return []
        data = self.inbox(handle).read_bytes()
        assert data.endswith(b"\n") or not data
        return [json.loads(line)["msg"] for line in data.split(b"\n")[:-1]]

    def settings(self, **changes: Any) -> FilerSettings:
        values: dict[str, Any] = {
            "home": str(self.path),
            "self_host": "box",
            "topology": TopologyState.none(),
            "lock_wait_s": 30.0,
            "file_wait_s": 60.0,
        }
        return FilerSettings(**(values | changes))

    def filer(self, *, machine: Machine | None = None, **changes: Any) -> Filer:
        """Not started yet. Keys of `FilerSettings` are settings, all others are the filer's own arguments."""
        own = {key: changes.pop(key) for key in ("clock", "files", "reads") if key in changes}
        return Filer(self.settings(**changes), machine=machine or FakeMachine(), **own)


def request(to: str, text: str = "hello", **changes: Any) -> FileRequest:
    values: dict[str, Any] = {"sender": "s", "to": to, "text": text, "broadcast": False, "forwarded": False}
    return FileRequest(**(values | changes))


def flock_tool() -> str:
    """The path of util-linux `flock`. Missing, the test is skipped; under CI=true it fails."""
    tool = shutil.which("flock")
    if tool is None:
        assert os.environ.get("CI") != "true", "flock (util-linux) is missing, and CI must not skip for that"
        pytest.skip("flock (util-linux) is not installed")
    return tool


@contextmanager
def held_elsewhere(lock: Path, *, shared: bool = False) -> Iterator[None]:
    """Another process holds the lock file's lock while the block runs."""
    lock.parent.mkdir(mode=0o700, exist_ok=True)
    how = "--shared" if shared else "--exclusive"
    command = [flock_tool(), how, str(lock), "sh", "-c", "echo held; read -r _"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        try:
            yield
        finally:
            holder.communicate(b"\n")
