"""The hub's ops, and what happens when a connection comes or goes: WIRE sections 3, 4 and 6."""

import logging
import time
from collections.abc import Mapping
from typing import Any

from hub.mail import MailDesk
from hub.offers import COMM_FILE, Offers
from hub.roster import Roster, shown, utc_stamp
from topology.model import Topology
from wire import codes
from wire.admission import ROLE_LINK, ROLES, AccountRecord, Door, RefusedHello
from wire.closing import CloseReason
from wire.connection import Outgoing
from wire.facts import daemon_facts
from wire.frames import TOO_LARGE, AnswerTooLargeError, Frame, Kind, encode, encode_answer, refusal
from wire.limits import MAX_FRAME_BYTES
from wire.payloads import AgentSend, Hello, fit
from wire.server import Server
from wire.session import PING, Answer, Op, ServedSession, Session

log = logging.getLogger("sot.hub")

SUPERSEDED_EVENT = "link.superseded"
AGENT_MESSAGE = "agent.message"


class HubService:
    """What the hub does with the sessions its server admits."""

    def __init__(
        self, self_host: str, topology: Topology | None, roster: Roster, offers: Offers, desk: MailDesk
    ) -> None:
        self.server: Server | None = None
        self.hello_refused: dict[str, int] = {}
        self._self_host = self_host
        self._topology = topology
        self._roster = roster
        self._offers = offers
        self._desk = desk
        self._started = time.monotonic()
        self._door = Door(self_host, AccountRecord(), lists=topology.lists if topology is not None else None)
        self._ops: dict[str, Op] = {
            COMM_FILE: desk.comm_file,
            PING: _ping,
            "agent.send": self._agent_send,
            "version.query": self._version_query,
            "hub.status": self._hub_status,
        }

    # wire.server.Service

    @property
    def ops(self) -> Mapping[str, Op]:
        return self._ops

    def door(self) -> Door:
        return self._door

    def admitted(self, session: ServedSession, hello: Hello) -> None:
        session.is_link = hello.role == ROLE_LINK

    def greeted(self, session: ServedSession) -> None:
        hello = session.hello
        if hello is None or not session.is_link:
            return
        older = self._roster.add(session, hello)
        connection, host = session.connection, shown(hello.host)
        log.info("link up host=%s transport=%s peer=%s", host, connection.transport, connection.peer)
        if older is not None:
            log.warning("link superseded host=%s older_peer=%s", host, older.connection.peer)
            if not older.connection.framed:
                older.event(SUPERSEDED_EVENT, {"host": host})
            older.close(CloseReason.SUPERSEDED, f"a newer link of {host}")
            self._offers.link_ended(older)

    def refused(self, session: ServedSession, refused: RefusedHello) -> None:
        self.hello_refused[refused.code] = self.hello_refused.get(refused.code, 0) + 1
        log.warning(
            "hello refused code=%s peer=%s: %s",
            refused.code,
            session.connection.peer,
            shown(refused.payload["error"]),
        )

    def answered(self, session: Session, frame: Frame) -> None:
        self._offers.answered(session, frame)

    def ended(self, session: ServedSession, reason: CloseReason, detail: str) -> None:
        link = self._roster.remove(session, reason)
        if link is not None:
            log.warning("link down host=%s reason=%s %s", shown(link.host), reason.value, detail)
        if session.is_link:
            self._offers.link_ended(session)
        elif reason not in _QUIET:
            log.info("connection ended peer=%s reason=%s %s", session.connection.peer, reason.value, detail)

    # Ops

    def _agent_send(self, _session: Session, payload: dict[str, Any]) -> Answer:
        notice = fit(AgentSend, payload)
        if notice.to:
            return refusal(codes.MAIL_REQUIRES_COMM_FILE, codes.MAIL_NEEDS_COMM_FILE)
        its_id = {} if notice.id is None else {"id": notice.id}
        event = {"from": notice.sender, "to": "", "text": notice.text, "ts": utc_stamp(), **its_id}
        text = encode(Kind.EVT, 0, AGENT_MESSAGE, event)
        if len(text) > MAX_FRAME_BYTES:
            return refusal(TOO_LARGE, f"the notice is {len(text)} bytes; the cap is {MAX_FRAME_BYTES}")
        reached = self._admitted()
        answer = {
            "ok": True,
            "receivers": [shown(session.hello.name) for session in reached if session.hello],
            **its_id,
        }
        try:
            encode_answer(0, "agent.send", answer)
        except AnswerTooLargeError as error:
            # Known before anything is published: the sender must not be left without an answer.
            return refusal(TOO_LARGE, str(error))
        outgoing = Outgoing(text)
        for session in reached:
            session.send(outgoing)
        return answer

    def _version_query(self, _session: Session, _payload: dict[str, Any]) -> Answer:
        loaded = self._topology.sha256 if self._topology is not None else ""
        return daemon_facts(self._self_host, loaded, time.monotonic() - self._started)

    def _hub_status(self, session: Session, _payload: dict[str, Any]) -> Answer:
        if not session.connection.local:
            return refusal(codes.FORBIDDEN, "hub.status is served on the hub's own Unix socket only")
        roles: dict[str, int] = {}
        for admitted in self._admitted():
            role = admitted.hello.role if admitted.hello is not None else ""
            role = role if role in ROLES else "cli"
            roles[role] = roles.get(role, 0) + 1
        return {
            "hub": self._self_host,
            "uptime_s": round(time.monotonic() - self._started, 3),
            **self._roster.status(self._topology.link_holders() if self._topology is not None else ()),
            "connections": roles,
            "in_flight": self._desk.in_flight,
        }

    def _admitted(self) -> list[ServedSession]:
        sessions = self.server.sessions if self.server is not None else ()
        return [session for session in sessions if session.hello is not None and not session.closing]


def _ping(_session: Session, _payload: dict[str, Any]) -> Answer:
    return {"ok": True}


_QUIET = frozenset({CloseReason.PEER_LEFT, CloseReason.HELLO_REFUSED, CloseReason.SHUTDOWN})
