"""The sentences of the contract, letter by letter."""

from typing import Any

import pytest

from filing import outcome
from filing.outcome import Refused
from tests.filing.support import table


@pytest.mark.parametrize("case", [c for c in table("names", "handle") if not c["valid"]])
def test_a_bad_handle_is_quoted_as_json(case: dict[str, Any]) -> None:
    assert outcome.bad_handle(case["handle"]) == Refused("bad_handle", case["refusal"])


def test_a_bad_handle_from_argv_can_be_printed() -> None:
    outcome.bad_handle("a\udcff").sentence.encode("utf-8")


def test_the_sentences_the_contract_fixes() -> None:
    assert outcome.not_here("h") == Refused("not_here", "no box knows that handle: h")
    assert outcome.unknown_handle("h", []) == Refused("unknown_handle", "no box knows that handle: h")
    assert outcome.unknown_handle("h", ["a", "b"]) == Refused(
        "unknown_handle", "no linked box knows that handle: h; not linked: a, b"
    )
    assert outcome.no_live_session("h") == Refused("no_live_session", "no live session holds @h")
    assert outcome.append_failed("why") == Refused("file_failed", "the append failed: why")
    assert outcome.no_answer(["a", "b"], 3.0, "h") == Refused(
        "no_answer", "the daemon on a, b did not answer within 3s; @h may still be filed"
    )
    assert outcome.link_down("why").sentence == "the link to the hub is down: why; nothing was sent"


@pytest.mark.parametrize(("wait_s", "printed"), [(2.0, "2s"), (0.2, "0.2s"), (2.5, "2.5s"), (10, "10s")])
def test_the_held_lock_names_the_wait(wait_s: float, printed: str) -> None:
    assert outcome.lock_held("h", wait_s) == Refused(
        "file_failed", f"the inbox lock for @h was held for {printed} — nothing was appended"
    )


def test_an_unreadable_registry_names_the_handle_first() -> None:
    refused = outcome.registry_unreadable("h", "it is empty")
    assert refused.code == "file_failed"
    assert refused.sentence.startswith(
        "the registry could not be read, so @h is unverified; nothing was filed"
    )
    assert refused.sentence.endswith("it is empty")


def test_too_large_names_size_and_cap() -> None:
    refused = outcome.too_large(2000000, 1048575)
    assert refused.code == "too_large"
    assert "2000000" in refused.sentence
    assert "1048575" in refused.sentence
