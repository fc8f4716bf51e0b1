"""`unix:/path`: listening safely, and dialling (WIRE section 2).

A socket is 0600 in a folder that only its owner may write to; a peer of another account is dropped before a
byte is read; a socket that a live daemon answers on is never unlinked, a stale one is.
"""

import asyncio
import contextlib
import errno
import os
import socket
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wire.connection import Connection, FrameSink
from wire.limits import BACKLOG
from wire.transports.line import LineConnection
from wire.transports.peercred import peer_account

SinkFactory = Callable[[Connection], FrameSink]

_MAX_PATH_BYTES = 103  # sockaddr_un holds 104 on macOS, 108 on Linux, the final NUL included
_PROBE_S = 1.0
_RETRY_S = 0.02


class SocketHeldError(OSError):
    """Another live daemon listens on this socket; str() says which process."""


class UnsafeSocketError(OSError):
    """The socket's folder, or what stands at its path, is not one to listen on; str() says what to do."""


@dataclass(slots=True)
class UnixListener:
    """A bound socket and the lock that says whose it is. `close` unlinks the socket if it is still ours."""

    path: str
    server: asyncio.Server
    _lock_fd: int
    _inode: tuple[int, int]

    def close(self) -> None:
        """Stop accepting. Connections that exist go on."""
        self.server.close()
        try:
            found = os.lstat(self.path)
            if (found.st_dev, found.st_ino) == self._inode:
                _unlink(self.path)
        except OSError:
            pass  # already gone, which is what was wanted
        os.close(self._lock_fd)


async def listen(path: str, sink_of: SinkFactory) -> UnixListener:
    """Bind `path` and accept. Raises SocketHeldError, UnsafeSocketError, or the OSError of the bind."""
    if sys.platform == "win32":
        raise UnsafeSocketError("unix: sockets are not served on Windows; use pipe:")
    _check_length(path)
    _make_folder(str(Path(path).parent))
    lock_fd = _take_lock(path)
    try:
        _remove_stale(path)
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # The umask at the bind, not a chmod after it: there is no moment at which others could connect.
            umask = os.umask(0o177)
            try:
                bound.bind(path)
            finally:
                os.umask(umask)
            found = os.lstat(path)
            try:
                server = await asyncio.get_running_loop().create_unix_server(
                    lambda: LineConnection("unix", sink_of, admit=_same_account), sock=bound, backlog=BACKLOG
                )
            except BaseException:
                _unlink(path)
                raise
        except BaseException:
            bound.close()
            raise
    except BaseException:
        os.close(lock_fd)
        raise
    return UnixListener(path, server, lock_fd, (found.st_dev, found.st_ino))


async def dial(path: str, sink_of: SinkFactory, *, timeout_s: float) -> Connection:
    """Connect to a daemon's socket. Raises OSError, TimeoutError past `timeout_s`.

    A daemon of another account would drop this process, and must not be handed anything: PermissionError.
    """
    if sys.platform == "win32":
        raise OSError("unix: sockets cannot be dialled on Windows; use pipe:")
    _check_length(path)
    loop = asyncio.get_running_loop()
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connected.setblocking(False)
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                try:
                    connected.connect(path)
                    break
                except BlockingIOError:
                    # A full backlog answers EAGAIN, and nothing tells when there is room again.
                    await asyncio.sleep(_RETRY_S)
        _refuse_other_account(connected, path)
        connection: LineConnection
        _, connection = await loop.create_unix_connection(
            lambda: LineConnection("unix", sink_of, admit=_same_account), sock=connected
        )
    except BaseException:
        connected.close()
        raise
    return connection


def _refuse_other_account(connected: socket.socket, path: str) -> None:
    if sys.platform == "win32":
        return
    uid, _pid = peer_account(connected)
    if uid != os.geteuid():
        raise PermissionError(errno.EACCES, f"uid {uid} listens there, not this account", path)


def holder(path: str) -> str | None:
    """Return who listens on `path`, in words, or None when nobody does. Connects, and hangs up at once."""
    if sys.platform == "win32":
        return None
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        probe.settimeout(_PROBE_S)
        probe.connect(path)
        uid, pid = peer_account(probe)
        return f"pid {pid} (uid {uid})" if pid is not None else f"a process of uid {uid}"
    except (FileNotFoundError, ConnectionRefusedError):
        return None
    except BlockingIOError:
        return "a process whose backlog is full"
    except OSError as error:
        if error.errno == errno.ENOTSOCK:
            return None
        if error.errno == errno.EPROTOTYPE:
            return "a process with a socket of another kind"
        return f"a process that could not be asked ({error.strerror or error})"
    finally:
        probe.close()


def _same_account(transport: asyncio.BaseTransport) -> str | None:
    connected: Any = transport.get_extra_info("socket")
    if sys.platform == "win32":
        return None
    try:
        uid, pid = peer_account(connected)
    except OSError:
        return None
    if uid != os.geteuid():
        return None
    return f"pid {pid}" if pid else f"uid {uid}"


def _check_length(path: str) -> None:
    if len(os.fsencode(path)) > _MAX_PATH_BYTES:
        raise OSError(errno.ENAMETOOLONG, f"a Unix socket's path holds at most {_MAX_PATH_BYTES} bytes", path)


def _make_folder(folder: str) -> None:
    try:
        # One by one, since mkdir(parents=True) leaves the parents' mode to the umask.
        missing = [parent for parent in (Path(folder), *Path(folder).parents) if not parent.exists()]
        for parent in reversed(missing):
            parent.mkdir(mode=0o700, exist_ok=True)
        found = Path(folder).stat()
    except OSError as error:
        raise UnsafeSocketError(f"the socket's folder {folder} cannot be made: {error.strerror}") from error
    if sys.platform == "win32":
        return
    if not stat.S_ISDIR(found.st_mode):
        raise UnsafeSocketError(f"{folder} is not a folder; choose another path for the socket")
    if found.st_uid not in {os.geteuid(), 0}:
        raise UnsafeSocketError(
            f"the socket's folder {folder} belongs to uid {found.st_uid}; use a folder of your own"
        )
    if stat.S_IMODE(found.st_mode) & 0o022:
        raise UnsafeSocketError(
            f"others may write to the socket's folder {folder} (mode {stat.S_IMODE(found.st_mode):04o}); "
            f"choose another folder, or close this one with: chmod go-w {folder}"
        )


def _take_lock(path: str) -> int:
    # The lock settles which of two daemons that start at once may clear a stale socket and bind.
    if sys.platform == "win32":
        raise UnsafeSocketError("unix: sockets are not served on Windows; use pipe:")
    import fcntl

    lock_fd = os.open(path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(lock_fd, 32, 0).decode(errors="replace").strip()
        os.close(lock_fd)
        raise SocketHeldError(
            f"the socket {path} is held by {holder(path) or f'pid {owner}'}; "
            f"stop that daemon, or listen elsewhere with --listen"
        ) from None
    except OSError:
        os.close(lock_fd)
        raise
    os.ftruncate(lock_fd, 0)
    os.pwrite(lock_fd, f"{os.getpid()}\n".encode(), 0)
    return lock_fd


def _remove_stale(path: str) -> None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise UnsafeSocketError(f"{path} is not a socket; move it aside, or listen elsewhere with --listen")
    held_by = holder(path)
    if held_by is not None:
        raise SocketHeldError(
            f"the socket {path} is held by {held_by}; stop that daemon, or listen elsewhere with --listen"
        )
    _unlink(path)


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        Path(path).unlink()
