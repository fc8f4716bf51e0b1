"""An inbox's bytes as lines, and one line as JSON, read in two ways (PROTOCOL Message frame).

Lines end at LF and nowhere else, and only a line that has its LF is one: what follows the last LF is a
writer's unfinished work. U+2028 and U+0085 are text.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from filing.strict_json import NotStrictJsonError, parse_strict

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_NUL: Final = b"\0"
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_MAX_DIGITS: Final = 300  # int() refuses a text of thousands, and the largest double has 309


@dataclass(frozen=True, slots=True)
class InboxLines:
    """The finished lines of `data`, numbered from 1. Cut only where asked: an inbox is never shortened."""

    data: bytes
    total: int

    @classmethod
    def of(cls, data: bytes) -> "InboxLines":
        return cls(data, data.count(b"\n"))

    @property
    def half_line(self) -> bytes:
        """What stands behind the last LF, b"" as a rule."""
        return self.data[self.data.rfind(b"\n") + 1 :]

    def line(self, number: int) -> bytes:
        """Line `number`, of 1 to `total`, without its LF."""
        start = self._end_of(number - 1)
        return self.data[start : self.data.index(b"\n", start)]

    def after(self, number: int) -> list[bytes]:
        """The lines behind line `number`, each without its LF."""
        end = self.data.rfind(b"\n") + 1
        return self.data[self._end_of(number) : end].split(b"\n")[:-1]

    def _end_of(self, number: int) -> int:
        """The index behind the LF of line `number`, sought from the nearer end: mostly, all but a few lines
        are read.
        """
        if number * 2 <= self.total:
            index = 0
            for _ in range(number):
                index = self.data.index(b"\n", index) + 1
            return index
        index = len(self.data)
        for _ in range(self.total - number + 1):
            index = self.data.rindex(b"\n", 0, index)
        return index + 1


def read_leniently(line: bytes) -> dict[str, Any] | None:
    """The line's object as the shell's `jq` reads it, or None: for what is shown, and for what it counts.

    Beyond strict JSON it takes a byte-order mark, NaN and Infinity, numbers out of range and any nesting the
    parser bears; invalid UTF-8 reads as U+FFFD, and NULs are dropped, as a shell variable drops them.
    """
    text = line.translate(None, _NUL).removeprefix(_BYTE_ORDER_MARK).decode("utf-8", "replace")
    try:
        value = _LENIENT.decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_strictly(line: bytes) -> dict[str, Any] | None:
    """The line's object as the daemon reads it (`strict_json`), or None."""
    try:
        value = parse_strict(line)
    except NotStrictJsonError:
        return None
    return value if isinstance(value, dict) else None


def holds_lone_surrogate(line: bytes, value: dict[str, Any]) -> bool:
    """Half of an escaped pair without the other, which no JSON text should hold. `value`: the line, read."""
    if _SURROGATE_ESCAPE.search(line.decode("latin-1")) is None:
        return False
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (UnicodeEncodeError, RecursionError):
        return True
    return False


def _any_whole(text: str) -> int | float:
    return int(text) if len(text) < _MAX_DIGITS else float(text)


_LENIENT: Final = json.JSONDecoder(parse_int=_any_whole)
