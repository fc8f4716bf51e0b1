"""Strict JSON (RFC 8259) as WIRE section 1 reads it, and the compact form it writes.

The standard library's parser does the reading. What it lets through and the contract does not (NaN, a number
out of a double's range, a member named twice, a lone surrogate, deep nesting) is refused here, so that this
one function decides for every transport.
"""

import json
from typing import Any, NoReturn

from wire.limits import MAX_NESTING

Json = dict[str, Any] | list[Any] | str | int | float | bool | None


class NotStrictJsonError(ValueError):
    """The text is not one strict JSON document; str() says what is wrong, without quoting the text."""


def parse(text: bytes) -> Json:
    """Return the one document that `text` holds; NotStrictJsonError says why it is none."""
    try:
        document: Json = _DECODER.decode(text.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise NotStrictJsonError(f"not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise NotStrictJsonError(f"not JSON at character {error.pos}: {error.msg}") from None
    except RecursionError:
        raise NotStrictJsonError(_TOO_DEEP) from None
    # Both checks walk the document again, so each runs only where the text could fail it.
    if text.count(b"{") + text.count(b"[") > MAX_NESTING and _depth(document) > MAX_NESTING:
        raise NotStrictJsonError(_TOO_DEEP)
    if b"\\u" in text:
        _refuse_lone_surrogates(document)
    return document


def dump(document: Any) -> bytes:
    """Return the compact form: no space after ':' or ',', raw UTF-8, escapes only for control characters."""
    return _ENCODER.encode(document).encode("utf-8")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise NotStrictJsonError("a member is named twice")
    return members


def _integer(digits: str) -> int:
    # 309 digits are past a double's range whatever they are; int() would refuse only past 4300.
    if len(digits) > _MAX_INTEGER_CHARS:
        raise NotStrictJsonError(_OUT_OF_RANGE)
    number = int(digits)
    try:
        float(number)
    except OverflowError:
        raise NotStrictJsonError(_OUT_OF_RANGE) from None
    return number


def _float(digits: str) -> float:
    number = float(digits)
    if number in {float("inf"), float("-inf")}:
        raise NotStrictJsonError(_OUT_OF_RANGE)
    return number


def _constant(name: str) -> NoReturn:
    raise NotStrictJsonError(f"{name} is not JSON")


def _depth(document: Json) -> int:
    deepest, open_containers = 0, [(document, 1)]
    while open_containers:
        value, depth = open_containers.pop()
        if isinstance(value, dict):
            inner: Any = value.values()
        elif isinstance(value, list):
            inner = value
        else:
            continue
        deepest = max(deepest, depth)
        open_containers.extend((member, depth + 1) for member in inner)
    return deepest


def _refuse_lone_surrogates(document: Json) -> None:
    try:
        dump(document)
    except UnicodeEncodeError:
        raise NotStrictJsonError("a lone surrogate") from None
    except RecursionError:
        raise NotStrictJsonError(_TOO_DEEP) from None


_TOO_DEEP = f"nested deeper than {MAX_NESTING}"
_OUT_OF_RANGE = "a number out of a double's range"
_MAX_INTEGER_CHARS = 310  # the 309 digits of the largest double, and a sign

_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant
)
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
