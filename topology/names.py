"""Names of boxes (WIRE section 7), and a session's in its self file (PROTOCOL Layout).

Light on purpose: `verbs/` imports this before it sends a line.
"""

import os
import sys

TYPE_CHECKING = False  # `typing` would cost a send more than all the rest of this module
if TYPE_CHECKING:
    from collections.abc import Mapping

_FIRST = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_REST = _FIRST | frozenset("._-")


class HostNameError(ValueError):
    """This box has no name: `$SOT_SELF_HOST` is not set and the machine's host name has no first label."""


def is_host_name(text: str) -> bool:
    """Tell whether the whole of `text` is a host name, `[a-z0-9][a-z0-9._-]*` in ASCII (WIRE section 7)."""
    return text[:1] in _FIRST and _REST.issuperset(text)


def declared_host(override: str | None, hostname: str) -> str | None:
    """Return a box's name: `override` as it stands, else the first label of `hostname` in lower case.

    An empty override counts as none. None is returned when there is no first label either (WIRE section 7).
    """
    if override:
        return override
    return hostname.strip().split(".", 1)[0].lower() or None


def self_host(env: "Mapping[str, str] | None" = None) -> str:
    """Return this box's name, by `$SOT_SELF_HOST` in `env` (default: os.environ) or the machine's host name.

    Raises HostNameError when neither gives one (WIRE section 7).
    """
    override = (os.environ if env is None else env).get("SOT_SELF_HOST")
    hostname = "" if override else _machine_name()
    name = declared_host(override, hostname)
    if name is None:
        raise HostNameError(
            f"the host name {hostname!r} gives this box no name: set SOT_SELF_HOST to its name"
        )
    return name


def _machine_name() -> str:
    if sys.platform == "win32":
        import socket  # COMPUTERNAME stops at 15 characters; this does not

        return socket.gethostname()
    return os.uname().nodename


def self_file_says(data: bytes) -> tuple[str, str, str]:
    """Return handle, repo and root of a self file's bytes, "" for each that it does not say.

    The handle is line 1 without the white space around it, the others are `key=value` lines in any order, of
    which the first of a key counts. NULs, a crash's leavings, do not count. Every reader asks here: what one
    takes for a claim, no other may write over.
    """
    text = data.translate(None, b"\0").decode("utf-8", "surrogateescape")
    first, *rest = text.split("\n")
    facts: dict[str, str] = {}
    for line in rest:
        key, equals, value = line.rstrip("\r").partition("=")
        if equals:
            facts.setdefault(key, value)
    return first.strip(), facts.get("repo", ""), facts.get("root", "")
