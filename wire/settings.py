"""Settings that every daemon takes from the environment, and from what the system lets it have."""

from collections.abc import Mapping

from wire.env import count
from wire.limits import MAX_CONNECTIONS
from wire.server import ServerLimits

_FILES = 64  # descriptors kept for the comm folder, the listeners and the loop


def server_limits(env: Mapping[str, str], open_files: int) -> ServerLimits:
    """Return the server's bounds: as the environment moves them, within what `open_files` descriptors allow.

    A connection past them is refused with its sentence; one past the system's own limit would stop all mail.
    """
    sockets = max(8, open_files - _FILES)
    connections = min(count(env, "SOT_MAX_CONNECTIONS", MAX_CONNECTIONS), max(4, sockets * 3 // 4))
    return ServerLimits(connections=connections, sockets=min(sockets, 2 * connections))
