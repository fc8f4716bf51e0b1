"""The frame: WIRE section 1, row by row."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.frames import (
    AnswerTooLargeError,
    BadFrame,
    Frame,
    Kind,
    decode,
    encode,
    encode_answer,
    is_refusal,
    over_the_cap,
    refusal,
)
from wire.limits import MAX_ENVELOPE_BYTES, MAX_FRAME_BYTES, MAX_FRAME_ID
from wire.strict_json import dump

WIRE = json.loads((Path(__file__).parents[1] / "vectors" / "wire.json").read_bytes())

GOOD: dict[str, Any] = {"v": 1, "id": 7, "kind": "req", "op": "comm.file", "payload": {"a": 1}}


def _with(**members: Any) -> bytes:
    return dump({**GOOD, **members})


def _without(member: str) -> bytes:
    return dump({name: value for name, value in GOOD.items() if name != member})


def test_a_frame_has_its_members() -> None:
    assert decode(_with()) == Frame(7, Kind.REQ, "comm.file", {"a": 1})


@pytest.mark.parametrize("case", WIRE["frame"], ids=lambda case: case["name"])
def test_each_example_frame_decodes(case: dict[str, Any]) -> None:
    frame = case["frame"]
    assert decode(json.dumps(frame).encode()) == Frame(
        frame["id"], Kind(frame["kind"]), frame["op"], frame["payload"]
    )


@pytest.mark.parametrize("value", [1.0, True, "1", 2, 0, -1, None, [1], {}])
def test_v_is_exactly_the_integer_1(value: Any) -> None:
    assert isinstance(decode(_with(v=value)), BadFrame)


@pytest.mark.parametrize("value", [0, 1, 2**31, 2**53 + 1, 2**63 - 1])
def test_an_id_is_any_integer_up_to_2_to_the_63_less_1(value: int) -> None:
    frame = decode(_with(id=value))
    assert isinstance(frame, Frame)
    assert frame.id == value


@pytest.mark.parametrize("value", [-1, 2**63, 1.0, 0.5, True, False, "1", None, [], 10**300])
def test_any_other_id_is_a_bad_frame(value: Any) -> None:
    assert isinstance(decode(_with(id=value)), BadFrame)


@pytest.mark.parametrize("value", ["REQ", "", "request", None, 1, ["req"], {"req": 1}, True])
def test_a_kind_is_req_res_or_evt(value: Any) -> None:
    assert isinstance(decode(_with(kind=value)), BadFrame)
    for kind in ("req", "res", "evt"):
        assert isinstance(decode(_with(kind=kind)), Frame)


@pytest.mark.parametrize("value", ["", "x" * 65, "é" * 65, None, 1, ["x"], True])
def test_an_op_of_no_or_more_than_64_characters_is_a_bad_frame(value: Any) -> None:
    assert isinstance(decode(_with(op=value)), BadFrame)


@pytest.mark.parametrize("value", ["x", "x" * 64, "é" * 64, "😀" * 64, "no such op"])
def test_an_op_of_1_to_64_characters_is_one_whatever_it_says(value: str) -> None:
    frame = decode(_with(op=value))
    assert isinstance(frame, Frame)
    assert frame.op == value


@pytest.mark.parametrize("value", [[], "x", 1, None, True, [{}]])
def test_a_payload_is_an_object(value: Any) -> None:
    assert isinstance(decode(_with(payload=value)), BadFrame)


@pytest.mark.parametrize("member", ["v", "id", "kind", "op", "payload"])
def test_each_member_must_be_there_and_the_sentence_names_it(member: str) -> None:
    bad = decode(_without(member))
    assert isinstance(bad, BadFrame)
    assert f"'{member}'" in bad.why


def test_members_that_a_reader_does_not_know_are_ignored_at_every_level() -> None:
    frame = decode(_with(rev=7, payload={"a": {"b": 1}, "later": None}, more={"deep": [1]}))
    assert frame == Frame(7, Kind.REQ, "comm.file", {"a": {"b": 1}, "later": None})


def test_the_order_of_members_does_not_matter_when_reading() -> None:
    assert decode(dump(dict(reversed(GOOD.items())))) == decode(dump(GOOD))


@pytest.mark.parametrize("text", [b"", b" ", b"[]", b'"x"', b"1", b"null", b"{}", b"\xff", b"{", b"{}{}"])
def test_what_is_no_object_of_strict_json_is_a_bad_frame_with_a_sentence(text: bytes) -> None:
    bad = decode(text)
    assert isinstance(bad, BadFrame)
    assert bad.why


def test_a_member_named_twice_is_a_bad_frame() -> None:
    assert isinstance(decode(b'{"v":1,"id":1,"id":2,"kind":"req","op":"x","payload":{}}'), BadFrame)


def test_the_frame_itself_is_the_first_of_127_levels() -> None:
    def nested(levels: int) -> bytes:
        return _with().replace(b'{"a":1}', b'{"a":' * levels + b"1" + b"}" * levels)

    assert isinstance(decode(nested(126)), Frame)
    assert isinstance(decode(nested(127)), BadFrame)


def _of_size(size: int) -> bytes:
    empty = encode(Kind.REQ, 1, "x", {"a": ""})
    return encode(Kind.REQ, 1, "x", {"a": "y" * (size - len(empty))})


def test_the_cap_is_1048575_bytes_of_text_and_one_more_with_its_line_end() -> None:
    assert (MAX_FRAME_BYTES, MAX_ENVELOPE_BYTES) == (1_048_575, 1_048_576)
    assert isinstance(decode(_of_size(MAX_FRAME_BYTES)), Frame)
    bad = decode(_of_size(MAX_FRAME_BYTES + 1))
    assert bad == over_the_cap(MAX_FRAME_BYTES + 1)
    assert isinstance(bad, BadFrame)
    assert "1048576" in bad.why
    assert "1048575" in bad.why


# Writing


def test_output_is_compact_with_members_in_the_order_of_the_table() -> None:
    text = encode(Kind.REQ, 7, "comm.file", {"from": "me", "to": "h", "text": "é\n", "broadcast": False})
    expected = (
        '{"v":1,"id":7,"kind":"req","op":"comm.file",'
        '"payload":{"from":"me","to":"h","text":"é\\n","broadcast":false}}'
    )
    assert text == expected.encode()
    assert b'"op":"comm.file"' in text
    assert b"\n" not in text


def test_a_refusal_is_a_res_with_error_and_code() -> None:
    assert encode_answer(3, "comm.file", refusal("busy", "later", {"extra": 1})) == (
        b'{"v":1,"id":3,"kind":"res","op":"comm.file","payload":{"error":"later","code":"busy","extra":1}}'
    )


@pytest.mark.parametrize(
    ("payload", "refused"),
    [
        ({"error": "no"}, True),
        ({"error": "no", "ok": True}, True),
        ({"error": ""}, False),
        ({"error": None}, False),
        ({"error": 1}, False),
        ({"ok": True}, False),
        ({}, False),
    ],
)
def test_an_error_counts_only_as_a_non_empty_string(payload: dict[str, Any], refused: bool) -> None:
    assert is_refusal(payload) is refused


@given(
    st.integers(0, MAX_FRAME_ID),
    st.sampled_from(Kind),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=64),
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.booleans() | st.integers(-9, 9)),
)
def test_what_was_encoded_decodes_to_the_same(
    frame_id: int, kind: Kind, op: str, payload: dict[str, Any]
) -> None:
    assert decode(encode(kind, frame_id, op, payload)) == Frame(frame_id, kind, op, payload)


# Answers never pass the cap


def test_an_answer_of_exactly_the_cap_is_sent_as_it_is() -> None:
    room = MAX_FRAME_BYTES - len(encode_answer(1, "x", {"ok": ""}))
    assert len(encode_answer(1, "x", {"ok": "y" * room})) == MAX_FRAME_BYTES
    room = MAX_FRAME_BYTES - len(encode_answer(1, "x", refusal("c", "")))
    text = encode_answer(1, "x", refusal("c", "y" * room))
    assert len(text) == MAX_FRAME_BYTES
    assert "…".encode() not in text


def test_a_success_that_would_pass_the_cap_raises() -> None:
    with pytest.raises(AnswerTooLargeError):
        encode_answer(1, "x", {"ok": "y" * MAX_FRAME_BYTES})
    with pytest.raises(AnswerTooLargeError):
        encode_answer(1, "x", {"error": "", "text": "y" * MAX_FRAME_BYTES})


@pytest.mark.parametrize(
    "unit",
    ["y", "é", "漢", "😀", "\n", "\x01", '"', "\\", "aé漢😀\x01\n"],
    ids=[
        "one byte",
        "two",
        "three",
        "four",
        "escaped as two",
        "escaped as six",
        "quote",
        "backslash",
        "mixed",
    ],
)
@pytest.mark.parametrize("shift", range(3))
def test_a_long_sentence_is_cut_at_a_character_and_is_as_long_as_can_be(unit: str, shift: int) -> None:
    sentence = "-" * shift + unit * (MAX_FRAME_BYTES // len(unit.encode()) + 1)
    text = encode_answer(9, "comm.file", refusal("file_failed", sentence))
    frame = decode(text)
    assert isinstance(frame, Frame)
    assert frame.payload["code"] == "file_failed"
    said = frame.payload["error"]
    assert said[-1] == "…"
    assert sentence.startswith(said[:-1])
    next_char = sentence[len(said) - 1]
    assert len(text) <= MAX_FRAME_BYTES < len(text) + len(dump(next_char)) - 2


def test_what_else_a_refusal_carries_stays_beside_a_cut_sentence() -> None:
    frame = decode(encode_answer(1, "hello", refusal("c", "y" * MAX_FRAME_BYTES, {"n": 3})))
    assert isinstance(frame, Frame)
    assert frame.payload["n"] == 3


def test_the_code_stays_when_something_beside_the_sentence_is_too_long() -> None:
    frame = decode(encode_answer(1, "hello", refusal("c", "why", {"version": "y" * MAX_FRAME_BYTES})))
    assert isinstance(frame, Frame)
    assert frame.payload == {"error": "why", "code": "c"}


def test_a_refusal_still_arrives_when_its_very_code_is_too_long() -> None:
    frame = decode(encode_answer(1, "hello", refusal("c" * MAX_FRAME_BYTES, "why")))
    assert isinstance(frame, Frame)
    assert frame.payload == {"error": "why", "code": "too_large"}
