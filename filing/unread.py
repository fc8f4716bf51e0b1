"""Which lines of an inbox are unread mail, and what a poll shows (PROTOCOL Message frame).

Directed mail counts: `to` is the handle, and `from` is not. A broadcast (`to` is ""), a line for another
handle, one with no `to` that is a text, and the handle's own are shown at the next poll and never counted.

Two arms read a line's JSON: the shell's, which the end-of-turn hook counts by, and the daemon's wake, which
is strict. They agree on every line that a product writer emits; on others the hook may count one that the
wake does not.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from filing.cursor import cursor_text, offset, parse_cursor
from filing.inbox_lines import InboxLines, holds_lone_surrogate, read_leniently, read_strictly

Arm: TypeAlias = Callable[[bytes, str], bool]


def counts_for_the_wake(line: bytes, handle: str) -> bool:
    members = read_strictly(line)
    return members is not None and _is_mail(members, handle)


def counts_for_the_shell(line: bytes, handle: str) -> bool:
    members = read_leniently(line)
    return members is not None and _counts_as_read(line, members, handle)


def _counts_as_read(line: bytes, members: dict[str, Any], handle: str) -> bool:
    # A NUL or a lone surrogate is not JSON to the wake, and the shell was made to agree.
    return _is_mail(members, handle) and b"\0" not in line and not holds_lone_surrogate(line, members)


def _is_mail(members: Mapping[str, Any], handle: str) -> bool:
    return members.get("to") == handle and members.get("from") != handle


@dataclass(frozen=True, slots=True)
class Unread:
    """`count` lines of unread mail among those behind the first `offset` of `total`."""

    total: int
    offset: int
    count: int


def unread(inbox: bytes | None, cursor: bytes | None, handle: str, counts: Arm) -> Unread:
    """`inbox` and `cursor`: the two files, None where there is none. `counts` is the arm."""
    lines = InboxLines.of(inbox or b"")
    shown = offset(parse_cursor(cursor), lines).lines
    return Unread(lines.total, shown, sum(counts(line, handle) for line in lines.after(shown)))


@dataclass(frozen=True, slots=True)
class ShownLine:
    """One inbox line as a poll prints it. `number` counts from 1 in the inbox."""

    number: int
    stamp: str
    sender: str
    repo: str
    text: str
    to: str = ""  # as the line says it; "" is a broadcast

    def __str__(self) -> str:
        return f"[{self.stamp}] [{self.sender}:{self.repo}] {self.text}"


@dataclass(frozen=True, slots=True)
class Polled:
    """What one poll has to show, from one reading of the inbox and its cursor."""

    shown: tuple[ShownLine, ...]
    not_shown: tuple[int, ...]  # the numbers of lines that hold no object; read like any other
    unread: int  # mail among the lines past the cursor, by the shell's arm
    total: int
    cut_back: bool  # the cursor's own line is gone: this poll began one line back
    half_line_bytes: int  # behind the last line, never shown
    cursor: str | None  # to be written once the lines are shown; None: it stays as it is


def poll(inbox: bytes | None, cursor: bytes | None, handle: str) -> Polled:
    """`inbox` and `cursor`: the two files as read once, None where there is none.

    The new cursor is made of the last line read here, whatever the file says later.
    """
    lines = InboxLines.of(inbox or b"")
    begin = offset(parse_cursor(cursor), lines)
    batch = lines.after(begin.lines)
    shown = []
    not_shown = []
    mail = 0
    for number, line in enumerate(batch, begin.lines + 1):
        members = read_leniently(line)
        if members is not None:
            shown.append(_shown(number, members))
            mail += _counts_as_read(line, members, handle)
        elif line:
            not_shown.append(number)
    return Polled(
        shown=tuple(shown),
        not_shown=tuple(not_shown),
        unread=mail,
        total=lines.total,
        cut_back=begin.cut_back,
        half_line_bytes=len(lines.half_line),
        cursor=cursor_text(lines.total, batch[-1]) if batch else None,
    )


def _shown(number: int, members: Mapping[str, Any]) -> ShownLine:
    return ShownLine(
        number=number,
        stamp=_first_text(members, "ts"),
        sender=_first_text(members, "from"),
        repo=_first_text(members, "repo"),
        text=_first_text(members, "msg", "message", "text"),  # the last two are older writers'
        to=_first_text(members, "to"),
    )


def _first_text(members: Mapping[str, Any], *keys: str) -> str:
    """The first member that is there, null and false being as good as absent; what is no text, as JSON."""
    for key in keys:
        value = members.get(key)
        if value is not None and value is not False:
            text = value if isinstance(value, str) else _as_json(value)
            # A lone surrogate cannot be printed; it reads as U+FFFD.
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return ""


def _as_json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:  # nested about as deep as the parser bears
        return "(a value nested too deeply to show)"
