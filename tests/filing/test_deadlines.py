import asyncio

from filing.deadlines import Deadlines


class Wait:
    def __init__(self) -> None:
        self.done = False


async def test_each_wait_is_over_once_and_a_done_one_never() -> None:
    over: list[Wait] = []
    all_over = asyncio.Event()

    def note(wait: Wait) -> None:
        over.append(wait)
        if len(over) == 2:
            all_over.set()

    deadlines: Deadlines[Wait] = Deadlines(0.01, done=lambda wait: wait.done, over=note)
    first, second, third = Wait(), Wait(), Wait()
    for wait in (first, second, third):
        deadlines.add(wait)
    second.done = True
    await all_over.wait()
    assert over == [first, third]


async def test_a_wait_added_after_others_ended_is_over_too() -> None:
    over = asyncio.Event()
    deadlines: Deadlines[Wait] = Deadlines(0.01, done=lambda wait: wait.done, over=lambda _: over.set())
    deadlines.add(Wait())
    await over.wait()
    over.clear()
    deadlines.add(Wait())
    await over.wait()


async def test_closed_nothing_is_over_any_more() -> None:
    over: list[Wait] = []
    deadlines: Deadlines[Wait] = Deadlines(0.0, done=lambda wait: wait.done, over=over.append)
    deadlines.add(Wait())
    deadlines.close()
    await asyncio.sleep(0.01)
    assert over == []
