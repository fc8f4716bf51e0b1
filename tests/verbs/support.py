"""A box to send from, a scripted daemon to send to, and the command as a real process."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
VECTORS: dict[str, Any] = json.loads((ROOT / "tests" / "vectors" / "wire.json").read_text("utf-8"))
BOUND_S = 20.0  # of every wait; none is expected to take long

AF_UNIX: Any = getattr(socket, "AF_UNIX", None)  # Windows: what needs it is skipped there
COMMAND = [sys.executable, "-W", "error", "-m", "verbs.comm_relay"]


def res(op: str, payload: Mapping[str, Any], frame_id: int | None = None) -> bytes:
    """One answer as a line, with the id that the client gives that op."""
    number = (1 if op == "hello" else 2) if frame_id is None else frame_id
    frame = {"v": 1, "id": number, "kind": "res", "op": op, "payload": payload}
    return json.dumps(frame, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def event(text: str) -> bytes:
    payload = {"from": "me", "to": "", "text": text, "ts": "2026-01-01T00:00:00Z"}
    return (
        json.dumps({"v": 1, "id": 0, "kind": "evt", "op": "agent.message", "payload": payload}).encode()
        + b"\n"
    )


WELCOME = res("hello", {"session_id": "s", "revision": 0, "host": "hub", "protocol": 3})
FILED = res("comm.file", {"ok": True})


class Peer:
    """The daemon's side of one connection."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(BOUND_S)
        self.connection = connection
        self._lines = connection.makefile("rb")

    def request(self) -> dict[str, Any]:
        frame: dict[str, Any] = json.loads(self._lines.readline())
        return frame

    def requests(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return self.request(), self.request()

    def say(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.connection.sendall(piece)

    def wait_until_left(self) -> None:
        while self._lines.read(65_536):
            pass


Script = Callable[[Peer], None]


class Daemon:
    """Serves each connection by the script; `requests` are what was asked, after the hello."""

    def __init__(self, path: str, script: Script) -> None:
        self.endpoint = f"unix:{path}"
        self.hellos: list[dict[str, Any]] = []
        self.requests: list[dict[str, Any]] = []
        self.asked = threading.Event()
        self._script = script
        self._listener = socket.socket(AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(BOUND_S)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                try:
                    self._script(_Recording(connection, self))
                except (OSError, ValueError):
                    pass  # the client left


class _Recording(Peer):
    def __init__(self, connection: socket.socket, daemon: Daemon) -> None:
        super().__init__(connection)
        self._daemon = daemon

    def request(self) -> dict[str, Any]:
        frame = super().request()
        if frame["op"] == "hello":
            self._daemon.hellos.append(frame)
        else:
            self._daemon.requests.append(frame)
            self._daemon.asked.set()
        return frame


def answering(*pieces: bytes, stay: bool = True) -> Script:
    """A daemon that reads both requests, writes the pieces, and then waits for the client or leaves first."""

    def script(peer: Peer) -> None:
        peer.requests()
        peer.say(*pieces)
        if stay:
            peer.wait_until_left()

    return script


filing = answering(WELCOME, FILED)


class Box:
    """A folder that is one box: its runtime folder, config folder and comm folder, and its environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runtime = folder / "run"
        (self.runtime / "sot").mkdir(parents=True)
        self.hub_socket = str(self.runtime / "sot" / "hub.sock")
        self.link_socket = str(self.runtime / "sot" / "link.sock")
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "XDG_RUNTIME_DIR": str(self.runtime),
            "SOT_SELF_HOST": "boxa",
            "SOT_COMM_NAME": "me",
            "PYTHONUTF8": "1",
        }

    @contextmanager
    def daemon(self, script: Script = filing, path: str | None = None) -> Iterator[Daemon]:
        daemon = Daemon(path or self.hub_socket, script)
        try:
            yield daemon
        finally:
            daemon.close()

    def stale(self, path: str) -> None:
        """Leave a socket that nobody listens on."""
        listener = socket.socket(AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.close()

    def relay(self, *args: str, stdin: bytes = b"", **env: str) -> "Result":
        done = subprocess.run(
            [*COMMAND, *args],
            cwd=ROOT,
            env={**self.env, **env},
            input=stdin,
            capture_output=True,
            timeout=BOUND_S,
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *args: str, **env: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [*COMMAND, *args],
            cwd=ROOT,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )


class Result:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def __repr__(self) -> str:
        return f"exit {self.code}\nstdout: {self.out!r}\nstderr: {self.err!r}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Result) and repr(self) == repr(other)

    __hash__ = None  # type: ignore[assignment]  # compared, never a key


def filed(to: str = "h") -> Result:
    return Result(0, f"filed -> @{to}\n", "")


def failed(reason: str, to: str = "@h") -> Result:
    return Result(1, "", f"FAILED -> {to}: {reason}\n")
