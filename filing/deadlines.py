"""One timer for any number of waits that are equally long."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Waiter = TypeVar("Waiter")


class Deadlines(Generic[Waiter]):
    """Calls `over(waiter)` on the loop, `wait_s` after each `add`, unless the waiter is `done` by then.

    All waits have one length, so they end in the order they began: a queue and one timer for its head cost
    less than a timer each, of which nearly all would be cancelled.
    """

    def __init__(
        self,
        wait_s: float,
        *,
        done: Callable[[Waiter], bool],
        over: Callable[[Waiter], None],
    ) -> None:
        self._wait_s = wait_s
        self._done = done
        self._over = over
        self._queue: deque[tuple[float, Waiter]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, waiter: Waiter) -> None:
        self._drop_done()
        self._queue.append((asyncio.get_running_loop().time() + self._wait_s, waiter))
        if self._timer is None:
            self._arm()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._queue.clear()

    def _drop_done(self) -> None:
        while self._queue and self._done(self._queue[0][1]):
            self._queue.popleft()

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_at(self._queue[0][0], self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._queue and self._queue[0][0] <= now:
            _, waiter = self._queue.popleft()
            if not self._done(waiter):
                self._over(waiter)
        self._drop_done()
        if self._queue:
            self._arm()
