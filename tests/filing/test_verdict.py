"""One folder's verdict and its order, without a folder."""

import json
from typing import Any

import pytest

from filing.lock_manager import LockRecord, RecordAnswer, Role
from filing.outcome import Refused
from filing.registry import Listing, RegistryAnswer, RegistryMissing, parse_registry
from filing.verdict import Facts, FileRequest, Forward, Standing, ToInbox, Verdict, verdict
from tests.filing.support import case_name, request, table

NOW = 1790000000
(CONTEXT,) = table("wire", "comm_file_context")
OWN = LockRecord("local m", "m")


def judged(
    asked: FileRequest,
    *,
    registry: RegistryAnswer | None = None,
    record: RecordAnswer = OWN,
    role: Role = Role.HUB,
    offered: bool = False,
    self_host: str = "b",
) -> Verdict:
    listing = registry or parse_registry(json.dumps(CONTEXT["registry"]).encode())
    return verdict(
        asked,
        offered=offered,
        standing=Standing(role, self_host, "m", "/c/inbox-lock-manager", 600),
        facts=Facts(listing, record, "local m"),
        now_epoch_s=NOW,
    )


REGISTRIES = {
    None: None,
    "missing": RegistryMissing(),
    "empty": parse_registry(b""),
    "not JSON": parse_registry(b"hello"),
}


# A bad handle and a missing comm home are judged before any of this, by the filer.
CASES = [c for c in table("wire", "comm_file") if c["code"] != "bad_handle" and c.get("home") != "none"]


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_the_verdict(case: dict[str, Any]) -> None:
    no_record = case.get("record") or case["name"].startswith("a hub with no lock record")
    record = None if no_record else OWN
    if case.get("role") == "guest":
        record = LockRecord("none@m2", "m2")
    given = judged(
        request(case["to"]),
        registry=REGISTRIES[case.get("registry")],
        record=record,
        role=Role(case.get("role", "hub")),
    )
    if case["outcome"] == "filed":
        assert isinstance(given, ToInbox)
    elif case["outcome"] == "forwarded":
        assert given == Forward()
    else:
        assert isinstance(given, Refused)
        assert given.code == case["code"]
        if not case["error"].startswith("<"):
            assert given.sentence == case["error"]


def test_the_line_carries_the_time_of_the_verdict() -> None:
    given = judged(request("fresh", "hi"))
    assert given == ToInbox(
        b'{"from":"s","to":"fresh","repo":"daemon","msg":"hi","ts":"2026-09-21T14:13:20Z"}\n'
    )


def test_a_message_no_file_can_hold_is_a_bad_request() -> None:
    given = judged(request("fresh", "\ud800"))
    assert isinstance(given, Refused)
    assert given.code == "bad_request"


FOREIGN = LockRecord("local x", "x")


def test_a_hub_with_a_foreign_record_refuses_its_own_handles_only() -> None:
    assert isinstance(own := judged(request("fresh"), record=FOREIGN), Refused)
    assert own.code == "file_failed"
    assert isinstance(other := judged(request("nobody"), record=FOREIGN), Refused)
    assert other.code == "not_here"


def test_the_record_is_judged_before_liveness() -> None:
    assert isinstance(given := judged(request("stale"), record=FOREIGN), Refused)
    assert given.code == "file_failed"


def test_a_guest_appends_under_a_proven_shared_lock() -> None:
    assert isinstance(judged(request("fresh"), role=Role.GUEST), ToInbox)


def test_a_guest_never_forwards_what_was_forwarded() -> None:
    given = judged(request("fresh", forwarded=True), role=Role.GUEST, record=FOREIGN)
    assert isinstance(given, Refused)
    assert given.code == "file_failed"
    assert "guest" in given.sentence


class TestAnOffer:
    def test_is_filed_under_this_very_box_only(self) -> None:
        assert isinstance(judged(request("fresh"), offered=True), ToInbox)
        elsewhere = judged(request("fresh"), offered=True, self_host="c")
        assert elsewhere == Refused("not_here", "no box knows that handle: fresh")

    @pytest.mark.parametrize("handle", ["nobody", "hostless"])
    def test_of_a_handle_not_listed_is_not_here_on_a_guest_too(self, handle: str) -> None:
        """A refusal of its own would hide, at the hub, that no box knows the handle."""
        given = judged(request(handle), offered=True, role=Role.GUEST, record=FOREIGN)
        assert isinstance(given, Refused)
        assert given.code == "not_here"

    def test_is_never_forwarded(self) -> None:
        given = judged(request("fresh"), offered=True, role=Role.GUEST, record=FOREIGN)
        assert isinstance(given, Refused)
        assert given.code == "file_failed"

    def test_on_an_unreadable_registry_is_file_failed(self) -> None:
        given = judged(request("fresh"), offered=True, registry=REGISTRIES["empty"])
        assert isinstance(given, Refused)
        assert given.code == "file_failed"


def test_an_entry_of_another_box_is_filed_by_the_hub_of_a_shared_home() -> None:
    listing = Listing({"h": {"host": "elsewhere", "last_seen": "2026-09-21T14:13:15Z"}})
    assert isinstance(judged(request("h"), registry=listing), ToInbox)
