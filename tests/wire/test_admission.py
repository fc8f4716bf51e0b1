"""Who gets in: WIRE section 3, as one pure decision."""

import itertools
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from wire import codes
from wire.account import os_user
from wire.admission import AccountRecord, Door, RefusedHello, hello_payload, reply
from wire.frames import Frame, Kind, decode, encode_answer
from wire.limits import MAX_FRAME_BYTES
from wire.payloads import Hello, fit
from wire.version import VERSION

WIRE = json.loads((Path(__file__).parents[1] / "vectors" / "wire.json").read_bytes())

LISTED = frozenset({"hub", "boxa", "boxb"})


def door(**known: Any) -> Door:
    return Door("hub", AccountRecord(), **known)


def hello(**members: Any) -> Frame:
    payload = {"client_id": "c", "protocol": 3, "host": "boxa", "os_user": "uid:1", **members}
    return Frame(1, Kind.REQ, "hello", {name: value for name, value in payload.items() if value is not ...})


def code(verdict: Hello | RefusedHello) -> str:
    return verdict.code if isinstance(verdict, RefusedHello) else "ok"


@pytest.mark.parametrize("case", WIRE["hello_refusal"], ids=lambda case: case["name"])
def test_each_refusal_of_the_table(case: dict[str, Any]) -> None:
    entrance = door()
    for earlier in case.get("after", ()):
        assert code(entrance.admit(hello(**earlier))) == "ok"
    frame = decode(json.dumps(case["first_frame"]).encode())
    assert isinstance(frame, Frame)
    verdict = entrance.admit(frame)
    assert isinstance(verdict, RefusedHello)
    assert verdict.code == case["code"] == verdict.payload["code"]
    assert verdict.payload["error"]
    for member, value in case.get("extra", {}).items():
        assert verdict.payload[member] == (VERSION if value == "<version>" else value)


@pytest.mark.parametrize("case", WIRE["account_record"], ids=lambda case: case["name"])
def test_each_sequence_of_hellos_of_the_table(case: dict[str, Any]) -> None:
    entrance = door()
    for host, account, expected in case["hellos"]:
        user, _, protocol = account.partition(" (protocol ")
        frame = hello(host=host, os_user=user, protocol=int(protocol.rstrip(")") or 3))
        assert code(entrance.admit(frame)) == expected


@pytest.mark.parametrize("kind", [Kind.EVT, Kind.RES])
def test_only_a_request_is_a_hello(kind: Kind) -> None:
    frame = hello()
    assert code(door().admit(Frame(0, kind, "hello", frame.payload))) == codes.UNAUTHENTICATED


@pytest.mark.parametrize("role", [..., "link", "cli", "agent", "fe", "bridge", "", "anything", "LINK"])
def test_any_role_is_let_in_where_there_is_no_topology(role: Any) -> None:
    assert code(door().admit(hello(role=role))) == "ok"


# Each fault alone gets its code; of several, the first in the order of section 3 is told.
FAULTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    codes.UNAUTHENTICATED: ({"name": 1}, {}),
    codes.PROTOCOL_MISMATCH: ({"protocol": 2}, {}),
    codes.IDENTITY_MISSING: ({"os_user": ""}, {}),
    codes.IDENTITY_MISMATCH: ({}, {"credential_host": "boxb"}),
    codes.UNKNOWN_HOST: ({"role": "link", "host": "stranger"}, {}),
    codes.OS_USER_CONFLICT: ({"os_user": "uid:2"}, {}),
    codes.TOO_MANY_CONNECTIONS: ({}, {"full": True}),
}


def _with_faults(*faults: str) -> str:
    entrance = door(lists=LISTED.__contains__)
    for host in ("boxa", "stranger"):
        assert code(entrance.admit(hello(host=host))) == "ok"
    members: dict[str, Any] = {}
    known: dict[str, Any] = {}
    for fault in reversed(faults):
        members |= FAULTS[fault][0]
        known |= FAULTS[fault][1]
    return code(entrance.admit(hello(**members), **known))


def test_refusals_are_told_in_the_order_of_the_table() -> None:
    for fault in FAULTS:
        assert _with_faults(fault) == fault
    for first, second in itertools.combinations(FAULTS, 2):
        if (first, second) == (codes.IDENTITY_MISSING, codes.OS_USER_CONFLICT):
            continue  # an account that is missing cannot be another one
        assert _with_faults(first, second) == first
    assert _with_faults(*FAULTS) == codes.UNAUTHENTICATED


# unknown_host


@pytest.mark.parametrize(
    ("listed", "host", "role", "expected"),
    [
        (None, "boxa", "link", "ok"),
        (None, "stranger", "link", "ok"),
        (None, "hub", "link", "unknown_host"),
        (LISTED, "boxa", "link", "ok"),
        (LISTED, "stranger", "link", "unknown_host"),
        (LISTED, "hub", "link", "unknown_host"),
        (LISTED, "BOXA", "link", "unknown_host"),
        (LISTED, "stranger", "cli", "ok"),
        (LISTED, "hub", "cli", "ok"),
        (LISTED, "stranger", "Link", "ok"),
    ],
)
def test_a_link_is_another_box_and_one_that_hosts_toml_lists(
    listed: frozenset[str] | None, host: str, role: str, expected: str
) -> None:
    lists = None if listed is None else listed.__contains__
    assert code(door(lists=lists).admit(hello(host=host, role=role))) == expected


def test_a_daemon_that_takes_no_links_refuses_every_link_and_serves_the_rest() -> None:
    entrance = door(links=False)
    assert code(entrance.admit(hello(role="link"))) == codes.UNKNOWN_HOST
    assert code(entrance.admit(hello(role="cli"))) == "ok"


def test_a_refused_link_records_no_account() -> None:
    entrance = door(lists=LISTED.__contains__)
    assert code(entrance.admit(hello(host="stranger", role="link", os_user="uid:2"))) == codes.UNKNOWN_HOST
    assert code(entrance.admit(hello(host="stranger", os_user="uid:1"))) == "ok"


# Credentials


@pytest.mark.parametrize(
    ("credential", "expected"),
    [(None, "ok"), ("boxa", "ok"), ("boxb", "identity_mismatch"), ("BOXA", "identity_mismatch")],
)
def test_a_credential_admits_its_own_host_only(credential: str | None, expected: str) -> None:
    assert code(door().admit(hello(), credential_host=credential)) == expected


def test_a_hello_refused_for_its_credential_records_no_account() -> None:
    entrance = door()
    entrance.admit(hello(os_user="uid:2"), credential_host="boxb")
    assert code(entrance.admit(hello())) == "ok"


# Accounts


def test_the_conflict_s_sentence_names_the_host_and_the_remedy_and_no_account() -> None:
    entrance = door()
    entrance.admit(hello(os_user="uid:4711"))
    verdict = entrance.admit(hello(os_user="uid:4712"))
    assert isinstance(verdict, RefusedHello)
    sentence = verdict.payload["error"]
    assert "boxa" in sentence
    assert "restart the daemon on hub" in sentence
    assert "471" not in json.dumps(verdict.payload)


def test_the_record_of_accounts_takes_no_more_hosts_than_it_may_and_keeps_those_it_knows() -> None:
    entrance = Door("hub", AccountRecord(most=2))
    for host in ("boxa", "boxb"):
        assert code(entrance.admit(hello(host=host))) == "ok"
    assert code(entrance.admit(hello(host="boxc"))) == codes.TOO_MANY_CONNECTIONS
    assert code(entrance.admit(hello(host="boxb"))) == "ok"
    assert code(entrance.admit(hello(host="boxb", os_user="uid:2"))) == codes.OS_USER_CONFLICT
    assert code(entrance.admit(hello(host="boxa"))) == "ok"


def test_a_name_of_a_megabyte_is_remembered_in_few_bytes_and_told_apart() -> None:
    record = AccountRecord()
    long = "x" * 1_000_000
    assert not record.conflicts(long + "a", long + "a")
    assert not record.conflicts(long + "b", long + "b")
    assert not record.conflicts(long + "a", long + "a")
    assert record.conflicts(long + "a", long + "b")
    kept = record._accounts
    assert sum(len(text or "") for pair in kept.items() for text in pair) < 1000


@pytest.mark.parametrize(
    "members",
    [
        {"protocol": 2, "app_version": "v" * 1_048_000},
        {"protocol": 10**300},
        {"host": "h" * 1_048_000, "os_user": "uid:2"},
        {"host": "h" * 1_048_000, "role": "link"},
    ],
)
def test_a_long_name_in_a_hello_does_not_make_a_long_refusal(members: dict[str, Any]) -> None:
    entrance = door(lists=LISTED.__contains__)
    entrance.admit(hello(host="h" * 1_048_000))
    verdict = entrance.admit(hello(**members))
    assert isinstance(verdict, RefusedHello)
    assert len(encode_answer(1, "hello", verdict.payload)) < 2000 < MAX_FRAME_BYTES


# What is sent


def test_the_reply_has_its_members_in_the_contract_s_order() -> None:
    assert list(reply("hub", "abc", 3).items()) == [
        ("session_id", "abc"),
        ("revision", 0),
        ("snapshot_pending", False),
        ("host", "hub"),
        ("protocol", 3),
        ("app_version", VERSION),
        ("clients_connected", 3),
        ("proxy", False),
    ]


def test_our_own_hello_parses_and_is_admitted() -> None:
    payload = hello_payload("boxa", role="link", name="sotd-boxa", instance="i")
    parsed = fit(Hello, payload)
    assert (parsed.host, parsed.role, parsed.name, parsed.instance) == ("boxa", "link", "sotd-boxa", "i")
    assert code(door().admit(Frame(1, Kind.REQ, "hello", payload))) == "ok"


@pytest.mark.skipif(sys.platform == "win32", reason="an account is a SID on Windows")
def test_an_account_is_the_effective_uid() -> None:
    if sys.platform != "win32":
        assert os_user() == f"uid:{os.geteuid()}"
