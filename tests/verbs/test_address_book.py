"""What is said when the registry cannot be read, and what bounds the wait for its lock."""

import pytest

from filing.registry_lock import RULED_WAIT_S
from verbs.address_book import FailedError, Fault, fault_in, lock_wait_s

GOOD = b'{\n "agents": {}\n}\n'
FAULTS = [
    (b'{\n "agents": {\n  "a": 1,\n }\n}', Fault("a comma stands before the closing }", 3)),
    (b'{\n "agents": {"a": [1,\n\n ]}\n}', Fault("a comma stands before the closing ]", 2)),
    (b'{\n "agents": {"a": 1}\n "x": 2}', Fault("it is not JSON: expecting ',' delimiter", 3)),
    (b'{"agents": {}}\n{"agents": {}}', Fault("it goes on after its document", 2)),
    (b'{\n "agents": {\n', Fault("it is not JSON: expecting property name enclosed in double quotes", 3)),
    (b'{"agents": {}, "x": "\n"}', Fault("it is not JSON: invalid control character at", 1)),
    (
        b'\xef\xbb\xbf{"agents": {}}',
        Fault("it is not JSON: unexpected UTF-8 BOM (decode using utf-8-sig)", 1),
    ),
    (b'{\n"agents": "\xff"}', Fault("it is not UTF-8 at byte 13", 2)),
    (b'{"agents": {}, "x": NaN}', Fault("it holds NaN")),
    (b'{"agents": {}, "x": ' + b"[" * 200 + b"]" * 200 + b"}", Fault("it nests deeper than 127")),
    (b'{"agents": {}, "x": ' + b"9" * 5000 + b"}", Fault("it holds a number out of range")),
    (b"[]", Fault("it has no object .agents")),
    (b'{"agents": []}', Fault("it has no object .agents")),
    (b"", Fault("it is empty")),
    (b" \n", Fault("it is empty")),
]


@pytest.mark.parametrize(("data", "fault"), FAULTS, ids=[repr(fault) for _, fault in FAULTS])
def test_a_fault_is_told_with_its_line(data: bytes, fault: Fault) -> None:
    assert fault_in(data) == fault


def test_a_registry_has_no_fault() -> None:
    assert fault_in(GOOD) is None


@pytest.mark.parametrize(("text", "wait_s"), [("", RULED_WAIT_S), ("0", 0), ("2.5", 2.5), ("3600", 3600)])
def test_the_wait_for_the_lock_is_ten_seconds_or_what_is_set(text: str, wait_s: float) -> None:
    assert lock_wait_s({"SOT_LOCK_WAIT_SECS": text}) == wait_s
    assert lock_wait_s({}) == RULED_WAIT_S == 10


@pytest.mark.parametrize("text", ["-1", "soon", "nan", "inf", "3601"])
def test_a_wait_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(FailedError, match=r"SOT_LOCK_WAIT_SECS is .*; it takes a number from 0 to 3600"):
        lock_wait_s({"SOT_LOCK_WAIT_SECS": text})
