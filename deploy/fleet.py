"""A fleet on one machine: a hub and links as real child processes, each with a comm folder of its own.

The demo and the end-to-end tests are built on it. Every wait is bounded, and `Fleet.close` ends what was
started, by its own process handle.
"""

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from wire.account import os_user

START_S = 30.0  # for a daemon to say "ready", or for a link to be up
STOP_S = 15.0  # for a daemon to end after SIGTERM
ASK_S = 10.0  # for one answer from a daemon
_POLL_S = 0.01
_KEPT_ENV = ("PATH", "SYSTEMROOT", "TEMP", "LANG", "CI")
_CHECKOUT = Path(__file__).parent.parent


class DaemonFailedError(RuntimeError):
    """A daemon did not start, or ended when it should not have; str() holds its last words."""


def command(name: str) -> list[str]:
    """Return the argument list of one of our commands: the installed script, else the module."""
    suffix = ".exe" if sys.platform == "win32" else ""
    script = Path(sys.executable).parent / f"{name}{suffix}"
    if script.exists():
        return [str(script)]
    module = {"sot-hub": "hub.cli", "sot-link": "link.cli", "comm-relay": "verbs.comm_relay"}[name]
    return [sys.executable, "-m", module]


class Daemon:
    """One child process that says `listening …` and `ready` on stdout; its log goes to a file."""

    def __init__(self, argv: Sequence[str], *, log: Path, env: Mapping[str, str]) -> None:
        """Start it and wait until it is ready. Raises DaemonFailedError."""
        self.log = log
        self.endpoints: list[str] = []
        with log.open("ab") as stderr:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=dict(env),
                text=True,
            )
        self.pid = self.process.pid
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read_stdout, daemon=True).start()
        self._wait_ready(argv)

    def endpoint(self, scheme: str) -> str:
        """Return the first endpoint of this scheme that it listens on, as it said so itself."""
        return next(endpoint for endpoint in self.endpoints if endpoint.startswith(f"{scheme}:"))

    def signal(self, number: int) -> None:
        """Send a signal to exactly this process."""
        self.process.send_signal(number)

    def stop(self) -> int:
        """SIGTERM, and wait for the end; return the exit code. One that does not end in time is killed."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise DaemonFailedError(f"pid {self.pid} did not end within {STOP_S:g} s of SIGTERM") from None

    def kill(self) -> None:
        """Kill -9, and reap."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(STOP_S)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def rest_of_stdout(self) -> list[str]:
        """Return what it printed after `ready`, once it has ended."""
        lines = []
        while (line := self._lines.get(timeout=STOP_S)) is not None:
            lines.append(line)
        self._lines.put(None)
        return lines

    def _read_stdout(self) -> None:
        assert self.process.stdout is not None  # noqa: S101  # asked for above
        try:
            for line in self.process.stdout:
                self._lines.put(line.rstrip("\n"))
        except ValueError:
            pass  # closed by kill()
        self._lines.put(None)

    def _wait_ready(self, argv: Sequence[str]) -> None:
        deadline = time.monotonic() + START_S
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                line = None
            if line is None:
                self.kill()
                words = self.log.read_text(errors="replace").strip()[-2000:]
                raise DaemonFailedError(f"{' '.join(argv)} did not become ready:\n{words}")
            if line == "ready":
                return
            self.endpoints.append(line.removeprefix("listening "))


@dataclass(slots=True)
class Box:
    """A box of the fleet: its comm folder, its sockets, and the daemon that runs there, if any."""

    name: str
    folder: Path
    daemon: Daemon | None = None
    extra_env: dict[str, str] = field(default_factory=dict)

    @property
    def comm_home(self) -> Path:
        """The box's comm folder."""
        return self.folder / "comm"

    @property
    def socket(self) -> Path:
        """The Unix socket of the box's daemon."""
        return self.folder / "run" / "s"

    @property
    def endpoint(self) -> str:
        """Where the box's own clients reach its daemon."""
        return f"unix:{self.socket}"

    def env(self) -> dict[str, str]:
        """Return an environment in which nothing of the person who runs this shows."""
        kept = {key: os.environ[key] for key in _KEPT_ENV if key in os.environ}
        return {
            **kept,
            "PYTHONPATH": os.pathsep.join([str(_CHECKOUT), os.environ.get("PYTHONPATH", "")]),
            "HOME": str(self.folder),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "XDG_RUNTIME_DIR": str(self.folder / "run"),
            "SOT_COMM_HOME": str(self.comm_home),
            "SOT_SELF_HOST": self.name,
            **self.extra_env,
        }

    def register(self, handle: str, *, host: str | None = None, age_s: float = 0) -> None:
        """List a handle in the box's registry, last seen `age_s` ago."""
        self.comm_home.mkdir(mode=0o700, exist_ok=True)
        path = self.comm_home / "registry.json"
        registry: dict[str, Any] = {"protocol_version": 1, "agents": {}}
        if path.exists():
            registry = json.loads(path.read_text())
        seen = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - age_s))
        registry["agents"][handle] = {"host": self.name if host is None else host, "last_seen": seen}
        fresh = path.with_suffix(".json.tmp")
        fresh.write_text(json.dumps(registry))
        fresh.replace(path)

    def inbox(self, handle: str) -> list[dict[str, Any]]:
        """Return the lines of a handle's inbox, parsed; a line that is no JSON is an error here."""
        path = self.comm_home / "inbox" / f"{handle}.jsonl"
        data = path.read_bytes() if path.exists() else b""
        return [json.loads(line) for line in data.split(b"\n")[:-1]]

    def log(self) -> str:
        """Return what the daemons of this box have logged."""
        path = self.folder / "daemon.log"
        return path.read_text(errors="replace") if path.exists() else ""

    @contextmanager
    def inbox_lock(self, handle: str) -> Iterator[None]:
        """Hold a handle's inbox lock, as another writer would."""
        from filing.platform import try_lock

        folder = self.comm_home / "inbox"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder / f"{handle}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if not try_lock(descriptor):
                raise DaemonFailedError(f"the inbox lock of {handle} is held already")
            yield
        finally:
            os.close(descriptor)


class Fleet:
    """Boxes under one private folder that goes away with it."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        """`env` is set for every process of every box, unless the box's own `extra_env` says otherwise."""
        # The system's temp folder: a Unix socket's path must be short.
        self._temporary = tempfile.TemporaryDirectory(prefix="sot-", ignore_cleanup_errors=True)
        self.folder = Path(self._temporary.name)
        self.boxes: dict[str, Box] = {}
        self._env = dict(env or {})
        self._started: list[Daemon] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every process that was started here, and remove the folder."""
        for daemon in self._started:
            if daemon.process.poll() is None:
                if sys.platform != "win32":
                    daemon.signal(signal.SIGCONT)
                daemon.process.terminate()
        for daemon in self._started:
            with suppress(subprocess.TimeoutExpired):
                daemon.process.wait(STOP_S)
            daemon.kill()
        self._started.clear()
        self._temporary.cleanup()

    def box(self, name: str) -> Box:
        """Return the box of that name, made on first use."""
        if name not in self.boxes:
            folder = self.folder / str(len(self.boxes))
            for part in (folder, folder / "run", folder / "config"):
                part.mkdir(mode=0o700)
            self.boxes[name] = Box(name, folder, extra_env=dict(self._env))
        return self.boxes[name]

    def hosts_file(self, hub: str, holders: Sequence[str]) -> Path:
        """Write a hosts.toml with this hub and these boxes that should hold a link; return its path."""
        path = self.folder / "hosts.toml"
        boxes = "".join(f"[host.{name}]\nfrontend = true\n" for name in holders)
        path.write_text(f'hub = "{hub}"\n[host.{hub}]\ndaemon = true\n{boxes}')
        return path

    def start_hub(
        self, name: str, *arguments: str, hosts: Path | None = None, web_socket: bool = False
    ) -> Daemon:
        """Start `sot-hub serve` on a box, on its Unix socket and, if asked, on a free WebSocket port."""
        box = self.box(name)
        argv = [*command("sot-hub"), "serve", "--listen", box.endpoint, *arguments]
        if hosts is not None:
            argv += ["--hosts", str(hosts)]
        if web_socket:
            argv += ["--listen", "ws://127.0.0.1:0/", "--insecure"]
        return self._start(box, argv)

    def start_link(self, name: str, hub: str, *arguments: str) -> Daemon:
        """Start `sot-link run` on a box; `hub` is the endpoint it dials."""
        box = self.box(name)
        argv = [*command("sot-link"), "run", "--hub", hub, "--listen", box.endpoint, *arguments]
        return self._start(box, argv)

    def wait_linked(self, hub: str, expected: Sequence[str]) -> None:
        """Wait until exactly these boxes hold a link to the hub on box `hub`. Raises DaemonFailedError."""
        deadline = time.monotonic() + START_S
        while True:
            linked = sorted(link["host"] for link in self.ask(hub, "hub.status", {})["links"])
            if linked == sorted(expected):
                return
            if time.monotonic() > deadline:
                raise DaemonFailedError(f"linked are {linked}, not {sorted(expected)}, after {START_S:g} s")
            time.sleep(_POLL_S)  # the hub tells nobody when a link comes, so it is asked

    def ask(self, name: str, op: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the daemon on a box one thing over its Unix socket; return the answer's payload."""
        if sys.platform == "win32":
            raise DaemonFailedError("the fleet talks over Unix sockets, which Windows does not serve")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(ASK_S)
            client.connect(str(self.box(name).socket))
            hello = {"client_id": "fleet", "protocol": 3, "host": name, "os_user": os_user()}
            for frame_id, asked, body in ((1, "hello", hello), (2, op, payload)):
                frame = {"v": 1, "id": frame_id, "kind": "req", "op": asked, "payload": body}
                client.sendall(json.dumps(frame).encode() + b"\n")
            with client.makefile("rb") as answers:
                for line in answers:
                    frame = json.loads(line)
                    if frame["id"] == 2 and frame["kind"] == "res":
                        return dict(frame["payload"])
        raise DaemonFailedError(f"{name} closed without an answer to {op}")

    def send(self, sender: str, to: str, text: str, *, box: str, endpoint: str | None = None) -> "Sent":
        """Run `comm-relay send` on a box and return what it said."""
        at = self.box(box)
        argv = [*command("comm-relay"), "send", "--from", sender, "--endpoint", endpoint or at.endpoint]
        began = time.monotonic()
        done = subprocess.run(
            [*argv, f"@{to}", text],
            env=at.env(),
            capture_output=True,
            text=True,
            timeout=START_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        return Sent(done.returncode, done.stdout.strip(), done.stderr.strip(), time.monotonic() - began)

    def run(
        self, name: str, *argv: str, stdin: bytes = b"", env: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run one of our commands on a box to its end, `env` on top of the box's."""
        return subprocess.run(
            [*command(argv[0]), *argv[1:]],
            input=stdin,
            env={**self.box(name).env(), **(env or {})},
            capture_output=True,
            timeout=START_S,
            check=False,
        )

    def _start(self, box: Box, argv: Sequence[str]) -> Daemon:
        daemon = Daemon(argv, log=box.folder / "daemon.log", env=box.env())
        self._started.append(daemon)
        box.daemon = daemon
        return daemon


@dataclass(frozen=True, slots=True)
class Sent:
    """What one `comm-relay send` came to; `took_s` in seconds."""

    code: int
    stdout: str
    stderr: str
    took_s: float

    @property
    def verdict(self) -> str:
        """The one line it said, on whichever stream."""
        return self.stdout or self.stderr
