"""A comm folder with sessions that mail each other: the mail verbs as real processes, each in its project."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from filing import platform
from filing.inbox import inbox_line
from filing.registry_write import Document, Written, update_registry
from tests.verbs.book import Book, row
from tests.verbs.support import BOUND_S, Daemon, Result, Script, filing

ME, YOU = "me-boxa", "you-boxa"
STAMP = "2026-01-01T00:00:00Z"

# A command appends by its own hand on Linux alone, and only where the machine has an id.
appends_itself = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine_id() is None, reason="the append is the daemon's here"
)


class Mail(Book):
    """`me` and `you` are joined from folders of their own; processes run as `me` unless told otherwise."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.runtime = folder / "run"
        (self.runtime / "sot").mkdir(parents=True)
        self.env["XDG_RUNTIME_DIR"] = str(self.runtime)
        self.hub_socket = str(self.runtime / "sot" / "hub.sock")
        self.me, self.you = self.project("me"), self.project("you")
        self.rows: dict[str, Any] = {ME: row(self.me), YOU: row(self.you)}
        self.write(self.rows)
        self.pin(ME, self.me)

    def pin(self, handle: str, root: Path, slot: str = "nopane") -> None:
        """Write the self file of a slot."""
        path = self.self_file(slot)
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{handle}\nrepo={root.name}\nroot={root}\n", encoding="utf-8")

    def enlist(self, **rows: Mapping[str, Any]) -> None:
        """Add rows; `_` in a name stands for `-`."""
        self.rows |= {name.replace("_", "-"): entry for name, entry in rows.items()}
        self.write(self.rows)

    def rebind(self, handle: str, row_id: str) -> None:
        """Bind a handle to a row, under the lock: whoever stamps it just then undoes nothing."""

        def bind(document: Document) -> Document:
            document["agents"][handle]["workspace_id"] = row_id
            return document

        assert update_registry(str(self.home), bind) == Written()

    def record_own_lock(self) -> None:
        """What this machine's hub writes when it starts."""
        inboxes = self.home / "inbox"
        inboxes.mkdir(exist_ok=True)
        machine_id = platform.machine_id()
        own = platform.own_identity(str(inboxes), machine_id)
        (self.home / "inbox-lock-manager").write_text(f"{own}\n{machine_id}\n")

    @contextmanager
    def hub(self, script: Script = filing) -> Iterator[Daemon]:
        daemon = Daemon(self.hub_socket, script)
        try:
            yield daemon
        finally:
            daemon.close()

    def me_does(self, verb: str, *args: str, **env: str) -> Result:
        return self.me_pipes(b"", verb, *args, **env)

    def me_pipes(self, stdin: bytes, verb: str, *args: str, **env: str) -> Result:
        done = subprocess.run(
            self.command(verb, *args),
            cwd=self.me,
            env={**self.env, **env},
            input=stdin,
            capture_output=True,
            timeout=BOUND_S,
        )
        assert b"Traceback" not in done.stderr
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    def send(self, *args: str, **env: str) -> Result:
        return self.me_does("comm_send", *args, **env)

    def poll(self, *args: str, **env: str) -> Result:
        return self.me_does("comm_poll", *args, **env)

    def status(self, *args: str, **env: str) -> Result:
        return self.me_does("comm_status", *args, **env)

    # The inboxes

    def inbox(self, handle: str = ME) -> Path:
        return self.home / "inbox" / f"{handle}.jsonl"

    def inbox_lock(self, handle: str = ME) -> Path:
        return self.home / "inbox" / f"{handle}.lock"

    def cursor(self, handle: str = ME) -> Path:
        return self.home / "read" / f"{handle}.cursor"

    def lines(self, handle: str) -> list[dict[str, Any]]:
        if not self.inbox(handle).exists():
            return []
        return [json.loads(line) for line in self.inbox(handle).read_bytes().split(b"\n")[:-1]]

    def arrive(self, *texts: str, to: str = ME, broadcast: bool = False) -> None:
        """Add lines to an inbox as another writer does."""
        self.inbox(to).parent.mkdir(exist_ok=True)
        with self.inbox(to).open("ab") as inbox:
            for text in texts:
                inbox.write(inbox_line(sender=YOU, to=to, text=text, broadcast=broadcast, stamp=STAMP))


def shown(*texts: str) -> str:
    return "".join(f"[{STAMP}] [{YOU}:daemon] {text}\n" for text in texts)


def start(mail: Mail, verb: str, *args: str, **env: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        mail.command(verb, *args),
        cwd=mail.me,
        env={**mail.env, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def broken_pipe(mail: Mail, verb: str, *args: str) -> tuple[int, bytes]:
    """Run a verb whose reader has gone; its exit code and standard error."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        mail.command(verb, *args),
        cwd=mail.me,
        env=mail.env,
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=BOUND_S,
    )
    os.close(writing)
    return done.returncode, done.stderr
