"""The roster: which box holds a link, since when, and which ones ended and why (WIRE sections 6 and 7)."""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wire.closing import CloseReason
from wire.limits import CLOSED_LINKS_KEPT
from wire.payloads import Hello
from wire.session import Session


@dataclass(slots=True, eq=False)
class Link:
    """One linked box. The counters are for hub.status."""

    host: str
    session: Session
    hello: Hello
    since: str
    offers: int = 0
    filed: int = 0
    last_answer_ms: float | None = None

    def status(self) -> dict[str, Any]:
        """Return this link's row of hub.status."""
        answer_ms = None if self.last_answer_ms is None else round(self.last_answer_ms, 3)
        return {
            "host": shown(self.host),
            "os_user": shown(self.hello.os_user),
            "since": self.since,
            "instance": shown(self.hello.instance),
            "transport": self.session.connection.transport,
            "peer": self.session.connection.peer,
            "app_version": shown(self.hello.app_version),
            "offers": self.offers,
            "filed": self.filed,
            "last_answer_ms": answer_ms,
        }


class Roster:
    """One link a host: a newer hello of the same host takes the older one's place."""

    def __init__(self) -> None:
        self.superseded = 0
        self._by_host: dict[str, Link] = {}
        self._ended: deque[dict[str, Any]] = deque(maxlen=CLOSED_LINKS_KEPT)

    def links(self) -> list[Link]:
        """Return the links that an offer made now goes to: not one whose connection is closing already."""
        return [link for link in self._by_host.values() if not link.session.closing]

    def add(self, session: Session, hello: Hello) -> Session | None:
        """Take a link in; return the older session of its host, which is no link any more, for closing."""
        older = self._by_host.pop(hello.host, None)
        self._by_host[hello.host] = Link(hello.host, session, hello, utc_stamp())
        if older is None:
            return None
        self.superseded += 1
        self._keep(older, CloseReason.SUPERSEDED)
        return older.session

    def remove(self, session: Session, reason: CloseReason) -> Link | None:
        """Take the end of a session; return the link it was, or None when it was none (any more)."""
        hello = session.hello
        link = self._by_host.get(hello.host) if hello is not None else None
        if link is None or link.session is not session:
            return None
        del self._by_host[link.host]
        self._keep(link, reason)
        return link

    def not_linked(self, should_hold: Sequence[str]) -> list[str]:
        """Return those of `should_hold` that hold no link now, in their order."""
        linked = {link.host for link in self.links()}
        return [host for host in should_hold if host not in linked]

    def status(self, should_hold: Sequence[str]) -> Mapping[str, Any]:
        """Return the roster's members of hub.status."""
        return {
            "links": [link.status() for link in self.links()],
            "not_linked": self.not_linked(should_hold),
            "closed": list(self._ended),
        }

    def _keep(self, link: Link, reason: CloseReason) -> None:
        self._ended.append(
            {"host": shown(link.host), "since": link.since, "until": utc_stamp(), "reason": reason.value}
        )


def shown(text: str) -> str:
    """Return what is told to others of a name that a peer gave itself: a megabyte of it helps nobody."""
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"


def utc_stamp() -> str:
    """Return now as YYYY-MM-DDTHH:MM:SSZ."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


_SHOWN_CHARS = 256
