"""What a link's daemon does for its own box, and with what the hub offers (WIRE section 5, "At a link")."""

import asyncio
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from deploy.fleet import Daemon, Fleet
from tests.end_to_end.conftest import HUB, PATIENT, Hub, exit_code, hub_in
from tests.support.peers import (
    CAP,
    NOT_HERE,
    OK,
    FakeHub,
    Json,
    Peers,
    encode,
    hello,
    mail,
    mail_of_size,
    open_peers,
    refuses_connections,
    until,
)  # fmt: skip

assert sys.platform != "win32"  # conftest.py leaves this folder out there


ODD: Json = {"error": "own words, é and all", "code": "made_up"}


@dataclass
class Linked:
    hub: Hub
    link: Daemon

    @property
    def own(self) -> str:
        return self.hub.fleet.box("box").endpoint


@pytest.fixture(scope="module")
def linked() -> Iterator[Linked]:
    with Fleet(PATIENT) as fleet:
        hub = hub_in(fleet)
        hub.box.register("at-hub")
        box = fleet.box("box")
        box.register("mine")
        box.register("stale", age_s=3600)
        box.register("elsewhere", host="other")
        link = fleet.start_link("box", hub.ws)
        fleet.wait_linked(HUB, ["box"])
        yield Linked(hub, link)


async def test_it_files_its_own_handles_and_hands_on_the_rest(linked: Linked, peers: Peers) -> None:
    sender = await peers.client(linked.own)
    box = linked.hub.fleet.box("box")
    assert await sender.file("mine", "to a neighbour") == OK
    assert box.inbox("mine")[-1]["msg"] == "to a neighbour"
    assert await sender.file("at-hub", "é to the hub") == OK
    line = linked.hub.box.inbox("at-hub")[-1]
    assert (line["from"], line["to"], line["msg"]) == ("tester", "at-hub", "é to the hub")
    assert await sender.file("at-hub", "to all", broadcast=True) == OK
    assert linked.hub.box.inbox("at-hub")[-1]["to"] == ""
    assert await sender.file("stale") == {
        "error": "no live session holds @stale", "code": "no_live_session",
    }  # fmt: skip
    assert await sender.file("a b") == {"error": 'not a handle: "a b"', "code": "bad_handle"}


async def test_the_hubs_verdict_is_passed_on_verbatim(linked: Linked, peers: Peers) -> None:
    sender = await peers.client(linked.own)
    assert await sender.file("nobody") == {
        "error": "no box knows that handle: nobody", "code": "unknown_handle",
    }  # fmt: skip
    other = await peers.link(linked.hub.unix, "other")
    for verdict in (ODD, OK):
        asked = await sender.send("comm.file", mail("far"))
        await other.answer(await other.offer(), verdict)
        assert await sender.answer_to(asked, "comm.file") == verdict


async def test_what_came_forwarded_is_never_handed_on(linked: Linked, peers: Peers) -> None:
    other, sender = await peers.link(linked.hub.unix, "other"), await peers.client(linked.own)
    assert await sender.file("far", forwarded=True) == {
        "error": "no box knows that handle: far", "code": "not_here",
    }  # fmt: skip
    assert await other.offers_so_far() == []
    assert await sender.file("mine", forwarded=True) == OK


async def test_an_offer_is_filed_only_if_the_entrys_host_is_this_box(linked: Linked, peers: Peers) -> None:
    sender = await peers.client(linked.hub.unix)
    before = len(linked.hub.fleet.box("box").inbox("mine"))
    assert await sender.file("elsewhere") == {
        "error": "no box knows that handle: elsewhere", "code": "unknown_handle",
    }  # fmt: skip
    assert await sender.file("mine") == OK
    assert len(linked.hub.fleet.box("box").inbox("mine")) == before + 1
    # Its own clients reach a handle that its folder lists under another box: the folder is shared.
    assert await (await peers.client(linked.own)).file("elsewhere") == OK


async def test_its_other_ops(linked: Linked, peers: Peers) -> None:
    sender = await peers.client(linked.own)
    assert await sender.ask("ping", {}) == OK
    version = await sender.ask("version.query", {})
    assert version["host"] == "box"
    assert version["protocol"] == 3
    assert set(version["daemon"]) == {"app_version", "protocol", "host", "hosts_toml_hash", "uptime_s"}
    for op in ("agent.send", "hub.status", "nonsense"):
        assert await sender.ask(op, {}) == {"error": f"unknown op: {op}", "code": "unknown_op"}
    assert (await sender.ask("comm.file", {"from": 1}))["code"] == "bad_request"


async def test_it_takes_no_links(linked: Linked, peers: Peers) -> None:
    peer = await peers.knock(linked.own)
    assert (await peer.ask("hello", hello("x", role="link")))["code"] == "unknown_host"
    assert await peer.ended() is None


async def test_a_text_that_fits_only_as_its_sender_wrote_it_costs_the_link_nothing(
    linked: Linked, peers: Peers
) -> None:
    """Handed on it would hold two members more, pass the cap, and have the hub end the link."""
    sender = await peers.client(linked.own)
    await sender.send_text(mail_of_size(CAP, "far", frame_id=1))
    verdict = await sender.answer_to(1, "comm.file")
    assert verdict["code"] == "too_large"
    await sender.send_text(mail_of_size(CAP, "mine", frame_id=1))
    assert await sender.answer_to(1, "comm.file") == OK
    assert await sender.file("at-hub") == OK
    assert "link down" not in linked.hub.fleet.box("box").log()


async def test_a_text_of_which_only_the_offer_passes_the_cap_is_the_hubs_to_refuse(
    linked: Linked, peers: Peers
) -> None:
    """`forwarded:false` is one byte longer than `true`, so what can be handed on can be offered."""
    longest = len(encode("comm.file", mail("", "", broadcast=False, forwarded=False), frame_id=2**63 - 1))
    text = "x" * (CAP - longest - len("at-hub"))
    sender = await peers.client(linked.own)
    assert await sender.file("at-hub", text) == OK
    assert (await sender.file("at-hub", text + "x"))["code"] == "too_large"


async def test_one_held_lock_delays_no_other_offer(linked: Linked, peers: Peers) -> None:
    box = linked.hub.fleet.box("box")
    box.register("held")
    sender = await peers.client(linked.hub.unix)
    with box.inbox_lock("held"):
        waiting = [await sender.send("comm.file", mail("held", str(number))) for number in range(3)]
        for number in range(20):
            assert await sender.file("mine", f"beside {number}") == OK
        assert box.inbox("held") == []
    for frame_id in waiting:
        assert await sender.answer_to(frame_id, "comm.file") == OK
    assert sorted(line["msg"] for line in box.inbox("held")) == ["0", "1", "2"]


async def test_while_it_is_down_what_is_not_its_own_is_refused(fleet: Fleet) -> None:
    box = fleet.box("box")
    box.register("mine")
    fleet.start_link("box", f"unix:{fleet.folder}/nobody.sock")
    async with open_peers() as peers:
        sender = await peers.client(box.endpoint)
        await until(lambda: "link down" in box.log(), "it has tried once")
        verdict = await sender.file("far")
        assert verdict == {
            "error": f"the link to the hub is down: unix:{fleet.folder}/nobody.sock: "
            "No such file or directory; nothing was sent",
            "code": "file_failed",
        }  # fmt: skip
        assert await sender.file("mine") == OK


async def test_what_is_handed_on_says_so_on_the_wire(fleet: Fleet) -> None:
    async with FakeHub(fleet.folder / "hub.sock").serving() as hub, open_peers() as peers:
        fleet.start_link("box", hub.endpoint)
        at_hub = await hub.greet()
        assert at_hub
        sender = await peers.client(fleet.box("box").endpoint)
        await until(lambda: "link up" in fleet.box("box").log(), "the link is up")
        asked = await sender.send("comm.file", mail("far", "t", broadcast=True, extra=[1]))
        frame = await at_hub.next()
        assert (frame["kind"], frame["op"]) == ("req", "comm.file")
        assert frame["payload"] == {
            "from": "tester", "to": "far", "text": "t", "broadcast": True, "forwarded": False,
        }  # fmt: skip
        await at_hub.send("comm.file", {**ODD, "more": 1}, frame_id=frame["id"], kind="res")
        assert await sender.answer_to(asked, "comm.file") == ODD
        # A hub that goes before it answered: nobody knows what became of it.
        asked = await sender.send("comm.file", mail("far"))
        await at_hub.next()
        await at_hub.close()
        verdict = await sender.answer_to(asked, "comm.file")
        assert verdict == {
            "error": "the daemon on fakehub did not answer within 602.5s; @far may still be filed",
            "code": "no_answer",
        }  # fmt: skip


async def test_more_than_63_requests_handed_on_do_not_stop_the_offers(linked: Linked, peers: Peers) -> None:
    """At 64 in flight the hub would read this link no further, and miss its answers to offers."""
    other, sender = await peers.link(linked.hub.unix, "other"), await peers.client(linked.hub.unix)
    inside = [await peers.client(linked.own) for _ in range(2)]
    asked = [(peer, await peer.send("comm.file", mail("far"))) for peer in inside for _ in range(50)]
    handed_on = [await other.offer() for _ in range(63)]
    filed = await sender.send("comm.file", mail("mine"))
    assert (await other.offer()).payload["to"] == "mine"
    assert await sender.answer_to(filed, "comm.file") == OK
    for offer in handed_on:
        await other.peer.send("comm.file", NOT_HERE, frame_id=offer.id, kind="res")
    for _ in range(100 - 63):
        offer = await other.offer()
        await other.peer.send("comm.file", NOT_HERE, frame_id=offer.id, kind="res")
    for peer, frame_id in asked:
        assert (await peer.answer_to(frame_id, "comm.file"))["code"] == "unknown_handle"


# SIGTERM


async def test_sigterm_answers_the_offer_that_is_being_filed_first(fleet: Fleet) -> None:
    hub = hub_in(fleet)
    box = fleet.box("box")
    box.register("held")
    link = fleet.start_link("box", hub.ws)
    fleet.wait_linked(HUB, ["box"])
    async with open_peers() as peers:
        sender = await peers.client(hub.unix)
        with box.inbox_lock("held"):
            asked = await sender.send("comm.file", mail("held"))
            await until(lambda: hub.status()["links"][0]["offers"] == 1, "the offer is out")
            await asyncio.to_thread(
                fleet.ask, HUB, "comm.file", mail("nobody")
            )  # and heard: so was the first
            link.signal(signal.SIGTERM)
            await until(lambda: refuses_connections(box.socket), "the link is draining")
        assert await sender.answer_to(asked, "comm.file") == OK
        assert await exit_code(link) == 0
    assert len(box.inbox("held")) == 1
    fleet.wait_linked(HUB, [])
    assert "Traceback" not in box.log()
    assert link.rest_of_stdout() == []


async def test_sigterm_waits_for_the_hubs_verdict_on_what_was_handed_on(fleet: Fleet) -> None:
    hub = hub_in(fleet)
    link = fleet.start_link("box", hub.ws)
    fleet.wait_linked(HUB, ["box"])
    async with open_peers() as peers:
        other, sender = await peers.link(hub.unix, "other"), await peers.client(fleet.box("box").endpoint)
        asked = await sender.send("comm.file", mail("far"))
        offer = await other.offer()
        link.signal(signal.SIGTERM)
        await until(lambda: refuses_connections(fleet.box("box").socket), "the link is draining")
        assert (await sender.file("far"))["code"] == "busy"
        await other.answer(offer, OK)
        assert await sender.answer_to(asked, "comm.file") == OK
        assert await sender.ended() is None
        assert await exit_code(link) == 0


async def test_a_draining_link_goes_on_saying_not_here_of_what_is_not_its_own(fleet: Fleet) -> None:
    """A `busy` would hide the verdict of the box that holds the handle."""
    hub = hub_in(fleet)
    link = fleet.start_link("box", hub.ws)
    fleet.wait_linked(HUB, ["box"])
    async with open_peers() as peers:
        other, inside = await peers.link(hub.unix, "other"), await peers.client(fleet.box("box").endpoint)
        await inside.send("comm.file", mail("far"))
        handed_on = await other.offer()
        link.signal(signal.SIGTERM)
        await until(lambda: refuses_connections(fleet.box("box").socket), "the link is draining")
        sender = await peers.client(hub.unix)
        asked = await sender.send("comm.file", mail("far"))
        await other.answer(await other.offer(), ODD)
        assert await sender.answer_to(asked, "comm.file") == ODD
        await other.answer(handed_on, OK)
        assert await exit_code(link) == 0


async def test_a_hub_that_never_answers_holds_up_no_exit_of_a_link(fleet: Fleet) -> None:
    async with FakeHub(fleet.folder / "hub.sock").serving() as hub, open_peers() as peers:
        link = fleet.start_link("box", hub.endpoint)
        at_hub = await hub.greet()
        sender = await peers.client(fleet.box("box").endpoint)
        await until(lambda: "link up" in fleet.box("box").log(), "the link is up")
        await sender.send("comm.file", mail("far"))
        await at_hub.next()
        link.signal(signal.SIGTERM)
        assert await exit_code(link) == 0
    assert "Traceback" not in fleet.box("box").log()


async def test_a_held_inbox_lock_holds_up_no_exit_of_a_link(fleet: Fleet) -> None:
    """Neither as an offer nor as its own box's mail; here the lock is waited for ten minutes."""
    hub = hub_in(fleet)
    box = fleet.box("box")
    box.register("held")
    link = fleet.start_link("box", hub.ws)
    fleet.wait_linked(HUB, ["box"])
    async with open_peers() as peers:
        sender, inside = await peers.client(hub.unix), await peers.client(box.endpoint)
        with box.inbox_lock("held"):
            asked = await sender.send("comm.file", mail("held"))
            await inside.send("comm.file", mail("held"))
            await until(lambda: hub.status()["links"][0]["offers"] == 1, "the offer is out")
            assert await inside.ask("ping", {}) == OK
            link.signal(signal.SIGTERM)
            assert await exit_code(link) == 0
            assert (await sender.answer_to(asked, "comm.file"))["code"] == "no_answer"
    assert box.inbox("held") == []
    assert "Traceback" not in box.log()
