"""The delays between two dials: full jitter under a ceiling that doubles from 1 s to 30 s (WIRE 6)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from link.backoff import Backoff

ALMOST_ONE = 0.9999999


@pytest.mark.parametrize(
    ("failures", "ceiling_s"),
    [(0, 1), (1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 30), (7, 30), (100, 30), (10**9, 30)],
)
def test_the_ceiling_doubles_from_1_s_to_30_s(failures: int, ceiling_s: float) -> None:
    backoff = Backoff(failures)
    assert backoff.delay_s(0.0) == 0
    assert backoff.delay_s(0.5) == ceiling_s / 2
    assert backoff.delay_s(ALMOST_ONE) == pytest.approx(ceiling_s)


@pytest.mark.parametrize(("lasted_s", "failures"), [(0, 6), (59.9, 6), (60, 1), (3600, 1)])
def test_a_connection_that_lasted_60_s_starts_the_delays_afresh(lasted_s: float, failures: int) -> None:
    assert Backoff(5).after(lasted_s) == Backoff(failures)


@given(chance=st.floats(0, 1, exclude_max=True), failures=st.integers(0, 10**6))
def test_what_dialling_sooner_cannot_mend_waits_the_whole_cap(chance: float, failures: int) -> None:
    assert Backoff(failures).delay_s(chance, at_cap=True) == 30


@given(
    chances=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=40),
    lasted=st.lists(st.floats(0, 100), min_size=40, max_size=40),
)
def test_no_delay_ever_passes_the_cap_or_its_own_ceiling(chances: list[float], lasted: list[float]) -> None:
    backoff, in_a_row = Backoff(), 0
    for chance, lasted_s in zip(chances, lasted, strict=False):
        backoff = backoff.after(lasted_s)
        in_a_row = 1 if lasted_s >= 60 else in_a_row + 1
        assert 0 <= backoff.delay_s(chance) <= min(30, 2 ** (in_a_row - 1))


@given(
    failures=st.integers(0, 50), low=st.floats(0, 1, exclude_max=True), high=st.floats(0, 1, exclude_max=True)
)
def test_a_larger_chance_never_waits_less(failures: int, low: float, high: float) -> None:
    low, high = sorted((low, high))
    assert Backoff(failures).delay_s(low) <= Backoff(failures).delay_s(high)
