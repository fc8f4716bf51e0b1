"""Who is on the other end of a Unix socket, asked of the kernel (WIRE section 2)."""

import socket
import struct
import sys


def peer_account(connected: socket.socket) -> tuple[int, int | None]:
    """Return (uid, pid) of the peer; pid is None where the system does not tell it. OSError when it tells
    nothing.

    Asked of a socket that connected to a listener, the answer is the account and process that listens.
    """
    if sys.platform == "linux":
        size = struct.calcsize("3i")
        pid, uid, _gid = struct.unpack(
            "3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        )
        return uid, pid
    if sys.platform == "darwin":
        # struct xucred: version, uid, number of groups, 16 groups; level SOL_LOCAL is 0, LOCAL_PEERCRED 1,
        # LOCAL_PEERPID 2.
        credentials = connected.getsockopt(0, 1, 76)
        (uid,) = struct.unpack_from("I", credentials, 4)
        (pid,) = struct.unpack("i", connected.getsockopt(0, 2, 4))
        return uid, pid
    raise OSError("this system does not tell who is on the other end of a Unix socket")
