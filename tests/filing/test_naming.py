"""A handle is derived from the project folder and the box, in three tiers, and takes nobody's name."""

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filing.handles import is_handle
from filing.naming import (
    FRESH,
    RECLAIM,
    Derived,
    NoHandle,
    component,
    derive_handle,
    hash6,
    held_roots,
    host_component,
    tiers,
)
from filing.registry import RegistryMissing, RegistryUnreadable, parse_registry
from tests.filing.support import case_name, table

ROOT = "/home/u/MyRepo"


# The tables


@pytest.mark.parametrize("case", table("derive_handle", "hash6"), ids=lambda case: case["input"])
def test_the_table_of_hashes(case: dict[str, Any]) -> None:
    assert hash6(case["input"]) == case["hash6"]


@pytest.mark.parametrize("case", table("derive_handle", "component"), ids=lambda case: repr(case["input"]))
def test_the_table_of_components(case: dict[str, Any]) -> None:
    assert component(case["input"], case["max"]) == case["out"]


@pytest.mark.parametrize("case", table("derive_handle", "cases"), ids=case_name)
def test_the_table_of_handles(case: dict[str, Any]) -> None:
    held: dict[str, str] | None = case["held"]
    if "registry_raw" in case:
        held = held_roots(parse_registry(case["registry_raw"].encode()))
    derived = derive_handle(case["mode"], case["root"], case["host"], held)
    if case["handle"] is None:
        assert case["error"]
        assert isinstance(derived, NoHandle)
        return
    assert isinstance(derived, Derived)
    assert (derived.handle, derived.tier) == (case["handle"], case["tier"])
    assert (derived.qualifier, derived.tier1) == (case["qualifier"], case["tier1"])
    assert (derived.notice is not None) is case["notice"]


# What a person reads


def test_a_notice_names_who_holds_what_and_the_handle_it_became() -> None:
    second = derive_handle(RECLAIM, ROOT, "box", {"MyRepo-box": "/srv/MyRepo"})
    assert isinstance(second, Derived)
    assert (
        second.notice == "comm: @MyRepo-box (by /srv/MyRepo) already held — joining as @MyRepo-u-box instead"
    )
    third = derive_handle(RECLAIM, ROOT, "box", {"MyRepo-box": "/srv/MyRepo", "MyRepo-u-box": ""})
    assert isinstance(third, Derived)
    assert third.notice == (
        "comm: @MyRepo-box (by /srv/MyRepo) and @MyRepo-u-box (by an unknown project) already held — "
        "joining as @MyRepo-da8c9f-box instead"
    )


def test_with_all_three_held_the_way_out_is_named() -> None:
    held = dict.fromkeys((handle for handle, _ in tiers(ROOT, "box")), "/o")
    assert derive_handle(RECLAIM, ROOT, "box", held) == NoHandle(
        "comm: every derived handle for this project is already held: @MyRepo-box (by /o), @MyRepo-u-box "
        "(by /o) and @MyRepo-da8c9f-box (by /o). Pass --name to pick one explicitly"
    )


def test_an_unreadable_registry_is_told_in_the_contracts_words() -> None:
    assert derive_handle(RECLAIM, ROOT, "box", None) == NoHandle(
        "the registry could not be read, so no handle was derived; nothing was written"
    )


def test_a_tier_that_must_not_be_taken_is_stepped_past() -> None:
    derived = derive_handle(RECLAIM, ROOT, "box", {"MyRepo-box": ROOT} | {"MyRepo-box": ""})
    assert isinstance(derived, Derived)
    assert derived.handle == "MyRepo-u-box"


# The registry


def test_every_row_holds_its_handle() -> None:
    listing = parse_registry(b'{"agents":{"a":{"host":"x","root":"/r"},"b":{},"c":5,"d":{"root":5}}}')
    assert held_roots(listing) == {"a": "/r", "b": "", "c": "", "d": ""}


@pytest.mark.parametrize("answer", [RegistryMissing(), RegistryUnreadable("it is empty")])
def test_what_tells_nothing_is_never_nobody(answer: Any) -> None:
    assert held_roots(answer) is None


# Properties


@given(st.text(min_size=1, max_size=40), st.text(max_size=40), st.sampled_from([RECLAIM, FRESH]))
def test_every_tier_is_a_handle(folder: str, host: str, mode: str) -> None:
    root = "/home/u/" + folder.replace("/", "_")
    held: dict[str, str] = {}
    for tier in (1, 2, 3):
        derived = derive_handle(mode, root, host, held)
        if isinstance(derived, NoHandle):  # two tiers fell together, as for a parent with the hash's name
            break
        assert derived.tier >= tier
        assert is_handle(derived.handle)
        held[derived.handle] = "/another"


@given(st.text(max_size=40), st.integers(1, 20))
def test_a_component_is_short_plain_and_its_own(raw: str, most: int) -> None:
    reduced = component(raw, most)
    assert 1 <= len(reduced) <= most
    assert is_handle(reduced)
    assert component(reduced, most) == reduced


@given(st.text(max_size=20))
def test_a_host_name_stands_as_it_is_or_carries_its_hash(raw: str) -> None:
    made = host_component(raw)
    assert made == raw or made.endswith(f"-{hash6(raw)}")


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX path of any bytes")
def test_a_path_that_is_no_text_is_hashed_as_its_bytes() -> None:
    import hashlib

    assert hash6("/r/\udcff") == hashlib.sha256(b"/r/\xff").hexdigest()[:6]
