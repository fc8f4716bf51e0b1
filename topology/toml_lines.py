"""On which line each header and key of a TOML text stands.

tomli says what a text means and gives no lines; this walk says where things stand and gives no values. It is
made for text that tomli takes; on other text it yields what comes before the trouble and may raise
ValueError.
"""

from collections.abc import Iterator
from dataclasses import dataclass

_BLANK = frozenset(" \t\r\n")


@dataclass(frozen=True, slots=True)
class Header:
    """A `[table]` line, or with `array` an `[[array of tables]]` line; `parts` is its name, split at dots."""

    line: int
    parts: tuple[str, ...]
    array: bool


@dataclass(frozen=True, slots=True)
class Key:
    """The left side of a `key = value`; `parts` has more than one member for a dotted key."""

    line: int
    parts: tuple[str, ...]


def entries(text: str) -> Iterator[Header | Key]:
    """Yield the headers and keys of `text` in order; the keys inside an inline table are part of a value.

    Raises ValueError where the text is not TOML, RecursionError for a key that tomli finds too long.
    """
    at, line = 0, 1
    while True:
        start = _skip_blank(text, at)
        line += text.count("\n", at, start)
        if start == len(text):
            return
        if text[start] == "[":
            array = text.startswith("[[", start)
            name = start + 1 + array
            end = _find(text, name, "]")
            yield Header(line, _parts(text[name:end]), array)
            at = end + 1 + array
        else:
            end = _find(text, start, "=")
            yield Key(line, _parts(text[start:end]))
            at = _value_end(text, end + 1)
        line += text.count("\n", start, at)


def _parts(name: str) -> tuple[str, ...]:
    """Split a key as tomli reads it: quotes, escapes and spaces around the dots are its business."""
    import tomli

    parts = []
    value: object = tomli.loads(f"{name} = 0")
    while isinstance(value, dict):
        ((part, value),) = value.items()
        parts.append(part)
    return tuple(parts)


def _skip_blank(text: str, at: int) -> int:
    while at < len(text):
        if text[at] == "#":
            at = _line_end(text, at)
        elif text[at] in _BLANK:
            at += 1
        else:
            break
    return at


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _find(text: str, at: int, mark: str) -> int:
    """Return where `mark` stands on this line outside quotes."""
    while at < len(text) and text[at] != "\n":
        if text[at] == mark:
            return at
        at = _string_end(text, at) if text[at] in "\"'" else at + 1
    raise ValueError(f"no {mark} on this line")


def _value_end(text: str, at: int) -> int:
    """Return where the line ends that a value ends on: brackets and multi-line strings carry it on."""
    depth = 0
    while at < len(text):
        char = text[at]
        if char == "\n" and depth <= 0:
            break
        if char in "\"'":
            at = _string_end(text, at)
        elif char == "#":
            at = _line_end(text, at)
        else:
            depth += (char in "[{") - (char in "]}")
            at += 1
    return at


def _string_end(text: str, at: int) -> int:
    """Return what comes after the string of any of the four kinds that begins here."""
    quote = text[at]
    mark = quote * 3 if text.startswith(quote * 3, at) else quote
    at += len(mark)
    while not text.startswith(mark, at):
        at += 2 if quote == '"' and text.startswith("\\", at) else 1
        if at >= len(text):
            raise ValueError("a string without an end")
    at += len(mark)
    if len(mark) == 3:
        # One or two quotes may stand before the closing three; they were taken for part of them.
        for _ in range(2):
            at += text.startswith(quote, at)
    return at
