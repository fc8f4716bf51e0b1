"""`sot-hub stdio-bridge`: what `ssh target` runs on the hub (WIRE section 2).

Bytes are copied between this process's stdin and stdout and the hub's Unix socket, as they are; a half that
ends is carried over. Only the standard library, so that an ssh login pays for nothing else.
"""

import contextlib
import os
import select
import socket
import sys
import threading
import time

from wire.standard_streams import complain

_CHUNK = 65_536
_CONNECT_S = 5.0
_RETRY_S = 0.02


def bridge(path: str, *, stdin: int = 0, stdout: int = 1) -> int:
    """Copy until both halves have ended, or the hub is gone; return the exit code: 0, or 1 when no hub
    listens on `path`. Closes `stdout` when the hub's half ends.
    """
    if sys.platform == "win32":
        complain("sot-hub stdio-bridge: the hub's Unix socket cannot be reached on Windows")
        return 1
    hub = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _connect(hub, path)
    except OSError as error:
        complain(f"sot-hub stdio-bridge: no hub listens on {path}: {error.strerror or error}")
        return 1
    # A daemon thread: if the hub is gone, nothing waits for a stdin that may never end.
    threading.Thread(target=_stdin_to_hub, args=(stdin, hub), name="stdin-to-hub", daemon=True).start()
    try:
        while data := hub.recv(_CHUNK):
            _write_all(stdout, data)
        os.close(stdout)
        # The hub said its last word. It may still listen: until it hangs up, or stdin has ended too.
        both_ended = select.poll()
        both_ended.register(hub, 0)
        both_ended.poll()
    except OSError:
        pass  # one side is gone: there is nobody left to tell
    return 0


def _connect(hub: socket.socket, path: str) -> None:
    deadline = time.monotonic() + _CONNECT_S
    hub.settimeout(_CONNECT_S)
    while True:
        try:
            hub.connect(path)
            break
        except BlockingIOError:
            # The hub's backlog is full: it is there, and will accept.
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_S)
    hub.settimeout(None)


def _stdin_to_hub(stdin: int, hub: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := os.read(stdin, _CHUNK):
            hub.sendall(data)
        hub.shutdown(socket.SHUT_WR)


def _write_all(stdout: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(stdout, left) :]
