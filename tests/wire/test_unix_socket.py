"""Where a daemon listens on a Unix socket, and who is let near it: WIRE section 2."""

import asyncio
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from tests.wire.support import PATIENT_S, Caller, hello_line, line, serving
from wire.closing import CloseReason
from wire.connection import Connection, FrameSink
from wire.frames import BadFrame, Frame
from wire.transports import unix

if sys.platform == "win32":
    pytest.skip("Unix sockets", allow_module_level=True)

ROOT = Path(__file__).parents[2]

# Another daemon: listens on its argument, says so or why not, and stays until its input ends.
DAEMON = """
import asyncio, sys
from wire.transports import unix

async def main():
    sys.stdin.readline()
    try:
        listener = await unix.listen(sys.argv[1], None)
    except OSError as error:
        print(type(error).__name__, error, flush=True)
        return
    print("listening", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    listener.close()

asyncio.run(main())
"""


class Nobody:
    """A sink for connections that no test looks at."""

    def __init__(self, _connection: Connection) -> None:
        pass

    def frame_received(self, frame: Frame | BadFrame) -> None: ...

    def input_ended(self) -> None: ...

    def connection_ended(self, reason: CloseReason, detail: str) -> None: ...


def nobody(connection: Connection) -> FrameSink:
    return Nobody(connection)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


class Daemon:
    """A child process that listens on `path` once it is told to start."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", DAEMON, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def pipes(self) -> tuple[IO[str], IO[str]]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        return self.process.stdin, self.process.stdout

    def start(self) -> None:
        self.pipes()[0].write("start\n")
        self.pipes()[0].flush()

    def said(self) -> str:
        return self.pipes()[1].readline().strip()

    def stop(self) -> None:
        self.process.communicate(timeout=PATIENT_S)

    def kill(self) -> None:
        self.process.kill()
        self.stop()


# The folder and the file


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
async def test_the_socket_is_0600_and_a_missing_folder_is_made_0700_whatever_the_umask(
    folder: Path, umask: int
) -> None:
    path = folder / "a" / "b" / "hub.sock"
    before = os.umask(umask)
    try:
        listener = await unix.listen(str(path), nobody)
        assert os.umask(umask) == umask  # and the process's own umask is as it was
    finally:
        os.umask(before)
    assert (mode(path), mode(path.parent), mode(path.parent.parent)) == (0o600, 0o700, 0o700)
    listener.close()


@pytest.mark.parametrize("others", [0o770, 0o702, 0o720, 0o777, 0o1777])
async def test_a_folder_that_others_may_write_to_is_refused_and_left_as_it_is(
    folder: Path, others: int
) -> None:
    unsafe = folder / "unsafe"
    unsafe.mkdir()
    unsafe.chmod(others)
    with pytest.raises(unix.UnsafeSocketError, match="chmod go-w"):
        await unix.listen(str(unsafe / "hub.sock"), nobody)
    assert mode(unsafe) == others
    assert list(unsafe.iterdir()) == []


@pytest.mark.parametrize("readable", [0o700, 0o755, 0o750])
async def test_a_folder_that_others_may_only_read_is_fine(folder: Path, readable: int) -> None:
    safe = folder / "safe"
    safe.mkdir()
    safe.chmod(readable)
    (await unix.listen(str(safe / "hub.sock"), nobody)).close()
    assert mode(safe) == readable


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
async def test_a_folder_of_another_account_is_refused(folder: Path) -> None:
    other = folder / "other"
    other.mkdir(0o700)
    os.chown(other, 65534, 65534)
    with pytest.raises(unix.UnsafeSocketError, match="belongs to uid 65534"):
        await unix.listen(str(other / "hub.sock"), nobody)


async def test_a_folder_that_is_a_file_is_refused(folder: Path) -> None:
    (folder / "file").write_text("")
    for path in (folder / "file" / "hub.sock", folder / "file" / "deeper" / "hub.sock"):
        with pytest.raises(unix.UnsafeSocketError):
            await unix.listen(str(path), nobody)


async def test_what_is_no_socket_is_refused_and_left_alone(folder: Path) -> None:
    kept = folder / "kept"
    kept.write_text("precious")
    link, dangling, subfolder = folder / "link", folder / "dangling", folder / "subfolder"
    link.symlink_to(kept)
    dangling.symlink_to(folder / "nothing")
    subfolder.mkdir()
    for path in (kept, link, dangling, subfolder):
        with pytest.raises(unix.UnsafeSocketError, match="is not a socket"):
            await unix.listen(str(path), nobody)
    assert kept.read_text() == "precious"
    assert link.is_symlink()
    assert dangling.is_symlink()


async def test_a_symlink_to_a_socket_is_refused_even_where_that_is_stale(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(folder / "stale"))
    (folder / "link").symlink_to(folder / "stale")
    with pytest.raises(unix.UnsafeSocketError):
        await unix.listen(str(folder / "link"), nobody)
    assert (folder / "stale").is_socket()


async def test_a_path_too_long_is_refused_in_words_before_anything_is_made(folder: Path) -> None:
    path = folder / "new" / ("x" * 100)
    for attempt in (unix.listen(str(path), nobody), unix.dial(str(path), nobody, timeout_s=1)):
        with pytest.raises(OSError, match="at most 103 bytes"):
            await attempt
    assert list(folder.iterdir()) == []


async def test_a_path_of_the_longest_length_works(folder: Path) -> None:
    deep = folder / ("x" * (103 - len(f"{folder}//hub.sock")))
    async with serving(deep) as served:
        assert len(str(served.path)) == 103
        session = await Caller().dial(f"unix:{served.path}")
        assert (await session.greeting())["host"] == "hub"
        session.close(CloseReason.PEER_LEFT)
        await served.service.wait_ended()


# Stale and live sockets


async def test_the_socket_of_a_killed_daemon_is_replaced(folder: Path) -> None:
    path = folder / "hub.sock"
    daemon = Daemon(path)
    daemon.start()
    assert daemon.said() == "listening"
    daemon.kill()
    assert path.is_socket()
    (await unix.listen(str(path), nobody)).close()


async def test_the_socket_of_a_live_daemon_is_refused_by_its_pid_and_stays(folder: Path) -> None:
    path = folder / "hub.sock"
    daemon = Daemon(path)
    daemon.start()
    assert daemon.said() == "listening"
    inode = path.stat().st_ino
    with pytest.raises(unix.SocketHeldError, match=f"held by pid {daemon.process.pid} "):
        await unix.listen(str(path), nobody)
    assert path.stat().st_ino == inode
    daemon.stop()
    assert not path.exists()


async def test_a_live_socket_of_a_program_that_takes_no_lock_is_refused_by_its_pid(folder: Path) -> None:
    path = folder / "hub.sock"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(unix.SocketHeldError, match=f"held by pid {os.getpid()} "):
            await unix.listen(str(path), nobody)
        assert path.is_socket()


async def test_a_live_socket_whose_backlog_is_full_is_no_stale_one(folder: Path) -> None:
    path = folder / "hub.sock"
    with socket.socket(socket.AF_UNIX) as other, socket.socket(socket.AF_UNIX) as filling:
        other.bind(str(path))
        other.listen(0)
        filling.connect(str(path))
        with pytest.raises(unix.SocketHeldError, match="backlog is full"):
            await unix.listen(str(path), nobody)
        assert path.is_socket()


async def test_a_socket_of_another_kind_is_no_stale_one(folder: Path) -> None:
    path = folder / "hub.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(str(path))
        with pytest.raises(unix.SocketHeldError):
            await unix.listen(str(path), nobody)
        assert path.is_socket()


def test_of_many_daemons_that_start_at_once_exactly_one_listens(folder: Path) -> None:
    path = folder / "hub.sock"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    daemons = [Daemon(path) for _ in range(6)]
    for daemon in daemons:
        daemon.start()
    said = [daemon.said() for daemon in daemons]
    assert said.count("listening") == 1
    winner = daemons[said.index("listening")]
    refused = [words for words in said if words != "listening"]
    assert all(words.startswith("SocketHeldError") for words in refused)
    assert all("is held by pid " in words for words in refused)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    assert winner.process.poll() is None
    for daemon in daemons:
        daemon.stop()
    assert not path.exists()


async def test_a_close_unlinks_its_own_socket_and_no_other(folder: Path) -> None:
    path = folder / "hub.sock"
    listener = await unix.listen(str(path), nobody)
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        listener.close()
        assert path.is_socket()
    path.unlink()
    listener = await unix.listen(str(path), nobody)
    path.unlink()
    listener.close()  # what is gone already is no error
    (await unix.listen(str(path), nobody)).close()
    assert not path.exists()


async def test_a_closed_listener_leaves_its_connections_alone(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.greeted_line()
        served.server._stop_listening()
        assert not served.path.exists()
        await client.send(line("ping"))
        assert await client.answer() == {"ok": True}


# Other accounts

# Knocks as another account: prints what it was sent before the end.
STRANGER = """
import os, socket, sys
os.setuid(65534)
knocking = socket.socket(socket.AF_UNIX)
knocking.connect(sys.argv[1])
try:
    knocking.sendall(sys.argv[2].encode())
    print(knocking.recv(1000))
except (ConnectionResetError, BrokenPipeError):
    print(b"")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")
async def test_a_peer_of_another_account_is_dropped_before_a_byte_is_read(folder: Path) -> None:
    async with serving(folder) as served:
        folder.chmod(0o755)  # as it never is: nothing but the kernel's word on the peer stands here
        served.path.chmod(0o666)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", STRANGER, served.path, hello_line(), stdout=subprocess.PIPE
        )
        output, _ = await process.communicate()
        assert (output, process.returncode) == (b"b''\n", 0)
        await served.greeted_line()
        assert len(served.service.sessions) == 1
        assert served.service.ends == []


async def test_a_daemon_of_another_account_is_not_spoken_to(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = Caller()
    async with serving(folder) as served:
        monkeypatch.setattr(os, "geteuid", lambda: 4711)
        with pytest.raises(PermissionError, match="not this account"):
            await caller.dial(f"unix:{served.path}")
    assert caller.sessions == []


# Dialling


async def test_nobody_listening_is_an_error_at_once(folder: Path) -> None:
    path = folder / "hub.sock"
    with pytest.raises(FileNotFoundError):
        await unix.dial(str(path), nobody, timeout_s=PATIENT_S)
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    with pytest.raises(ConnectionRefusedError):
        await unix.dial(str(path), nobody, timeout_s=PATIENT_S)


async def test_a_full_backlog_is_waited_for_and_not_taken_for_connected(folder: Path) -> None:
    path = folder / "hub.sock"
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as filling:
        busy.bind(str(path))
        busy.listen(0)
        filling.connect(str(path))
        with pytest.raises(TimeoutError):
            await unix.dial(str(path), nobody, timeout_s=0.05)
        dialling = asyncio.ensure_future(unix.dial(str(path), nobody, timeout_s=PATIENT_S))
        await asyncio.sleep(0)
        busy.accept()[0].close()
        connection = await dialling
        accepted, _ = busy.accept()
        with accepted:
            connection.abort(CloseReason.PEER_LEFT)
            assert await asyncio.to_thread(accepted.recv, 1) == b""


async def test_two_hundred_clients_at_once_are_all_served(folder: Path) -> None:
    async with serving(folder) as served:
        clients = await asyncio.gather(*(served.line_client() for _ in range(200)))
        for client in clients:
            await client.send(hello_line(), line("ping"))
        for client in clients:
            await client.receive()
            assert await client.answer() == {"ok": True}
