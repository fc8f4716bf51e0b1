"""Each branch of section 5's fold, told by links on real sockets: Unix lines and WebSockets in turn."""

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from deploy.fleet import Fleet
from tests.end_to_end.conftest import HASTY, HASTY_LINK_TIME, HUB, PATIENT, Hub, hub_in
from tests.support.peers import NOT_HERE, OK, STALE, FakeLink, Json, Peers, open_peers

assert sys.platform != "win32"  # conftest.py leaves this folder out there


HELD: Json = {"error": "the inbox lock for @h was held for 2s — nothing was appended", "code": "file_failed"}
ODD: Json = {"error": "own words, é and all", "code": "made_up"}
UNKNOWN: Json = {"error": "no box knows that handle: h", "code": "unknown_handle"}


async def linked(peers: Peers, hub: Hub, count: int) -> list[FakeLink]:
    """Links l0, l1, …: every second one over a WebSocket."""
    return [await peers.link(hub.both[number % 2], f"l{number}") for number in range(count)]


@dataclass(frozen=True)
class Case:
    name: str
    links: int
    answers: tuple[tuple[int, Json], ...]  # in the order in which the hub hears them
    verdict: Json


def others(count: int, but: int, payload: Json = NOT_HERE) -> tuple[tuple[int, Json], ...]:
    return tuple((number, payload) for number in range(count) if number != but)


AT_ONCE = [
    Case("nobody is linked", 0, (), UNKNOWN),
    Case("one link files", 1, ((0, OK),), OK),
    Case("one link does not know it", 1, ((0, NOT_HERE),), UNKNOWN),
    Case("one link refuses, in its own words and with its own code", 1, ((0, ODD),), ODD),
    Case("the first ok ends it while the other is silent", 2, ((0, OK),), OK),
    Case("an ok after a refusal wins", 2, ((0, STALE), (1, OK)), OK),
    Case("an ok after a not_here wins", 2, ((1, NOT_HERE), (0, OK)), OK),
    Case("both do not know it", 2, ((0, NOT_HERE), (1, NOT_HERE)), UNKNOWN),
    Case("a refusal beats a not_here that came later", 2, ((0, STALE), (1, NOT_HERE)), STALE),
    Case("a refusal beats a not_here that came before", 2, ((0, NOT_HERE), (1, STALE)), STALE),
    Case("the first refusal that came wins", 2, ((1, HELD), (0, STALE)), HELD),
    Case("one of fifty files while 49 are silent", 50, ((37, OK),), OK),
    Case("one of fifty files after 49 did not know it", 50, (*others(50, 12), (12, OK)), OK),
    Case("none of fifty knows it", 50, others(50, -1), UNKNOWN),
    Case("one of fifty refuses", 50, ((20, STALE), *others(50, 20)), STALE),
    Case("fifty refuse, the first word stands", 50, ((49, HELD), *others(50, 49, STALE)), HELD),
]


@pytest.mark.parametrize("case", AT_ONCE, ids=lambda case: case.name)
async def test_a_verdict_that_is_determined_is_told_at_once(patient: Hub, peers: Peers, case: Case) -> None:
    """The links' time is ten minutes here: nothing but the answers can have brought the verdict."""
    links = await linked(peers, patient, case.links)
    sender = await peers.client(patient.unix)
    asked = await sender.send("comm.file", {"from": "me", "to": "h", "text": "é\n\u2028"})
    offers = [await link.offer() for link in links]
    for offer in offers:
        assert offer.payload == {
            "from": "me", "to": "h", "text": "é\n\u2028", "broadcast": False, "forwarded": True,
        }  # fmt: skip
    assert len({offer.id for offer in offers}) <= 1, "one serialization serves every link"
    for number, payload in case.answers:
        await links[number].answer(offers[number], payload)
    assert await sender.answer_to(asked, "comm.file") == case.verdict


SILENT = [
    (1, (), "l0"),
    (2, (), "l0, l1"),
    (2, ((0, NOT_HERE),), "l1"),
    (50, others(50, 33), "l33"),
]


@pytest.mark.parametrize(("count", "answers", "named"), SILENT)
async def test_who_gave_no_answer_in_time_is_named(
    hasty: Hub, peers: Peers, count: int, answers: tuple[tuple[int, Json], ...], named: str
) -> None:
    links = await linked(peers, hasty, count)
    sender = await peers.client(hasty.ws)
    asked = await sender.send("comm.file", {"from": "me", "to": "h", "text": "t"})
    for number, payload in answers:
        await links[number].answer(await links[number].offer(), payload)
    assert await sender.answer_to(asked, "comm.file") == {
        "error": f"the daemon on {named} did not answer within {HASTY_LINK_TIME}; @h may still be filed",
        "code": "no_answer",
    }


async def test_a_refusal_stands_when_the_others_time_is_over(hasty: Hub, peers: Peers) -> None:
    links = await linked(peers, hasty, 3)
    sender = await peers.client(hasty.unix)
    asked = await sender.send("comm.file", {"from": "me", "to": "h", "text": "t"})
    await links[1].answer(await links[1].offer(), STALE)
    assert await sender.answer_to(asked, "comm.file") == STALE


async def test_the_default_time_of_a_link_is_3_s(default: Hub, peers: Peers) -> None:
    await peers.link(default.ws, "boxb")
    sender = await peers.client(default.unix)
    assert await sender.file("h") == {
        "error": "the daemon on boxb did not answer within 3s; @h may still be filed",
        "code": "no_answer",
    }


async def test_many_offers_are_out_at_once_and_each_gets_its_own_verdict(patient: Hub, peers: Peers) -> None:
    links = await linked(peers, patient, 2)
    senders = [await peers.client(patient.both[number % 2]) for number in range(20)]
    texts = [f"text {number}" for number in range(20)]
    asked = [
        await sender.send("comm.file", {"from": "me", "to": "h", "text": text})
        for sender, text in zip(senders, texts, strict=True)
    ]
    for link in links:
        for _ in range(20):
            offer = await link.offer()
            await link.answer(offer, {"error": f"{link.host} read {offer.payload['text']}", "code": "odd"})
    verdicts = await asyncio.gather(
        *(sender.answer_to(frame_id, "comm.file") for sender, frame_id in zip(senders, asked, strict=True))
    )
    assert [verdict["error"] for verdict in verdicts] == [f"l0 read {text}" for text in texts]


# With a hosts.toml: boxes that should hold a link


@pytest.fixture(scope="module")
def listed() -> Iterator[Hub]:
    """The file's order is zoe, ada, bob; ada, bob and zoe should link, eve may, the hub need not."""
    with Fleet(PATIENT) as fleet:
        hosts = fleet.folder / "hosts.toml"
        hosts.write_text(
            f'hub = "{HUB}"\n[host.zoe]\nfrontend = true\n[host.{HUB}]\ndaemon = true\nfrontend = true\n'
            "[host.ada]\nfrontend = true\n[host.eve]\n[host.bob]\nfrontend = true\n"
        )
        yield hub_in(fleet, hosts=hosts)


@pytest.mark.parametrize(
    ("up", "missing"),
    [
        ((), "zoe, ada, bob"),
        (("ada",), "zoe, bob"),
        (("bob", "zoe", "eve"), "ada"),
        (("ada", "bob", "zoe"), ""),
    ],
)
async def test_boxes_that_should_link_and_do_not_are_named_in_file_order(
    listed: Hub, peers: Peers, up: tuple[str, ...], missing: str
) -> None:
    for host in up:
        await peers.always(await peers.link(listed.both[len(host) % 2], host), NOT_HERE)
    sender = await peers.client(listed.unix)
    verdict: dict[str, Any] = await sender.file("h")
    assert verdict["code"] == "unknown_handle"
    assert verdict["error"] == (
        f"no linked box knows that handle: h; not linked: {missing}" if missing else UNKNOWN["error"]
    )
    await peers.close()
    listed.fleet.wait_linked(HUB, [])


async def test_silent_boxes_are_named_in_file_order_whoever_linked_first() -> None:
    with Fleet(HASTY) as fleet:
        hub = hub_in(fleet, hosts=fleet.hosts_file(HUB, ["zoe", "ada"]))
        async with open_peers() as peers:
            for host in ("ada", "zoe"):
                await peers.link(hub.unix, host)
            sender = await peers.client(hub.unix)
            assert await sender.file("h") == {
                "error": f"the daemon on zoe, ada did not answer within {HASTY_LINK_TIME}; "
                "@h may still be filed",
                "code": "no_answer",
            }


async def test_a_missing_box_does_not_hide_one_that_is_silent(listed: Hub, peers: Peers) -> None:
    """Rule 3 comes before rule 4. The silent link ends instead of using up ten minutes."""
    link = await peers.link(listed.ws, "ada")
    sender = await peers.client(listed.unix)
    asked = await sender.send("comm.file", {"from": "me", "to": "h", "text": "t"})
    await link.offer()
    await link.peer.close()
    verdict = await sender.answer_to(asked, "comm.file")
    assert verdict["code"] == "no_answer"
    assert verdict["error"] == "the daemon on ada did not answer within 601s; @h may still be filed"
