"""comm.file at the hub: its own folder, then one offer or forward, inside the sender's window (WIRE 5)."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from filing import outcome
from filing.filer import Filer, FileRequest
from filing.outcome import FILED, Outcome, Refused
from filing.verdict import Forward
from hub.mail import MailDesk
from hub.offers import Offers
from hub.roster import Roster
from tests.support.sessions import Clock, fake_clock, res, sent_to, session_of
from wire.payloads import BadPayloadError, CommFile
from wire.session import Session

OK = {"ok": True}
LOCK_WAIT_S, OFFER_S, WINDOW_S = 2.0, 3.0, 5.0


class ScriptedFiler:
    """A folder that says what it is told to say, when it is told to."""

    def __init__(self) -> None:
        self.says: Outcome | Forward = outcome.not_here("h")
        self.asked: list[FileRequest] = []
        self.go = asyncio.Event()
        self.go.set()

    async def file(self, request: FileRequest) -> Outcome | Forward:
        self.asked.append(request)
        await self.go.wait()
        return self.says


class Desk:
    """A desk with one linked box, and what it asked of the hub's hub."""

    def __init__(self, max_filings: int = 1024) -> None:
        self.filer = ScriptedFiler()
        self.link = session_of("box")
        self.forwarded: list[CommFile] = []
        roster = Roster()
        assert self.link.hello is not None
        roster.add(self.link, self.link.hello)
        self.offers = Offers(itertools.count(1), wait_s=OFFER_S, in_file_order=sorted)
        self.desk = MailDesk(
            cast("Filer", self.filer),
            self.offers,
            roster,
            should_hold=(),
            forward=self.forward,
            window_s=WINDOW_S,
            max_filings=max_filings,
        )
        self.sender: Session = session_of("sender")

    async def forward(self, request: CommFile) -> Outcome:
        self.forwarded.append(request)
        return Refused("made_up", "the other hub's own words")

    def send(self, **members: Any) -> Any:
        return self.desk.comm_file(self.sender, {"from": "me", "to": "h", "text": "t", **members})

    async def sent(self, **members: Any) -> "asyncio.Task[Any]":
        task: asyncio.Task[Any] = asyncio.ensure_future(self.send(**members))
        for _ in range(5):
            await asyncio.sleep(0)
        return task


@pytest.fixture
async def clock() -> AsyncIterator[Clock]:
    with fake_clock() as clock:
        yield clock


@pytest.mark.parametrize(
    "own", [FILED, outcome.no_live_session("h"), outcome.lock_held("h", 2), outcome.bad_handle("a b")]
)
async def test_the_own_folders_word_is_the_last_but_for_not_here(own: Outcome) -> None:
    desk = Desk()
    desk.filer.says = own
    assert await (await desk.sent()) == outcome.as_payload(own)
    assert sent_to(desk.link) == []


async def test_what_is_not_here_is_offered() -> None:
    desk = Desk()
    task = await desk.sent(broadcast=True)
    (frame,) = sent_to(desk.link)
    assert frame["payload"] == {"from": "me", "to": "h", "text": "t", "broadcast": True, "forwarded": True}
    desk.offers.answered(desk.link, res(frame["id"], OK))
    assert await task == OK


@pytest.mark.parametrize("own", [outcome.not_here("h"), FILED])
async def test_a_request_that_came_forwarded_is_never_offered(own: Outcome) -> None:
    desk = Desk()
    desk.filer.says = own
    assert await (await desk.sent(forwarded=True)) == outcome.as_payload(own)
    assert sent_to(desk.link) == []
    assert desk.filer.asked[0].forwarded


async def test_a_guests_request_is_forwarded_and_the_verdict_is_the_other_hubs() -> None:
    desk = Desk()
    desk.filer.says = Forward()
    assert await (await desk.sent()) == {"error": "the other hub's own words", "code": "made_up"}
    assert [request.to for request in desk.forwarded] == ["h"]
    assert sent_to(desk.link) == []


@pytest.mark.parametrize("own", [outcome.not_here("h"), Forward()])
async def test_a_text_past_the_cap_is_refused_before_anybody_is_asked(own: Outcome | Forward) -> None:
    desk = Desk()
    desk.filer.says = own
    assert (await (await desk.sent(text="x" * 1_048_500)))["code"] == "too_large"
    assert desk.forwarded == []
    assert sent_to(desk.link) == []


@pytest.mark.parametrize(("late_s", "asked"), [(0, True), (1.7, True), (1.8, False), (60, False)])
@pytest.mark.parametrize("own", [outcome.not_here("h"), Forward()])
async def test_who_could_not_be_given_their_time_inside_the_window_is_not_asked(
    clock: Clock, late_s: float, asked: bool, own: Outcome | Forward
) -> None:
    """The window is 5 s and a link's time 3 s; what is left but 0.25 s may go by before the offer."""
    desk = Desk()
    desk.filer.says = own
    desk.filer.go.clear()
    task = await desk.sent()
    clock.skip(late_s)
    desk.filer.go.set()
    if not asked:
        assert (await task)["code"] == "busy"
        assert sent_to(desk.link) == []
        assert desk.forwarded == []
    elif isinstance(own, Forward):
        assert (await task)["code"] == "made_up"
    else:
        for _ in range(5):
            await asyncio.sleep(0)
        clock.skip(OFFER_S + 0.01)
        assert (await task)["code"] == "no_answer"
    assert desk.desk.in_flight == 0


async def test_the_window_opens_when_the_request_comes_not_when_its_task_starts(clock: Clock) -> None:
    desk = Desk()
    work = desk.send()
    clock.skip(10)  # a loop that was busy elsewhere
    assert (await work)["code"] == "busy"


async def test_a_folders_own_verdict_stands_however_late_it_is(clock: Clock) -> None:
    desk = Desk()
    desk.filer.says = FILED
    desk.filer.go.clear()
    task = await desk.sent()
    clock.skip(4.9)
    desk.filer.go.set()
    assert await task == OK


async def test_past_max_filings_nothing_is_tried() -> None:
    desk = Desk(max_filings=2)
    desk.filer.go.clear()
    waiting = [await desk.sent() for _ in range(2)]
    refused = desk.send()
    assert refused["code"] == "busy"
    assert "2 filings in flight" in refused["error"]
    assert len(desk.filer.asked) == 2
    desk.filer.says = FILED
    desk.filer.go.set()
    assert await asyncio.gather(*waiting) == [OK, OK]
    assert await desk.send() == OK


async def test_a_filing_that_is_cancelled_gives_its_place_back() -> None:
    desk = Desk(max_filings=1)
    desk.filer.go.clear()
    task = await desk.sent()
    task.cancel()
    await asyncio.wait([task])
    assert desk.desk.in_flight == 0


async def test_while_draining_nothing_new_is_tried() -> None:
    desk = Desk()
    desk.desk.draining = True
    assert desk.send() == {"error": "this hub is shutting down; nothing was filed", "code": "busy"}


def test_a_payload_that_does_not_fit_is_told_before_anything_else() -> None:
    async def main() -> None:
        desk = Desk(max_filings=1)
        with pytest.raises(BadPayloadError, match="'to'"):
            desk.send(to=5)
        assert desk.desk.in_flight == 0

    asyncio.run(main())
