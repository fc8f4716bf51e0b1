"""Which daemon a sender asks, and the connection to it (PROTOCOL Delivery, WIRE sections 2, 7, 8).

The endpoint that was named, else the first that serves: this box's link, its hub, then the hub that
hosts.toml gives. Choosing sends nothing, so a socket of this box that nobody listens on is passed over; a
connection once made is the only one, and no second route is tried.
"""

import os
import sys
from _collections_abc import Mapping  # collections.abc under the name that is loaded already

from topology.paths import hub_socket, link_socket
from verbs.client import Channel

VARIABLE = "SOT_RELAY_ENDPOINT"


class NoDaemonError(Exception):
    """No endpoint was named and none was found; str() says where was looked, and how to name one."""


class UnusableEndpointError(Exception):
    """The endpoint that was named is none; str() is the reason."""


class SilentError(Exception):
    """The endpoint is known and could not be reached. `words` are the transport's own."""

    def __init__(self, endpoint: str, words: str) -> None:
        super().__init__(endpoint, words)
        self.endpoint = endpoint
        self.words = words


def reach(named: str | None, env: Mapping[str, str], deadline: float) -> tuple[str, Channel]:
    """Return the endpoint chosen, as it was written, and a connection to it that has not sent anything.

    `named` is `--endpoint`. Raises NoDaemonError, UnusableEndpointError, SilentError.
    """
    if named:
        return named, _dial_known(named, deadline)
    if variable := env.get(VARIABLE):
        try:
            return variable, _dial_known(variable, deadline)
        except UnusableEndpointError as error:
            raise UnusableEndpointError(f"${VARIABLE}: {error}") from None
    own = own_endpoints(env)
    for endpoint in own:
        if channel := _dial_own(endpoint, deadline):
            return endpoint, channel
    derived = _derived(env, own)
    return derived, _dial_known(derived, deadline)


def reach_filer(env: Mapping[str, str], deadline: float) -> tuple[str, Channel]:
    """Return who files for this box's comm folder where a command may not: its own daemon, else the relay
    endpoint (PROTOCOL Delivery, route 1). Raises as `reach` does.
    """
    for endpoint in own_endpoints(env):
        if channel := _dial_own(endpoint, deadline):
            return endpoint, channel
    return reach(None, env, deadline)


def own_endpoints(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return where this box's own daemons serve, the link's first: its hub may be elsewhere."""
    if sys.platform == "win32":
        from topology.endpoints import hub_endpoint, link_endpoint

        return link_endpoint(env), hub_endpoint(env)
    return f"unix:{link_socket(env)}", f"unix:{hub_socket(env)}"


def _dial(endpoint: str, deadline: float) -> Channel:
    if sys.platform != "win32" and endpoint.startswith("unix:"):
        from verbs.unix import UnixChannel

        return UnixChannel(endpoint[len("unix:") :], deadline)
    from topology.endpoints import EndpointError
    from verbs.remote import dial

    try:
        return dial(endpoint, deadline)
    except EndpointError as error:
        raise UnusableEndpointError(f"{error}; nothing was sent") from None


def _dial_known(endpoint: str, deadline: float) -> Channel:
    try:
        return _dial(endpoint, deadline)
    except OSError as error:
        raise SilentError(endpoint, error.strerror or str(error)) from None


def _dial_own(endpoint: str, deadline: float) -> Channel | None:
    """Connect to a daemon of this box; None when nobody listens there."""
    if not _is_our_own(endpoint):
        return None
    try:
        return _dial(endpoint, deadline)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        return None
    except OSError as error:
        if error.errno is None and not isinstance(error, TimeoutError):
            return None  # a path too long for a socket: no daemon could listen on it either
        raise SilentError(endpoint, error.strerror or str(error)) from None


def _is_our_own(endpoint: str) -> bool:
    # The temporary folder is everybody's: a folder there that another account made first is not ours, and a
    # daemon would drop us anyway (WIRE section 2).
    if sys.platform == "win32":
        return True  # a pipe's access list is its maker's, and its name holds the account
    try:
        return os.stat(os.path.dirname(endpoint[len("unix:") :])).st_uid == os.geteuid()  # noqa: PTH116, PTH120
    except OSError:
        return False


def _derived(env: Mapping[str, str], own: tuple[str, ...]) -> str:
    """Return the endpoint that hosts.toml gives this box; what reads it is imported only now."""
    from topology.endpoints import relay_endpoint
    from topology.hosts_file import HostsError, find
    from topology.names import self_host
    from topology.paths import hosts_file

    try:
        endpoint = relay_endpoint(find(None, env), self_host(env), env)
    except HostsError as error:
        raise NoDaemonError(_none_found(own, str(error))) from None
    if endpoint is None:
        raise NoDaemonError(_none_found(own, f"there is no {hosts_file(env)[0]} to name a hub"))
    if endpoint in own:
        raise NoDaemonError(_none_found(own, "hosts.toml says that this box is the hub"))
    return endpoint


def _none_found(own: tuple[str, ...], why: str) -> str:
    return (
        f"no sotd daemon found; nobody listens on {' or '.join(own)}, and {why}: start one, or name one "
        f"with {VARIABLE} or comm-relay's --endpoint (unix:/path, ssh:target, wss://host/, or on Windows "
        f"pipe:name)"
    )
