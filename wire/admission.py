"""Who gets in: WIRE section 3. A pure decision on one hello, and the record of OS accounts it needs.

No socket and no clock: the session gives the first frame and what the daemon knows, and gets an answer.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from wire import codes
from wire.account import os_user
from wire.frames import Frame, Kind, refusal
from wire.limits import MAX_HOST_ACCOUNTS, PROTOCOL_VERSION
from wire.payloads import BadPayloadError, Hello, fit
from wire.version import VERSION

HELLO = "hello"
ROLE_LINK = "link"
ROLES = frozenset({ROLE_LINK, "cli", "agent", "fe", "bridge"})


@dataclass(frozen=True, slots=True)
class RefusedHello:
    """Why a hello is refused: a code of section 3, and the payload that says so."""

    code: str
    payload: dict[str, Any]


@dataclass(slots=True)
class AccountRecord:
    """Which OS account each host has said hello as. Two accounts latch the host until the daemon restarts.

    Memory is bounded: long names are kept as digests, and past `most` hosts no new one is recorded (it is
    refused).
    """

    most: int = MAX_HOST_ACCOUNTS
    _accounts: dict[str, str | None] = field(default_factory=dict)

    def conflicts(self, host: str, os_user: str) -> bool:
        """Record this hello; tell whether the host has now said hello as two accounts."""
        host, os_user = _short(host), _short(os_user)
        known = self._accounts.setdefault(host, os_user)
        if known != os_user:
            self._accounts[host] = None  # equals no account: refused for either from now on
        return known != os_user

    def full_for(self, host: str) -> bool:
        """Tell whether this host is new and there is no room to remember one more."""
        return len(self._accounts) >= self.most and _short(host) not in self._accounts


@dataclass(frozen=True, slots=True)
class Door:
    """What a daemon knows when somebody knocks."""

    self_host: str
    accounts: AccountRecord
    lists: Callable[[str], bool] | None = None  # hosts.toml's word on a host; None without a topology
    links: bool = True  # whether this daemon takes links at all

    def admit(
        self, frame: Frame, *, credential_host: str | None = None, full: bool = False
    ) -> Hello | RefusedHello:
        """Judge the first frame of a connection.

        `credential_host` is the host that the connection's token or client certificate belongs to, None where
        the transport asks for neither. `full` says that a connection limit is reached.
        """
        if frame.kind is not Kind.REQ or frame.op != HELLO:
            return _refused(codes.UNAUTHENTICATED, codes.HELLO_FIRST)
        try:
            hello = fit(Hello, frame.payload)
        except BadPayloadError as error:
            return _refused(codes.UNAUTHENTICATED, f"the hello does not parse: {error}")
        if hello.protocol != PROTOCOL_VERSION:
            return _protocol_mismatch(hello)
        if not hello.host or not hello.os_user:
            missing = "host" if not hello.host else "os_user"
            return _refused(codes.IDENTITY_MISSING, f"the hello names no {missing}")
        if credential_host is not None and credential_host != hello.host:
            return _refused(
                codes.IDENTITY_MISMATCH,
                f"the credential of this connection is not one of host {_shown(hello.host)}",
            )
        if hello.role == ROLE_LINK and (sentence := self._no_link(hello.host)):
            return _refused(codes.UNKNOWN_HOST, sentence)
        if self.accounts.full_for(hello.host):
            return _refused(
                codes.TOO_MANY_CONNECTIONS, "this daemon has been greeted by too many different hosts"
            )
        if self.accounts.conflicts(hello.host, hello.os_user):
            return _refused(codes.OS_USER_CONFLICT, _two_accounts(hello.host, self.self_host))
        if full:
            return _refused(codes.TOO_MANY_CONNECTIONS, "this daemon has as many connections as it may hold")
        return hello

    def _no_link(self, host: str) -> str | None:
        if not self.links:
            return f"{self.self_host} is no hub; a link is held to the hub"
        if host == self.self_host:
            return f"{host} is the hub itself; a link is held by another box"
        if self.lists is not None and not self.lists(host):
            return f"hosts.toml on the hub lists no host {_shown(host)}; add [host.{_shown(host)}] there"
        return None


def hello_payload(self_host: str, *, role: str, name: str, instance: str = "") -> dict[str, Any]:
    """Return the payload of this process's own hello."""
    return {
        "client_id": f"{name}-{os.getpid()}",
        "last_seen_revision": 0,
        "protocol": PROTOCOL_VERSION,
        "app_version": VERSION,
        "host": self_host,
        "os_user": os_user(),
        "role": role,
        "name": name,
        "instance": instance,
    }


def reply(self_host: str, session_id: str, clients_connected: int) -> dict[str, Any]:
    """Return the payload that answers an admitted hello."""
    return {
        "session_id": session_id,
        "revision": 0,
        "snapshot_pending": False,
        "host": self_host,
        "protocol": PROTOCOL_VERSION,
        "app_version": VERSION,
        "clients_connected": clients_connected,
        "proxy": False,
    }


def _refused(code: str, sentence: str) -> RefusedHello:
    return RefusedHello(code, refusal(code, sentence))


def _protocol_mismatch(hello: Hello) -> RefusedHello:
    theirs = hello.protocol
    sentence = f"this daemon speaks protocol {PROTOCOL_VERSION}, the client {theirs}; update the older side"
    versions = {
        "backend_protocol": PROTOCOL_VERSION,
        "frontend_protocol": theirs,
        "backend_version": VERSION,
        "frontend_version": _shown(hello.app_version),
    }
    return RefusedHello(codes.PROTOCOL_MISMATCH, refusal(codes.PROTOCOL_MISMATCH, sentence, versions))


def _two_accounts(host: str, self_host: str) -> str:
    host = _shown(host)
    return (
        f"host {host} has said hello as two OS accounts; run everything on {host} under one account, "
        f"then restart the daemon on {self_host}"
    )


# A peer may send a megabyte for a name.
_NAME_CHARS = 255


def _short(text: str) -> str:
    # What is kept for the daemon's lifetime must stay small, and still be told apart.
    return text if len(text) <= _NAME_CHARS else "sha256:" + sha256(text.encode()).hexdigest()


def _shown(text: str) -> str:
    # What stands in a sentence is also logged.
    return text if len(text) <= _NAME_CHARS else text[:_NAME_CHARS] + "…"
