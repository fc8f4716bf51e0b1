"""One offer to many links: written at once, folded as answers come, and forgotten when it is over."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence

import pytest

from filing.outcome import FILED, Outcome, Refused
from hub.offers import Offers, refuse_if_too_large
from hub.roster import Link
from tests.support.sessions import Clock, fake_clock, res, sent_to, session_of
from wire.payloads import CommFile, fit

OK = {"ok": True}
NOT_HERE = {"error": "no box knows that handle: h", "code": "not_here"}
STALE = {"error": "no live session holds @h", "code": "no_live_session"}
UNKNOWN = Refused("unknown_handle", "no box knows that handle: h")


def request(text: str = "t") -> CommFile:
    return fit(CommFile, {"from": "me", "to": "h", "text": text})


def links_of(*hosts: str) -> list[Link]:
    links = []
    for host in hosts:
        session = session_of(host)
        assert session.hello is not None
        links.append(Link(host, session, session.hello, "2026-01-01T00:00:00Z"))
    return links


@pytest.fixture
def offers() -> Offers:
    return Offers(itertools.count(7), wait_s=3, in_file_order=sorted)


@pytest.fixture
async def clock() -> AsyncIterator[Clock]:
    with fake_clock() as clock:
        yield clock


async def started(offers: Offers, links: Sequence[Link]) -> "asyncio.Task[Outcome]":
    task = asyncio.ensure_future(offers.offer(request(), links, []))
    await asyncio.sleep(0)  # it has written to every link now
    return task


async def test_every_link_gets_the_same_frame_before_any_answer(offers: Offers) -> None:
    links = links_of("a", "b")
    task = await started(offers, links)
    frames = [frame for link in links for frame in sent_to(link.session)]
    assert frames[0] == frames[1]
    assert frames[0] == {
        "v": 1, "id": 7, "kind": "req", "op": "comm.file",
        "payload": {"from": "me", "to": "h", "text": "t", "broadcast": False, "forwarded": True},
    }  # fmt: skip
    assert [link.offers for link in links] == [1, 1]
    offers.answered(links[1].session, res(7, OK))
    assert await task == FILED
    assert [link.filed for link in links] == [0, 1]


async def test_nobody_linked_is_answered_without_an_offer(offers: Offers) -> None:
    assert await offers.offer(request(), [], []) == UNKNOWN
    assert await offers.offer(request(), [], ["z"]) == Refused(
        "unknown_handle", "no linked box knows that handle: h; not linked: z"
    )
    (link,) = links_of("a")
    task = await started(offers, [link])
    offers.answered(link.session, res(7, OK))
    assert await task == FILED, "they used up no id"


async def test_an_answer_counts_by_id_op_and_link(offers: Offers) -> None:
    (link, other), (stranger,) = links_of("a", "b"), links_of("c")
    task = await started(offers, [link])
    offers.answered(link.session, res(8, OK))
    offers.answered(link.session, res(7, OK, op="ping"))
    offers.answered(other.session, res(7, OK))
    offers.answered(stranger.session, res(7, OK))
    await asyncio.sleep(0)
    assert not task.done()
    offers.answered(link.session, res(7, STALE))
    assert await task == Refused("no_live_session", STALE["error"])


async def test_the_deadline_is_the_links_time(offers: Offers, clock: Clock) -> None:
    a, b = links_of("a", "b")
    task = await started(offers, [a, b])
    offers.answered(a.session, res(7, NOT_HERE))
    clock.skip(2.9)
    await asyncio.sleep(0)
    assert not task.done()
    clock.skip(0.2)
    assert await task == Refused(
        "no_answer", "the daemon on b did not answer within 3s; @h may still be filed"
    )


async def test_late_and_second_answers_are_counted_and_change_nothing(offers: Offers, clock: Clock) -> None:
    (link,) = links_of("a")
    task = await started(offers, [link])
    clock.skip(3.1)
    await task
    offers.answered(link.session, res(7, OK))
    offers.answered(link.session, res(7, OK))
    offers.answered(link.session, res(9999, OK))  # an id that was never offered
    assert offers.late_answers == 2
    assert link.filed == 0


async def test_a_link_that_ends_settles_every_offer_that_waited_for_it(offers: Offers) -> None:
    a, b = links_of("a", "b")
    first, second = await started(offers, [a]), await started(offers, [a, b])
    offers.link_ended(a.session)
    assert isinstance(await first, Refused)
    assert not second.done()
    offers.answered(b.session, res(8, NOT_HERE))
    verdict = await second
    assert isinstance(verdict, Refused)
    assert verdict.code == "no_answer"
    assert verdict.sentence.startswith("the daemon on a did")


@pytest.mark.parametrize("how", ["ok", "ended", "deadline", "cancelled"])
async def test_nothing_of_an_offer_is_kept_once_it_is_over(offers: Offers, clock: Clock, how: str) -> None:
    (link,) = links_of("a")
    task = await started(offers, [link])
    match how:
        case "ok":
            offers.answered(link.session, res(7, OK))
        case "ended":
            offers.link_ended(link.session)
        case "deadline":
            clock.skip(3.1)
        case _:
            task.cancel()
    await asyncio.wait([task])
    assert offers._open == {}
    offers.link_ended(link.session)
    clock.skip(10)
    await asyncio.sleep(0)


async def test_an_answer_and_the_end_in_one_turn_of_the_loop_settle_it_once(offers: Offers) -> None:
    (link,) = links_of("a")
    task = await started(offers, [link])
    offers.answered(link.session, res(7, OK))
    offers.answered(link.session, res(7, STALE))
    offers.link_ended(link.session)
    assert await task == FILED


def test_too_large_is_judged_with_the_longest_id() -> None:
    empty = len('{"v":1,"id":9223372036854775807,"kind":"req","op":"comm.file","payload":') + len(
        '{"from":"me","to":"h","text":"","broadcast":false,"forwarded":true}}'
    )
    room = 1_048_575 - empty
    assert refuse_if_too_large(request("x" * room)) is None
    refused = refuse_if_too_large(request("x" * (room + 1)))
    assert refused is not None
    assert refused.code == "too_large"
    assert "1048576" in refused.sentence
    assert "1048575" in refused.sentence
    assert refuse_if_too_large(request("\n" * (room // 2 + 1))) is not None, "an escape counts as written"
    assert refuse_if_too_large(request("é" * (room // 2))) is None
