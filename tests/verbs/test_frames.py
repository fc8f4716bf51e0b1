"""What a sender writes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.verbs.support import VECTORS
from verbs.frames import UnsendableError, agent_send_frame, comm_file_frame, hello_frame
from wire.admission import hello_payload
from wire.frames import Kind, encode
from wire.limits import MAX_FRAME_BYTES

texts = st.text(max_size=40)


def test_the_hello_is_every_client_s_hello() -> None:
    expected = hello_payload("boxa", role="cli", name="me")
    assert hello_frame("boxa", "me") == encode(Kind.REQ, 1, "hello", expected)


@given(texts, texts, texts)
def test_a_filing_is_what_the_wire_s_encoder_writes(sender: str, to: str, text: str) -> None:
    payload = {"from": sender, "to": to, "text": text, "broadcast": False, "forwarded": False}
    assert comm_file_frame(sender, to, text) == encode(Kind.REQ, 2, "comm.file", payload)


@given(texts, texts)
def test_a_notice_is_what_the_wire_s_encoder_writes(sender: str, text: str) -> None:
    payload = {"from": sender, "to": "", "text": text}
    assert agent_send_frame(sender, text) == encode(Kind.REQ, 2, "agent.send", payload)


def test_the_frames_have_the_members_of_the_contract_s_examples() -> None:
    examples = {case["name"]: case["frame"]["payload"] for case in VECTORS["frame"] if "frame" in case}
    filing = json.loads(comm_file_frame("me", "h", "hi"))["payload"]
    assert filing.items() >= examples["comm.file request of the shell client (as captured)"].items()
    hello = json.loads(hello_frame("boxa", "me"))["payload"]
    assert hello.keys() >= examples["hello of a newer shell client: no token key"].keys()


def test_a_request_may_fill_the_frame_and_not_pass_it() -> None:
    room = MAX_FRAME_BYTES - len(comm_file_frame("me", "h", ""))
    assert len(comm_file_frame("me", "h", "x" * room)) == MAX_FRAME_BYTES
    with pytest.raises(UnsendableError) as told:
        comm_file_frame("me", "h", "x" * (room + 1))
    assert str(told.value) == (
        "the message makes a request of 1048576 bytes, and 1048575 is the most; nothing was sent"
    )


@pytest.mark.parametrize(
    ("sender", "to", "text", "named"),
    [
        ("m\udcff", "h", "t", "the sender"),
        ("me", "\udcff", "t", "the recipient"),
        ("me", "h", "\udc80", "the message"),
    ],
)
def test_what_is_not_utf_8_is_named(sender: str, to: str, text: str, named: str) -> None:
    with pytest.raises(UnsendableError, match=f"^{named} is not UTF-8 at character [01]; nothing was sent$"):
        comm_file_frame(sender, to, text)
