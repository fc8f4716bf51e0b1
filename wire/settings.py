"""Settings that every daemon takes, from its command line and from the environment."""

from collections.abc import Mapping

from wire.env import count
from wire.limits import MAX_CONNECTIONS
from wire.server import ServerLimits


def server_limits(env: Mapping[str, str]) -> ServerLimits:
    """Return the server's bounds, as the environment moves them."""
    return ServerLimits(connections=count(env, "SOT_MAX_CONNECTIONS", MAX_CONNECTIONS))
