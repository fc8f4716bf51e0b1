"""A value is what a frozen dataclass is, for a fraction of its making."""

import pytest

from filing.value import Value


class Point(Value):
    x: int
    y: int = 0


class Other(Value):
    x: int
    y: int = 0


def test_equal_by_class_and_fields() -> None:
    assert Point(1) == Point(x=1, y=0)
    assert hash(Point(1)) == hash(Point(1, 0))
    assert Point(1) != Point(2)
    assert Point(1) != Other(1)
    assert repr(Point(1)) == "Point(x=1, y=0)"


def test_fields_match_by_place_and_by_name() -> None:
    match Point(1, 2):
        case Point(x, y=y):
            assert (x, y) == (1, 2)


def test_nothing_is_changed_or_left_out() -> None:
    with pytest.raises(AttributeError, match="not changed"):
        Point(1).x = 2  # type: ignore[misc]  # what the type checker sees too
    with pytest.raises(TypeError, match="needs x"):
        Point(y=1)  # type: ignore[call-arg]  # what the type checker sees too
