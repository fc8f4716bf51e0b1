"""Endpoints: where a daemon listens or is dialed, as text and as data (WIRE section 2)."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from topology.model import Topology
from topology.names import is_host_name
from topology.paths import hub_socket, link_socket

FORMS = "unix:/path, ws://host:port/, wss://host[:port]/, ssh:host, pipe:name"
WS_PORT = 80
WSS_PORT = 443

_PIPE_PREFIX = "\\\\.\\pipe\\"
_DNS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")
_MAX_LABEL = 63  # of DNS (RFC 1035, 2.3.4), as is the next
_MAX_NAME = 253
_SHOWN = 200  # characters of a refused text that are worth repeating


class EndpointError(ValueError):
    """A text that is no endpoint; str() is a sentence with the text (no secrets) and the accepted forms."""


@dataclass(frozen=True, slots=True)
class UnixEndpoint:
    """`unix:/path`. The path is not judged further: whoever dials or listens learns what is there.

    `unix:` alone is an endpoint by its form, with a `path` of "", and names no socket: who is told to listen
    on it or to dial it refuses it by name. Linux would bind some abstract socket that nobody finds.
    """

    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"


@dataclass(frozen=True, slots=True)
class WebSocketEndpoint:
    """`ws://host:port/` or, when `secure`, `wss://host[:port]/`. An IPv6 `host` has no brackets here."""

    host: str
    port: int
    secure: bool = False
    path: str = "/"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        if self.secure:
            return (
                f"wss://{host}{self.path}"
                if self.port == WSS_PORT
                else f"wss://{host}:{self.port}{self.path}"
            )
        return f"ws://{host}:{self.port}{self.path}"


@dataclass(frozen=True, slots=True)
class SshEndpoint:
    """`ssh:target`, or `ssh:target/box` for the daemon of `box` behind it. Both are plain host names."""

    target: str
    box: str | None = None

    def __str__(self) -> str:
        return f"ssh:{self.target}" if self.box is None else f"ssh:{self.target}/{self.box}"


@dataclass(frozen=True, slots=True)
class PipeEndpoint:
    r"""`pipe:name`, the Windows pipe `\\.\pipe\name` of this box."""

    name: str

    def __str__(self) -> str:
        return f"pipe:{self.name}"


Endpoint = UnixEndpoint | WebSocketEndpoint | SshEndpoint | PipeEndpoint


def parse_endpoint(text: str) -> Endpoint:
    """Read an endpoint; schemes are lower case. Raises EndpointError (WIRE section 2).

    str() of the answer is the canonical text: a WebSocket's has its host in lower case, and a path.
    """
    if text.startswith("unix:"):
        return UnixEndpoint(_printable(text, text.removeprefix("unix:")))
    if text.startswith("ws://"):
        return _web_socket(text, text.removeprefix("ws://"), secure=False)
    if text.startswith("wss://"):
        return _web_socket(text, text.removeprefix("wss://"), secure=True)
    if text.startswith("ssh:"):
        return _ssh(text, text.removeprefix("ssh:"))
    if text.startswith("pipe:"):
        return _pipe(text, text.removeprefix("pipe:"))
    raise _refused(text)


def hub_endpoint(env: Mapping[str, str]) -> str:
    """Return where a hub serves its own box: `unix:<hub socket>`, on Windows a pipe named for the account."""
    return f"pipe:{_pipe_name('sot-hub', env)}" if sys.platform == "win32" else f"unix:{hub_socket(env)}"


def link_endpoint(env: Mapping[str, str]) -> str:
    """Return where a link serves its own box, by the same rule as `hub_endpoint`."""
    return f"pipe:{_pipe_name('sot-link', env)}" if sys.platform == "win32" else f"unix:{link_socket(env)}"


def relay_endpoint(topology: Topology | None, self_host: str, env: Mapping[str, str]) -> str | None:
    """Return the hub's endpoint as the box `self_host` derives it (WIRE sections 2, 5).

    None without a topology. The hub itself: where it serves its own box. Any other box, frontend or not: the
    hub's `url` when hosts.toml gives one, else `ssh:<hub>`, the one derivation that needs only the hub's
    name. No socket of this box can stand in for it: the runtime folder holds its own daemons' only.
    """
    if topology is None:
        return None
    if self_host == topology.hub:
        return hub_endpoint(env)
    return topology.hub_url() or f"ssh:{topology.hub}"


def _refused(text: str, why: str = "") -> EndpointError:
    reason = f": {why}" if why else ""
    return EndpointError(f"not an endpoint: {_without_secrets(text)!r}{reason} (accepted: {FORMS})")


def _without_secrets(text: str) -> str:
    """Keep a URL's user info, query and fragment out of messages: they may hold passwords and tokens."""
    scheme, separator, rest = text.partition("://")
    if separator and not {"@", "?", "#"}.isdisjoint(rest):
        shown = "" if "@" in rest else rest.partition("?")[0].partition("#")[0]
        text = f"{scheme}://{shown}…"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _printable(text: str, part: str) -> str:
    if any(char < " " or char == "\x7f" for char in part):
        raise _refused(text, "it holds a control character")
    return part


def _ssh(text: str, rest: str) -> SshEndpoint:
    target, _, box = rest.partition("/")
    # A plain host name can never be read as an option of ssh, nor by a shell as anything but a word.
    if not is_host_name(target) or (box and not is_host_name(box)):
        raise _refused(
            text, "an ssh target is a plain host name; a user or a port belongs in the ssh configuration"
        )
    return SshEndpoint(target, box or None)


def _pipe(text: str, rest: str) -> PipeEndpoint:
    name = _printable(text, rest)
    if name[: len(_PIPE_PREFIX)].lower() == _PIPE_PREFIX:
        name = name[len(_PIPE_PREFIX) :]
    if not name or "\\" in name:
        raise _refused(text, "a pipe is one name, and on this box")
    return PipeEndpoint(name)


def _pipe_name(name: str, env: Mapping[str, str]) -> str:
    # Pipe names are one space for the whole machine: two accounts must not meet in it.
    account = "".join(char for char in env.get("USERNAME", "").lower() if char.isalnum() or char in "._-")
    return f"{name}-{account}" if account else name


def _web_socket(text: str, rest: str, *, secure: bool) -> WebSocketEndpoint:
    authority, slash, path = rest.partition("/")
    if "@" in authority:
        raise _refused(text, "credentials do not belong in it")
    if "?" in rest or "#" in rest:
        raise _refused(text, "it has no query and no fragment")
    if any(not "!" <= char <= "~" for char in path):
        raise _refused(text, "its path is printable ASCII without a space")
    if authority.startswith("["):
        inside, bracket, after = authority[1:].partition("]")
        host = _ipv6(text, inside if bracket else "")
    else:
        host, colon, after = authority.partition(":")
        after = colon + after
        host = host.lower()
        if not host or not _DNS.issuperset(host):
            raise _refused(text, "the host is a name or an address, an IPv6 address in brackets")
        _sendable_to_dns(text, host)
    port = (WSS_PORT if secure else WS_PORT) if not after else _port(text, after)
    return WebSocketEndpoint(host, port, secure, f"/{path}" if slash else "/")


def _sendable_to_dns(text: str, host: str) -> None:
    # A look-up of such a name never asks anybody: it fails as UnicodeError, which no dialler waits for.
    labels = host.removesuffix(".").split(".")  # with a dot at its end a name is a whole one
    if "" in labels:
        raise _refused(text, "the host has a dot with no label before it")
    if max(map(len, labels)) > _MAX_LABEL:
        raise _refused(text, f"a label of the host is longer than {_MAX_LABEL} characters")
    if len(host.removesuffix(".")) > _MAX_NAME:
        raise _refused(text, f"the host is longer than {_MAX_NAME} characters")


def _ipv6(text: str, inside: str) -> str:
    import ipaddress

    try:
        if "%" not in inside:  # a zone means something on one box only
            return str(ipaddress.IPv6Address(inside))
    except ValueError:
        pass
    raise _refused(text, "what stands in brackets is an IPv6 address")


def _port(text: str, after: str) -> int:
    digits = after[1:]
    if (
        after[0] == ":"
        and digits.isascii()
        and digits.isdigit()
        and len(digits) <= 5
        and int(digits) <= 65535
    ):
        return int(digits)
    raise _refused(text, "the port is a number from 0 to 65535")
