"""Laying strangers' texts out in columns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verbs.table import Cell, clean, fit, lines, width


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("  a \n b\t\tc ", "a b c"),
        ("\x1b[31mred\x1b]0;title\x07", "[31mred ]0;title"),
        ("a\u202eb\u2066c\u200bd", "a b c d"),  # turned around, and spread by nothing
        ("a\u2028b\u0085c\x9bd", "a b c d"),
        ("\ud800", ""),
        ("héllo 漢字", "héllo 漢字"),
    ],
)
def test_nothing_of_a_text_acts_on_a_terminal(text: str, shown: str) -> None:
    assert clean(text) == shown


@pytest.mark.parametrize(("text", "columns"), [("abc", 3), ("漢字", 4), ("e\u0301", 1), ("", 0), ("é", 1)])
def test_a_text_has_the_width_a_terminal_gives_it(text: str, columns: int) -> None:
    assert width(text) == columns


@pytest.mark.parametrize(
    ("text", "columns", "cut"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("a bcd", 3, "a…"),
        ("漢字漢", 5, "漢字…"),
        ("漢字漢", 4, "漢…"),
        ("abc", 1, "…"),
        ("abc", 0, ""),
        ("abc", -4, ""),
    ],
)
def test_what_does_not_fit_ends_in_an_ellipsis(text: str, columns: int, cut: str) -> None:
    assert fit(text, columns) == cut


@given(st.text(), st.integers(-3, 30))
def test_a_cut_text_never_passes_its_columns(text: str, columns: int) -> None:
    assert width(fit(clean(text), columns)) <= max(columns, 0)


ROWS = [[Cell("a", 1), Cell("b"), Cell("cc")], [Cell("long"), Cell(""), Cell("漢字 end", 31)]]


def test_columns_are_aligned_and_no_line_has_a_tail_of_spaces() -> None:
    assert lines(ROWS, None, coloured=False) == ["a     b  cc", "long     漢字 end"]
    assert lines([[Cell("a"), Cell("")]], None, coloured=False) == ["a"]
    assert lines([], None, coloured=True) == []


def test_colours_take_no_columns() -> None:
    assert lines(ROWS, 11, coloured=True) == [
        "\x1b[1ma\x1b[0m     b  cc",
        "long     \x1b[31m…\x1b[0m",
    ]
    assert lines(ROWS, 3, coloured=False) == ["a", "lo…"]


@given(
    st.lists(st.lists(st.text().map(clean).map(Cell), min_size=3, max_size=3), min_size=1), st.integers(1, 40)
)
def test_no_line_is_wider_than_the_terminal(rows: list[list[Cell]], columns: int) -> None:
    assert all(width(line) <= columns for line in lines(rows, columns, coloured=False))
