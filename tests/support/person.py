"""Somebody at a box, in a project's folder, who types our commands there."""

import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from deploy.fleet import Box

BOUND_S = 60.0  # of one command; no assertion depends on it
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@dataclass(frozen=True)
class Said:
    """What one command came to."""

    code: int
    out: str = ""
    err: str = ""

    def timeless(self) -> "Said":
        """The same with TIME for each time stamp."""
        return replace(self, out=_STAMP.sub("TIME", self.out), err=_STAMP.sub("TIME", self.err))


class Person:
    """`env` stands on top of the box's. Each command is a process of its own."""

    def __init__(self, box: Box, root: Path, env: Mapping[str, str] | None = None) -> None:
        self.box = box
        self.root = root
        self.env = {**box.env(), "PYTHONUTF8": "1", "PYTHONWARNINGS": "error", **(env or {})}

    @classmethod
    def in_project(cls, box: Box, *folders: str, env: Mapping[str, str] | None = None) -> Self:
        """Somebody in a checkout below the box's home."""
        root = box.folder.resolve().joinpath(*folders)
        (root / ".git").mkdir(parents=True)
        return cls(box, root, env)

    def does(self, verb: str, *words: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Said:
        """Type one command, as `comm_send`, and wait for its end; each time stamp that it says is TIME."""
        with self.starts(verb, *words, env=env) as process:
            return said(process, stdin)

    def starts(
        self, verb: str, *words: str, env: Mapping[str, str] | None = None
    ) -> "subprocess.Popen[bytes]":
        """Type one command and do not wait; `said` does."""
        return subprocess.Popen(
            [sys.executable, "-m", f"verbs.{verb}", *words],
            cwd=self.root,
            env={**self.env, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def shell(self, script: str, *words: str, stdin: bytes = b"") -> bytes:
        """Run a script of plain shell in the comm folder, with `words` as $1 and so on; return its output."""
        done = subprocess.run(
            ["sh", "-eu", "-c", script, "sh", *words],
            cwd=self.box.comm_home,
            env=self.env,
            input=stdin,
            capture_output=True,
            timeout=BOUND_S,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout


def said(process: "subprocess.Popen[bytes]", stdin: bytes = b"") -> Said:
    """Wait for the end of a command that `Person.starts` started; what hangs is killed."""
    try:
        out, err = process.communicate(stdin, timeout=BOUND_S)
    except BaseException:
        process.kill()
        raise
    # Not text=True, which would read a CR LF and a lone CR as LF.
    return Said(process.returncode, out.decode(), err.decode()).timeless()
