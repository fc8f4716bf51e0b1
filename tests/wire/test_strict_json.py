"""Strict JSON, as WIRE section 1 reads it. The table is tests/vectors/strict_json.json."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wire.strict_json import Json, NotStrictJsonError, dump, parse

CASES = json.loads((Path(__file__).parents[1] / "vectors" / "strict_json.json").read_bytes())["cases"]

_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
_DOCUMENTS: st.SearchStrategy[Json] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**300), 10**300)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=20,
)
# Bytes that come close to JSON.
_TOKENS = st.sampled_from(
    [
        *rb'{ } [ ] , : " "a" "b" 1 - 0 .5 e9 99999 \u d83d \ude00 \ NaN Infinity true null'.split(),
        *(b" ", b"\n", b"\r", b"\t", b"\x00", b"\xed", b"\xa0", b"\x80", b"\xc3\xa9", b"\xef\xbb\xbf"),
    ]
)
_NEAR_JSON = st.lists(_TOKENS, max_size=40).map(b"".join)


def _strict(text: bytes) -> Json | NotStrictJsonError:
    try:
        return parse(text)
    except NotStrictJsonError as error:
        return error


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in CASES])
def test_each_row_of_the_table_is_accepted_or_refused(case: dict[str, Any]) -> None:
    read = _strict(base64.b64decode(case["text_b64"]))
    assert isinstance(read, NotStrictJsonError) is not case["accepted"], read


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":'])
def test_a_hundred_thousand_levels_are_refused_whether_they_close_or_not(opening: bytes) -> None:
    closing = opening.replace(b'"a":', b"").translate(bytes.maketrans(b"[{", b"]}"))[::-1]
    for text in (opening * 100_000, opening * 100_000 + b"1" + closing * 100_000):
        assert isinstance(_strict(text), NotStrictJsonError)


def test_what_was_read_has_its_value() -> None:
    assert parse(rb' {"a": [1, -2.5, 1e-999, true, null, "\ud83d\ude00\n"], "b": {}} ') == {
        "a": [1, -2.5, 0.0, True, None, "😀\n"],
        "b": {},
    }


@pytest.mark.parametrize(
    "text", [b'"secret', b"secret", b'{"secret":NaN,}', b'["secret\xff"]', b'{"s":1,"s":2}']
)
def test_the_reason_does_not_quote_the_text(text: bytes) -> None:
    assert "secret" not in str(_strict(text))


def test_output_is_compact_raw_utf_8_with_escapes_for_control_characters_only() -> None:
    document = {"a": ["é漢😀", 1, 2.5], "b": '\x00\x1f\n"\\/\x7f\u2028'}
    expected = '{"a":["é漢😀",1,2.5],"b":"\\u0000\\u001f\\n\\"\\\\/\x7f\u2028"}'
    assert dump(document) == expected.encode()


@pytest.mark.parametrize("document", [float("nan"), float("inf"), "\ud800"])
def test_what_is_not_json_is_never_written(document: Json) -> None:
    with pytest.raises(ValueError):
        dump(document)


@given(_DOCUMENTS)
def test_what_was_written_reads_back_the_same(document: Json) -> None:
    assert parse(dump(document)) == document


@given(st.binary(max_size=200) | _NEAR_JSON)
@example(b"")
def test_any_bytes_are_a_document_or_not_strict_json(text: bytes) -> None:
    # Anything but NotStrictJsonError comes through and fails the test.
    read = _strict(text)
    if not isinstance(read, NotStrictJsonError):
        assert parse(dump(read)) == read


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def _no_constant(_name: str) -> Any:
    raise ValueError


@given(_NEAR_JSON | _DOCUMENTS.map(lambda document: json.dumps(document).encode()))
def test_where_the_standard_library_is_strict_it_agrees(text: bytes) -> None:
    try:
        expected = json.loads(text.decode(), object_pairs_hook=_pairs, parse_constant=_no_constant)
        expected_text = json.dumps(expected, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, AssertionError):
        assert isinstance(_strict(text), NotStrictJsonError)
    else:
        assert json.dumps(_strict(text), ensure_ascii=False).encode() == expected_text
