"""The roster keeps one link a host, and remembers the last hundred that ended (WIRE sections 6 and 7)."""

from hub.roster import Link, Roster, shown
from tests.support.sessions import hello_of, session_of
from wire.closing import CloseReason
from wire.session import Session


def add(roster: Roster, session: Session) -> Session | None:
    assert session.hello is not None
    return roster.add(session, session.hello)


def hosts(roster: Roster) -> list[str]:
    return [link.host for link in roster.links()]


def test_a_link_comes_and_goes() -> None:
    roster, session = Roster(), session_of("a", instance="i1", app_version="9")
    assert add(roster, session) is None
    assert hosts(roster) == ["a"]
    link = roster.remove(session, CloseReason.PEER_LEFT)
    assert isinstance(link, Link)
    assert hosts(roster) == []
    (ended,) = roster.status(())["closed"]
    assert (ended["host"], ended["reason"]) == ("a", "peer_left")
    assert ended["since"] <= ended["until"]


def test_a_newer_link_of_a_host_takes_the_olders_place() -> None:
    roster, older, newer = Roster(), session_of("a"), session_of("a")
    add(roster, older)
    assert add(roster, newer) is older
    assert [link.session for link in roster.links()] == [newer]
    assert roster.remove(older, CloseReason.PEER_LEFT) is None, "it is no link any more"
    assert [link.session for link in roster.links()] == [newer]
    assert [end["reason"] for end in roster.status(())["closed"]] == ["superseded"]
    assert roster.superseded == 1


def test_hosts_are_told_apart_as_they_are_spelled() -> None:
    roster = Roster()
    add(roster, session_of("a"))
    assert add(roster, session_of("A")) is None
    assert hosts(roster) == ["a", "A"]


def test_the_end_of_what_was_never_a_link_changes_nothing() -> None:
    roster, client, stranger = Roster(), session_of("a"), session_of("a")
    stranger.hello = None
    add(roster, session_of("a"))
    assert roster.remove(client, CloseReason.PEER_LEFT) is None
    assert roster.remove(stranger, CloseReason.HELLO_TIMEOUT) is None
    assert hosts(roster) == ["a"]


def test_a_link_whose_connection_is_closing_is_not_offered_to_and_holds_no_link() -> None:
    roster, session = Roster(), session_of("a")
    add(roster, session)
    assert roster.not_linked(["a", "b"]) == ["b"]
    session.closing = True
    assert hosts(roster) == []
    assert roster.not_linked(["a", "b"]) == ["a", "b"]
    assert roster.remove(session, CloseReason.SLOW_PEER) is not None, "its end is still kept"


def test_the_missing_stand_in_the_order_of_those_that_should_link() -> None:
    roster = Roster()
    add(roster, session_of("m"))
    assert roster.not_linked(["z", "m", "a"]) == ["z", "a"]


def test_a_hundred_ends_are_kept() -> None:
    roster = Roster()
    for number in range(250):
        session = session_of(f"h{number}")
        add(roster, session)
        roster.remove(session, CloseReason.PEER_LEFT)
    closed = roster.status(())["closed"]
    assert [end["host"] for end in closed] == [f"h{number}" for number in range(150, 250)]


def test_the_row_of_a_link() -> None:
    roster = Roster()
    add(roster, session_of("a", instance="i", app_version="9"))
    (link,) = roster.links()
    link.offers, link.filed, link.last_answer_ms = 3, 2, 1.23456
    (row,) = roster.status(())["links"]
    assert row.pop("since").endswith("Z")
    assert row == {
        "host": "a", "os_user": "uid:1", "instance": "i", "transport": "unix", "peer": "pid 1",
        "app_version": "9", "offers": 3, "filed": 2, "last_answer_ms": 1.235,
    }  # fmt: skip


def test_what_peers_call_themselves_is_cut_where_it_is_shown() -> None:
    assert shown("x" * 256) == "x" * 256
    assert shown("x" * 257) == "x" * 256 + "…"
    assert hello_of("x" * 1000).host == "x" * 1000
