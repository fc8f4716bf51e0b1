"""`comm-relay` over ssh, over a WebSocket, and over a Windows pipe as far as it is not Windows' own."""

import json
import os
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from tests.verbs.support import BOUND_S, FILED, ROOT, WELCOME, Box, event, failed, filed, filing, res
from topology.endpoints import EndpointError
from verbs import remote
from verbs.frames import comm_file_frame
from wire.limits import MAX_FRAME_BYTES
from wire.transports.ssh import command

if sys.platform == "win32":
    pytest.skip("ssh and the daemons are scripts of POSIX here", allow_module_level=True)

REFUSED = res("comm.file", {"error": "no live session holds @h", "code": "no_live_session"})
MISMATCH = res("hello", {"error": "speaks 4", "code": "protocol_mismatch"})
CONFLICT = res("hello", {"error": "two accounts", "code": "os_user_conflict"})


class TestSsh:
    """A program named ssh, first in PATH, that plays the remote side."""

    WAIT = "sys.stdin.buffer.read()"
    READ = "hello, request = sys.stdin.buffer.readline(), sys.stdin.buffer.readline()"

    def ssh(self, box: Box, *lines: str) -> None:
        folder = box.folder / "bin"
        folder.mkdir()
        script = folder / "ssh"
        tell = [
            "import json, os, sys",
            "from pathlib import Path",
            f"Path({str(box.folder / 'argv')!r}).write_text(json.dumps(sys.argv[1:] + [str(os.getpid())]))",
            "def say(data): sys.stdout.buffer.write(data); sys.stdout.buffer.flush()",
            "def complain(text): sys.stderr.write(text); sys.stderr.flush()",
        ]
        script.write_text("\n".join([f"#!{sys.executable}", *tell, *lines]))
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        box.env["PATH"] = f"{folder}:{box.env['PATH']}"

    def started(self, box: Box) -> tuple[list[str], int]:
        *argv, pid = json.loads((box.folder / "argv").read_text())
        return argv, int(pid)

    def test_the_command_is_the_daemons(self) -> None:
        assert remote.ssh_command("hub.lab") == command("hub.lab")

    def test_an_answer(self, box: Box) -> None:
        self.ssh(box, self.READ, f"say({WELCOME + FILED!r})", self.WAIT)
        assert box.relay("send", "@h", "hi", "--endpoint", "ssh:hub") == filed()
        argv, pid = self.started(box)
        assert ["ssh", *argv] == command("hub")
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)

    def test_what_a_login_prints_first_is_passed_over(self, box: Box) -> None:
        self.ssh(box, "say(b'Welcome to hub\\n')", self.READ, f"say({WELCOME + event('x') + REFUSED!r})")
        assert box.relay("send", "@h", "hi", "--endpoint", "ssh:hub") == failed("no live session holds @h")

    def test_the_answer_decides_whatever_ssh_says(self, box: Box) -> None:
        self.ssh(box, self.READ, "complain('Connection reset')", f"say({WELCOME + FILED!r})", "sys.exit(255)")
        assert box.relay("send", "@h", "hi", "--endpoint", "ssh:hub") == filed()

    def test_a_refused_hello_decides_whatever_ssh_says(self, box: Box) -> None:
        self.ssh(box, self.READ, f"say({MISMATCH!r})", "complain('bye')", "sys.exit(1)")
        assert box.relay("send", "@h", "hi", "--endpoint", "ssh:hub") == failed("hello refused: speaks 4")

    @pytest.mark.parametrize(
        ("says", "words"),
        [
            ("complain('ssh: connect to host hub port 22:\\nNo route to host\\n')", "No route to host"),
            ("complain('x' * 100_000 + 'the end')", "the end"),
            ("pass", "ssh ended with code 255"),
        ],
    )
    def test_without_an_answer_the_reason_is_ssh_s(self, box: Box, says: str, words: str) -> None:
        self.ssh(box, says, "sys.exit(255)")
        done = box.relay("send", "@h", "hi", "--endpoint", "ssh:hub")
        assert done.code == 1
        assert done.err.startswith("FAILED -> @h: the daemon did not answer at ssh:hub: ")
        assert done.err.endswith(words + "\n")
        assert len(done.err) < 600

    def test_a_bridge_that_ends_well_without_an_answer(self, box: Box) -> None:
        self.ssh(box, self.READ, f"say({WELCOME!r})")
        done = box.relay("send", "@h", "hi", "--endpoint", "ssh:hub")
        assert done == failed("the daemon did not answer at ssh:hub")

    def test_one_that_says_nothing_is_ended(self, box: Box) -> None:
        self.ssh(box, "complain('still trying')", self.WAIT)
        done = box.relay("send", "@h", "hi", "--endpoint", "ssh:hub", SOT_INBOX_LOCK_WAIT_SECS="0")
        assert done == failed("the daemon did not answer at ssh:hub: still trying")
        with pytest.raises(ProcessLookupError):
            os.kill(self.started(box)[1], 0)

    def test_a_message_that_fills_every_pipe(self, box: Box) -> None:
        text = b"x" * (MAX_FRAME_BYTES - len(comm_file_frame("me", "h", "")))
        self.ssh(
            box, self.READ, f"say({FILED!r} if len(request) == {MAX_FRAME_BYTES + 1} else b'')", self.WAIT
        )
        assert box.relay("send", "@h", "--file=-", "--endpoint=ssh:hub", stdin=text) == filed()

    def test_the_real_bridge_carries_it(self, box: Box) -> None:
        self.ssh(
            box,
            f"sys.path.insert(0, {str(ROOT)!r})",
            "from wire.transports.stdio_bridge import bridge",
            f"bridge({box.hub_socket!r})",
        )
        with box.daemon(filing):
            assert box.relay("send", "@h", "hi", "--endpoint", "ssh:hub") == filed()

    def test_a_box_without_ssh(self, box: Box) -> None:
        box.env["PATH"] = str(box.folder)
        done = box.relay("send", "@h", "hi", "--endpoint", "ssh:hub")
        assert done == failed("the daemon did not answer at ssh:hub: No such file or directory")

    def test_a_box_behind_the_hub_is_refused(self, box: Box) -> None:
        done = box.relay("send", "@h", "hi", "--endpoint", "ssh:hub/boxb")
        assert done == failed(
            "ssh:hub/boxb names the daemon of boxb behind hub, which nothing serves; "
            "name the hub's own login, ssh:hub, which passes mail on to every box; nothing was sent"
        )

    def test_a_flood_of_events_ends_with_the_window(self, box: Box) -> None:
        self.ssh(box, self.READ, f"while True: say({event('x' * 100_000)!r})")
        with within_the_window():
            done = box.relay("send", "@h", "hi", "--endpoint", "ssh:hub", SOT_INBOX_LOCK_WAIT_SECS="0")
        assert done == failed("the daemon did not answer at ssh:hub")


@contextmanager
def within_the_window() -> Iterator[None]:
    """The block runs one send whose window is 3 s; the rest is the start of a process."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < 3.8


Handler = Callable[[ServerConnection], None]


@contextmanager
def hub(handler: Handler, **options: Any) -> Iterator[str]:
    """A WebSocket hub in a thread; `options` are the library's."""
    server = serve(handler, "127.0.0.1", 0, compression=None, **options)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}/"
    finally:
        server.shutdown()
        thread.join(BOUND_S)


def saying(*frames: bytes) -> Handler:
    def handler(connection: ServerConnection) -> None:
        hello, request = connection.recv(), connection.recv()
        assert (json.loads(hello)["op"], json.loads(request)["op"]) == ("hello", "comm.file")
        for frame in frames:
            connection.send(frame.decode().removesuffix("\n"))

    return handler


@contextmanager
def raw_peer(says: bytes) -> Iterator[str]:
    """What listens on TCP and says one thing."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve_one() -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            connection.recv(65_536)
            connection.sendall(says)
            while connection.recv(65_536):
                pass

    thread = threading.Thread(target=serve_one, daemon=True)
    thread.start()
    with listener:
        yield f"ws://127.0.0.1:{listener.getsockname()[1]}/"
        thread.join(BOUND_S)


class TestWebSocket:
    def test_an_answer_among_others(self, box: Box) -> None:
        with hub(saying(WELCOME, event("x"), b"noise", FILED)) as url:
            assert box.relay("send", "@h", "hi", "--endpoint", url) == filed()

    def test_what_is_offered(self, box: Box) -> None:
        seen: list[Request] = []

        def handler(connection: ServerConnection) -> None:
            assert connection.request is not None
            seen.append(connection.request)
            connection.send(FILED.decode())

        with hub(
            handler, select_subprotocol=lambda _connection, offered: "sot-comm" if offered else None
        ) as url:
            assert (
                box.relay("send", "@h", "hi", "--endpoint", url, http_proxy="http://127.0.0.1:1") == filed()
            )
        assert seen[0].headers["Sec-WebSocket-Protocol"] == "sot-comm"
        assert "Sec-WebSocket-Extensions" not in seen[0].headers

    def test_a_refusal(self, box: Box) -> None:
        with hub(saying(WELCOME, REFUSED)) as url:
            assert box.relay("send", "@h", "hi", "--endpoint", url) == failed("no live session holds @h")

    def test_a_hello_refused_before_the_request_was_read(self, box: Box) -> None:
        def handler(connection: ServerConnection) -> None:
            connection.recv()
            connection.send(CONFLICT.decode())

        with hub(handler) as url:
            assert box.relay("send", "@h", "hi", "--endpoint", url) == failed("hello refused: two accounts")

    def test_a_hub_that_closes_with_a_reason(self, box: Box) -> None:
        def handler(connection: ServerConnection) -> None:
            connection.close(1012, "restarting")

        with hub(handler) as url:
            done = box.relay("send", "@h", "hi", "--endpoint", url)
        assert done == failed(f"the daemon did not answer at {url}: restarting")

    def test_a_hub_that_just_closes(self, box: Box) -> None:
        with hub(saying(WELCOME)) as url:
            done = box.relay("send", "@h", "hi", "--endpoint", url)
        assert done == failed(f"the daemon did not answer at {url}")

    def test_a_binary_message_is_no_frame(self, box: Box) -> None:
        def handler(connection: ServerConnection) -> None:
            connection.send(FILED)
            connection.send(REFUSED.decode())

        with hub(handler) as url:
            assert box.relay("send", "@h", "hi", "--endpoint", url) == failed("no live session holds @h")

    def test_a_hub_that_asks_for_a_token(self, box: Box) -> None:
        def refuse(connection: ServerConnection, _request: Request) -> Response:
            return connection.respond(HTTPStatus.UNAUTHORIZED, "who?\n")

        with hub(saying(), process_request=refuse) as url:
            done = box.relay("send", "@h", "hi", "--endpoint", url)
        assert done == failed(f"the daemon did not answer at {url}: HTTP 401 to the WebSocket upgrade")

    def test_nobody_listens(self, box: Box) -> None:
        with hub(saying()) as url:
            pass
        done = box.relay("send", "@h", "hi", "--endpoint", url)
        assert done == failed(f"the daemon did not answer at {url}: Connection refused")

    def test_a_hub_that_never_reads_nor_answers(self, box: Box) -> None:
        client_has_ended = threading.Event()

        def handler(connection: ServerConnection) -> None:
            connection.recv_flow_control.acquire()  # the library's reader stops here
            client_has_ended.wait(BOUND_S)
            connection.recv_flow_control.release()

        text = b"x" * (MAX_FRAME_BYTES - 1000)
        with hub(handler) as url:
            args = ("send", "@h", "--file=-", "--endpoint", url)
            done = box.relay(*args, stdin=text, SOT_INBOX_LOCK_WAIT_SECS="0")
            client_has_ended.set()
        assert done == failed(f"the daemon did not answer at {url}")

    def test_a_silent_hub_is_told_of_when_the_window_closes(self, box: Box) -> None:
        client_has_ended = threading.Event()

        def handler(connection: ServerConnection) -> None:
            connection.recv_flow_control.acquire()  # a close frame gets no answer either
            client_has_ended.wait(BOUND_S)
            connection.recv_flow_control.release()

        with hub(handler) as url, within_the_window():
            done = box.relay("send", "@h", "hi", "--endpoint", url, SOT_INBOX_LOCK_WAIT_SECS="0")
            client_has_ended.set()
        assert done == failed(f"the daemon did not answer at {url}")

    def test_a_hub_that_answers_no_goodbye_holds_up_nobody(self, box: Box) -> None:
        client_has_ended = threading.Event()

        def handler(connection: ServerConnection) -> None:
            connection.send(FILED.decode())
            connection.recv_flow_control.acquire()
            client_has_ended.wait(BOUND_S)
            connection.recv_flow_control.release()

        with hub(handler) as url:
            deadline = time.monotonic() + BOUND_S
            channel = remote.dial(url, deadline)
            channel.send((b"{}",), deadline)
            assert channel.receive(deadline) == [FILED]
            began = time.monotonic()
            channel.close()
            took = time.monotonic() - began
            client_has_ended.set()
        assert took < 0.3

    @pytest.mark.parametrize("size", [10, 500_000])
    def test_a_flood_of_events_ends_with_the_window(self, box: Box, size: int) -> None:
        def handler(connection: ServerConnection) -> None:
            while True:
                connection.send(event("x" * size).decode())

        with hub(handler) as url, within_the_window():
            done = box.relay("send", "@h", "hi", "--endpoint", url, SOT_INBOX_LOCK_WAIT_SECS="0")
        assert done == failed(f"the daemon did not answer at {url}")

    @pytest.mark.parametrize(
        "head", [b"HTTP/1.1 101 Switching\r\n" + b"X: y\r\n" * 100_000, b"x" * 10_000_000]
    )
    def test_an_endless_header_is_a_sentence(self, box: Box, head: bytes) -> None:
        with raw_peer(head) as url, within_the_window():
            done = box.relay("send", "@h", "hi", "--endpoint", url, SOT_INBOX_LOCK_WAIT_SECS="0")
        assert (done.code, done.out) == (1, "")
        (line,) = done.err.splitlines()
        assert line.startswith(f"FAILED -> @h: the daemon did not answer at {url}")

    def test_a_message_that_fills_the_frame(self, box: Box) -> None:
        def handler(connection: ServerConnection) -> None:
            connection.recv()
            if len(connection.recv()) == MAX_FRAME_BYTES:
                connection.send(FILED.decode())

        text = b"x" * (MAX_FRAME_BYTES - len(comm_file_frame("me", "h", "")))
        with hub(handler, max_size=MAX_FRAME_BYTES) as url:
            assert box.relay("send", "@h", "--file=-", "--endpoint", url, stdin=text) == filed()

    def test_the_goodbye_is_a_close_frame(self, box: Box) -> None:
        closed: list[int | None] = []

        def handler(connection: ServerConnection) -> None:
            connection.send(FILED.decode())
            try:
                while True:
                    connection.recv()
            except ConnectionClosed:
                closed.append(connection.close_code)

        with hub(handler) as url:
            assert box.relay("send", "@h", "hi", "--endpoint", url) == filed()
        assert closed == [1000]

    def test_plain_text_where_tls_is_asked_for(self, box: Box) -> None:
        with hub(saying(FILED)) as url:
            secure = url.replace("ws:", "wss:")
            done = box.relay("send", "@h", "hi", "--endpoint", secure)
        assert done.code == 1
        assert done.err.startswith(f"FAILED -> @h: the daemon did not answer at {secure}: ")

    @pytest.mark.parametrize(
        ("host", "why"),
        [("nowhere.invalid", "the daemon did not answer at ws:"), ("a..b", "not an endpoint: 'ws:")],
    )
    def test_a_name_that_is_none(self, box: Box, host: str, why: str) -> None:
        done = box.relay("send", "@h", "hi", "--endpoint", f"ws://{host}:1/")
        assert done.code == 1
        assert done.err.startswith(f"FAILED -> @h: {why}//{host}:1/")


class TestPipe:
    def test_elsewhere_than_on_windows_it_is_a_sentence(self, box: Box) -> None:
        done = box.relay("send", "@h", "hi", "--endpoint", "pipe:sot-hub-lab")
        assert done == failed(
            "the daemon did not answer at pipe:sot-hub-lab: a Windows named pipe, and this is not Windows; "
            "name unix:/path"
        )

    def test_a_busy_pipe_is_asked_again_until_the_deadline(self, monkeypatch: pytest.MonkeyPatch) -> None:
        tried: list[str] = []
        clock = iter([1.0, 2.0, 3.0])

        class BusyError(OSError):
            winerror = 231

        def busy(path: str, flags: int) -> int:
            tried.append(path)
            raise BusyError

        self.on_windows(monkeypatch, busy)
        monkeypatch.setattr(time, "monotonic", lambda: next(clock))
        monkeypatch.setattr(time, "sleep", lambda _pause: None)
        with pytest.raises(TimeoutError, match="the pipe stayed busy"):
            remote.dial(r"pipe:\\.\pipe\sot-hub", deadline=3.0)
        assert tried == [r"\\.\pipe\sot-hub"] * 3

    def test_a_pipe_that_is_not_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class MissingError(FileNotFoundError):
            winerror = 2

        def missing(path: str, flags: int) -> int:
            raise MissingError

        self.on_windows(monkeypatch, missing)
        with pytest.raises(FileNotFoundError):
            remote.dial("pipe:sot-hub", deadline=3.0)

    def test_what_it_writes_and_reads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ours, theirs = socket.socketpair()  # as a pipe is: one descriptor, both ways
        with ours, theirs:
            self.on_windows(monkeypatch, lambda path, flags: ours.fileno())
            deadline = time.monotonic() + BOUND_S
            channel = remote.dial("pipe:sot-hub", deadline)
            assert not channel.sent
            channel.send((b"one", b"two"), deadline)
            assert channel.sent
            assert theirs.recv(100) == b"one\ntwo\n"
            theirs.sendall(WELCOME + FILED[:9])
            assert channel.receive(deadline) == [WELCOME[:-1]]
            theirs.sendall(FILED[9:-1])
            theirs.shutdown(socket.SHUT_WR)
            told = [channel.receive(deadline), channel.receive(deadline), channel.receive(deadline)]
            assert told == [[], [FILED[:-1]], None]

    def on_windows(self, monkeypatch: pytest.MonkeyPatch, opener: Callable[[str, int], int]) -> None:
        monkeypatch.setattr(sys, "platform", "win32")
        monkeypatch.setattr(os, "O_BINARY", 0, raising=False)
        monkeypatch.setattr(os, "O_NOINHERIT", 0, raising=False)
        monkeypatch.setattr(os, "open", opener)


def test_a_unix_endpoint_is_reached_from_here_too(box: Box) -> None:
    with box.daemon() as daemon:
        remote.dial(daemon.endpoint, time.monotonic() + BOUND_S).close()


def test_what_is_no_endpoint() -> None:
    with pytest.raises(EndpointError):
        remote.dial("tcp:hub", 0)


def test_the_end_of_the_window_ends_the_wait() -> None:
    channel = remote._ThreadedChannel()
    assert channel.receive(time.monotonic() - 1) is None


def test_past_the_deadline_one_look_is_left() -> None:
    channel = remote._ThreadedChannel()
    for _ in range(3):
        assert channel._tell([b"x"])
    assert channel.receive(time.monotonic() - 1) == [b"x"]
    assert channel.receive(time.monotonic() + 1) is None


def test_a_flood_is_held_back_and_its_reader_ends_with_the_channel() -> None:
    channel = remote._ThreadedChannel()
    reading, writing = os.pipe()
    flood = threading.Thread(target=lambda: fill(writing), daemon=True)
    flood.start()
    reader = threading.Thread(target=channel._tell_lines, args=(reading,), daemon=True)
    reader.start()
    while channel._told.qsize() < remote._MOST_TOLD:
        time.sleep(0.01)
    channel.close()
    reader.join(BOUND_S)
    assert not reader.is_alive()
    os.close(reading)
    flood.join(BOUND_S)
    assert not flood.is_alive()
    os.close(writing)
    assert channel._told.qsize() <= 1


def fill(descriptor: int) -> None:
    with suppress(BrokenPipeError):
        while True:
            os.write(descriptor, event("x" * 60_000))
