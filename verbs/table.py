"""A table of texts that strangers wrote, for a terminal or a file. Pure."""

import unicodedata
from collections.abc import Sequence

from filing.value import Value

GAP = "  "
_CUT = "…"


class Cell(Value):
    """`text` is clean. `colour` is the number of an SGR code, 0 for none."""

    text: str
    colour: int = 0


def clean(text: str) -> str:
    """Return `text` on one line, with nothing in it that moves a cursor, rings, colours or turns a line
    around.
    """
    shown = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(shown.split())


def width(text: str) -> int:
    """Return how many columns a terminal gives a clean text."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) == "Mn":
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def fit(text: str, columns: int) -> str:
    """Cut a clean text to at most `columns`, with an ellipsis as its last sign where something is cut off."""
    if width(text) <= columns:
        return text
    kept, left = "", columns - 1
    for character in text:
        left -= _columns(character)
        if left < 0:
            break
        kept += character
    return kept.rstrip() + _CUT if columns > 0 else ""


def lines(rows: Sequence[Sequence[Cell]], columns: int | None, *, coloured: bool) -> list[str]:
    """Lay the rows out, each column as wide as its widest cell, and cut at `columns` (None: nowhere)."""
    widths = [max(width(cell.text) for cell in column) for column in zip(*rows, strict=True)]
    return [_line(row, widths, columns, coloured=coloured) for row in rows]


def _line(row: Sequence[Cell], widths: Sequence[int], columns: int | None, *, coloured: bool) -> str:
    line, padding, left = "", "", columns
    for cell, wide in zip(row, widths, strict=True):
        text = cell.text
        if left is not None:
            text = fit(text, left - len(padding))
        if text:
            left = None if left is None else left - len(padding) - width(text)
            line += padding + (f"\x1b[{cell.colour}m{text}\x1b[0m" if coloured and cell.colour else text)
            padding = ""
        padding += " " * (wide - width(text)) + GAP
    return line
