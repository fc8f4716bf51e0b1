"""The depth of a document is told without a walk over its characters, and as such a walk tells it.

What else is strict is in test_registry.
"""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filing.strict_json import MAX_NESTING, NotStrictJsonError, _nesting, parse_strict

STRING = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)


def walked(text: str) -> int:
    """The definition: what opens and closes outside strings, character by character."""
    depth = deepest = 0
    for character in STRING.sub("", text):
        if character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest


TRICKY = st.text(st.sampled_from('[]{}"\\ é,:a\n\0'))
DOCUMENTS = st.recursive(
    TRICKY | st.integers() | st.none(),
    lambda inner: st.lists(inner) | st.dictionaries(TRICKY, inner),
)
# What is no document: brackets and strings in any order, the last of them perhaps cut off.
PIECES = st.lists(st.sampled_from("[]{},: é") | TRICKY.map(json.dumps))


@given(DOCUMENTS, st.booleans(), st.sampled_from([None, 1]))
def test_a_document_is_as_deep_as_a_walk_finds_it(value: Any, escaped: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=escaped, indent=indent)
    assert _nesting(text.encode()) == walked(text)


@given(PIECES, st.integers(0, 3))
def test_what_is_no_document_too(pieces: list[str], cut: int) -> None:
    text = "".join(pieces)
    text = text[: len(text) - cut]
    assert _nesting(text.encode()) == walked(text)


@given(st.text(st.sampled_from('[]"\\a')), st.text(st.sampled_from('[]"\\a')))
def test_a_stray_backslash_hides_no_depth_from_the_decoder(before: str, after: str) -> None:
    text = f"{before}{'[' * (MAX_NESTING + 1)}{after}"
    try:
        value = parse_strict(text.encode())
    except NotStrictJsonError:
        return
    assert walked(json.dumps(value)) <= MAX_NESTING


@pytest.mark.parametrize("strays", ["\\", '\\"', "\\\\", '"\\\\"'])
def test_depth_past_a_stray_backslash_is_refused_one_way_or_the_other(strays: str) -> None:
    for text in (strays + "[" * 100_000, "[" * 100_000 + strays, f"[{strays}" * 50_000):
        with pytest.raises(NotStrictJsonError):
            parse_strict(text.encode())


def test_a_deep_document_is_told_from_a_wide_one() -> None:
    parse_strict(b'[{"a":"\\\\"},{"b\\"[":"]"}' + b",[{}]" * 10_000 + b"]")
    with pytest.raises(NotStrictJsonError, match="deeper than 127"):
        parse_strict(b'[{"a":"\\\\"}' + b",[" * 127 + b"]" * 128)
