"""The fold: many links' answers to one offer become one verdict (PROTOCOL Delivery route 2, WIRE section 5).

Pure: what happened goes in, the verdict comes out at the first moment it is determined. No clock and no
socket.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from filing import outcome
from filing.outcome import Filed, Outcome, Refused, read_answer


class Fold:
    """The state of one offer. Each event returns the verdict if it is the one that determines it, else None.

    `asked` maps each link that the offer went to onto its host. A link counts once: by its first answer, by
    its end, or by the deadline, whichever came first; whatever comes after the verdict changes nothing.
    """

    __slots__ = (
        "_handle",
        "_in_file_order",
        "_not_linked",
        "_refusal",
        "_silent",
        "_wait_s",
        "_waiting",
        "verdict",
    )

    def __init__(
        self,
        handle: str,
        asked: Mapping[Hashable, str],
        *,
        not_linked: Sequence[str],
        wait_s: float,
        in_file_order: Callable[[Iterable[str]], list[str]] = sorted,
    ) -> None:
        """`not_linked`: boxes that should hold a link and hold none now, in file order. `wait_s`: a link's
        time.
        """
        self.verdict: Outcome | None = None
        self._handle = handle
        self._waiting = dict(asked)
        self._not_linked = not_linked
        self._wait_s = wait_s
        self._in_file_order = in_file_order
        self._refusal: Refused | None = None
        self._silent: list[str] = []
        self._settle_if_nobody_is_left()

    def waits_for(self, link: Hashable) -> bool:
        """Tell whether this link may still change the verdict."""
        return self.verdict is None and link in self._waiting

    def answered(self, link: Hashable, payload: Mapping[str, Any]) -> Outcome | None:
        """Take a link's first answer."""
        if not self.waits_for(link):
            return None
        answer = read_answer(self._waiting.pop(link), payload)
        match answer:
            case Filed():
                self.verdict = answer
                return answer
            case Refused(code=outcome.NOT_HERE):
                pass
            case Refused():
                self._refusal = self._refusal or answer
        return self._settle_if_nobody_is_left()

    def ended(self, link: Hashable) -> Outcome | None:
        """Take the end of a link's connection, or of its time, before it answered."""
        if not self.waits_for(link):
            return None
        self._silent.append(self._waiting.pop(link))
        return self._settle_if_nobody_is_left()

    def out_of_time(self) -> Outcome | None:
        """Take the deadline of every link that has not answered."""
        if self.verdict is not None:
            return None
        self._silent.extend(self._waiting.values())
        self._waiting.clear()
        return self._settle_if_nobody_is_left()

    def _settle_if_nobody_is_left(self) -> Outcome | None:
        if self._waiting:
            return None
        if self._refusal is not None:
            self.verdict = self._refusal
        elif self._silent:
            hosts = self._in_file_order(dict.fromkeys(self._silent))
            self.verdict = outcome.no_answer(hosts, self._wait_s, self._handle)
        else:
            self.verdict = outcome.unknown_handle(self._handle, self._not_linked)
        return self.verdict
