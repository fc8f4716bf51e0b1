"""What one folder says to one comm.file, decided from values (WIRE section 5, "Order of one folder's
verdict").
"""

from dataclasses import dataclass
from typing import Protocol, TypeAlias, assert_never

from filing import outcome
from filing.inbox import inbox_line
from filing.liveness import heartbeat_fresh, utc_stamp
from filing.lock_manager import RecordAnswer, Refuse, Role, Route, refusal, route_decision
from filing.outcome import Refused
from filing.registry import Listing, RegistryAnswer, RegistryMissing, RegistryUnreadable


class CommFileMembers(Protocol):
    """Whatever carries the members of one comm.file, such as the wire's model of its payload."""

    @property
    def sender(self) -> str: ...
    @property
    def to(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def broadcast(self) -> bool: ...
    @property
    def forwarded(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class FileRequest:
    """One comm.file: `sender` is its `from`; `forwarded`: a guest or the hub has passed it on once."""

    sender: str
    to: str
    text: str
    broadcast: bool
    forwarded: bool

    @classmethod
    def of(cls, request: CommFileMembers) -> "FileRequest":
        """The request as it came over the wire."""
        return cls(request.sender, request.to, request.text, request.broadcast, request.forwarded)


@dataclass(frozen=True, slots=True)
class Forward:
    """This daemon is a guest on the folder: the request goes to the hub, once, and the hub's verdict is the
    verdict.
    """


@dataclass(frozen=True, slots=True)
class ToInbox:
    """The handle is listed here and live, and this daemon may append: `line` goes in under the inbox lock."""

    line: bytes


Verdict: TypeAlias = Refused | Forward | ToInbox


@dataclass(frozen=True, slots=True)
class Standing:
    """What does not change while a daemon runs."""

    role: Role
    self_host: str
    machine_id: str | None
    record_path: str  # for sentences
    live_secs: int


@dataclass(frozen=True, slots=True)
class Facts:
    """What was read for this filing, after it came. `registry` is None where the route alone decides."""

    registry: RegistryAnswer | None
    record: RecordAnswer
    own: str


def verdict(
    request: FileRequest, *, offered: bool, standing: Standing, facts: Facts, now_epoch_s: float
) -> Verdict:
    """The folder's word on a request whose `to` is a handle. `offered`: the hub offered it to this box's
    link.

    A guest asks the route first, since its folder is the hub's. An offer is different: a link says `not_here`
    to what its own registry does not list under its own box, guest or not, and is never forwarded again.
    """
    route = route_decision(
        standing.role, facts.own, standing.machine_id, facts.record, forwarded=request.forwarded or offered
    )
    guest_first = standing.role is Role.GUEST and not offered
    if guest_first and route is not Route.LOCAL:
        return _elsewhere(route, standing, facts)
    match facts.registry:
        case Listing() as listing:
            entry = listing.entry(request.to)
        case RegistryUnreadable(why=why):
            return outcome.registry_unreadable(request.to, why)
        case RegistryMissing() | None:
            entry = None
        case _:
            assert_never(facts.registry)
    if entry is None or (offered and entry["host"] != standing.self_host):
        return outcome.not_here(request.to)
    if route is not Route.LOCAL:
        return _elsewhere(route, standing, facts)
    if not heartbeat_fresh(entry.get("last_seen"), now_epoch_s, standing.live_secs):
        return outcome.no_live_session(request.to)
    return _line(request, utc_stamp(now_epoch_s))


def _elsewhere(route: Route | Refuse, standing: Standing, facts: Facts) -> Refused | Forward:
    if isinstance(route, Refuse):
        return refusal(route.kind, standing.record_path, facts.own, facts.record)
    return Forward()


def _line(request: FileRequest, stamp: str) -> ToInbox | Refused:
    try:
        return ToInbox(
            inbox_line(
                sender=request.sender,
                to=request.to,
                text=request.text,
                broadcast=request.broadcast,
                stamp=stamp,
            )
        )
    except UnicodeEncodeError:
        return outcome.bad_request("the message holds a lone surrogate")
