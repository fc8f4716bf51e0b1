"""What a link's own socket serves to this box: comm.file, ping and version.query (WIRE section 5)."""

import logging
import time
from collections.abc import Mapping
from typing import Any

from link.mail import COMM_FILE, LinkDesk
from wire.admission import AccountRecord, Door, RefusedHello
from wire.closing import CloseReason
from wire.facts import daemon_facts
from wire.frames import Frame
from wire.payloads import Hello
from wire.session import PING, Answer, Op, ServedSession, Session

log = logging.getLogger("sot.link")


class LinkService:
    """What a link does with the sessions of its own box. It takes no links: those go to the hub."""

    def __init__(self, self_host: str, hosts_toml_hash: str, desk: LinkDesk) -> None:
        self._self_host = self_host
        self._hosts_toml_hash = hosts_toml_hash
        self._started = time.monotonic()
        self._door = Door(self_host, AccountRecord(), links=False)
        self._ops: dict[str, Op] = {
            COMM_FILE: desk.comm_file,
            PING: ping,
            "version.query": self._version_query,
        }

    @property
    def ops(self) -> Mapping[str, Op]:
        return self._ops

    def door(self) -> Door:
        return self._door

    def admitted(self, session: ServedSession, hello: Hello) -> None:
        """Every client is served alike."""

    def greeted(self, session: ServedSession) -> None:
        """Nothing more to say."""

    def refused(self, session: ServedSession, refused: RefusedHello) -> None:
        log.warning(
            "hello refused code=%s peer=%s: %s",
            refused.code,
            session.connection.peer,
            refused.payload["error"],
        )

    def answered(self, session: Session, frame: Frame) -> None:
        """Ignore a `res` that nobody asked for."""

    def ended(self, session: ServedSession, reason: CloseReason, detail: str) -> None:
        log.debug("connection ended peer=%s reason=%s %s", session.connection.peer, reason.value, detail)

    def _version_query(self, _session: Session, _payload: dict[str, Any]) -> Answer:
        return daemon_facts(self._self_host, self._hosts_toml_hash, time.monotonic() - self._started)


def ping(_session: Session, _payload: dict[str, Any]) -> Answer:
    return {"ok": True}
