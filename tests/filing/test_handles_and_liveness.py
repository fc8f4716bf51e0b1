from typing import Any

import pytest

from filing.handles import is_handle
from filing.liveness import heartbeat_fresh, utc_stamp
from tests.filing.support import case_name, table


@pytest.mark.parametrize("case", table("names", "handle"), ids=lambda case: repr(case["handle"][:20]))
def test_a_handle_is_1_to_64_plain_characters(case: dict[str, Any]) -> None:
    assert is_handle(case["handle"]) is case["valid"]


@pytest.mark.parametrize("case", table("heartbeat", "cases"), ids=case_name)
def test_the_heartbeat_rule_of_the_shell(case: dict[str, Any]) -> None:
    assert heartbeat_fresh(case.get("last_seen"), case["now"]) is case["live"]


def test_a_fraction_of_a_second_does_not_make_a_stamp_older() -> None:
    assert heartbeat_fresh("2026-09-21T14:03:21Z", 1790000000.999)
    assert utc_stamp(1790000000.999) == "2026-09-21T14:13:20Z"


def test_how_long_a_stamp_lives_can_be_set() -> None:
    assert not heartbeat_fresh("2026-09-21T14:13:10Z", 1790000000, live_secs=10)
    assert heartbeat_fresh("2026-09-21T14:13:11Z", 1790000000, live_secs=10)
