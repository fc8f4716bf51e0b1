"""JSON of a file at rest, as strict as the daemon's own reader: what the standard library lets pass is
refused.

Duplicate keys are the exception, as in `jq` and serde: the last wins.
"""

import json
import math
import re
from itertools import accumulate
from typing import Any, Final, NoReturn

MAX_NESTING: Final = 127

_QUOTED = re.compile(rb'"[^"]*"?')
_BRACKETS: Final = b"[{]}"
_NOT_STRUCTURE: Final = bytes(set(range(256)) - set(_BRACKETS) - {ord('"')})
_STEPS: Final = bytes.maketrans(_BRACKETS, b"\x01\x01\xff\xff")  # as signed bytes: one deeper, one back
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


class NotStrictJsonError(ValueError):
    """The text is not one strict JSON document. The message says why, and holds nothing of the text."""


def parse_strict(data: bytes) -> Any:
    """One document, or `NotStrictJsonError`.

    Refused beyond what `json` refuses: a byte-order mark, invalid UTF-8, NaN and Infinity, a number out of a
    double's range, a lone surrogate, nesting past 127.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotStrictJsonError(f"it is not UTF-8 at byte {error.start}") from None
    if data.count(b"[") + data.count(b"{") > MAX_NESTING and _nesting(data) > MAX_NESTING:
        raise NotStrictJsonError(f"it nests deeper than {MAX_NESTING}")
    decoder = _WITH_SURROGATE_ESCAPES if _SURROGATE_ESCAPE.search(text) else _PLAIN
    try:
        # raw_decode neither skips leading white space nor looks at what follows.
        start = len(text) - len(text.lstrip(" \t\n\r"))
        value, end = decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise NotStrictJsonError(f"it is not JSON at character {error.pos}") from None
    except StopIteration:
        raise NotStrictJsonError("it holds no document") from None
    if text[end:].strip(" \t\n\r"):
        raise NotStrictJsonError(f"it goes on after its document, at character {end}")
    return value


def _nesting(data: bytes) -> int:
    """How deep the brackets outside strings go. No loop of Python's own: a registry holds megabytes.

    Right up to the first backslash outside a string, where no document goes on.
    """
    unescaped = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    structure = unescaped.translate(None, _NOT_STRUCTURE)
    # Two quotes side by side go at once: what follows stays inside a string, or outside, as it was.
    brackets = _QUOTED.sub(b"", structure.replace(b'""', b""))
    return max(accumulate(memoryview(brackets.translate(_STEPS)).cast("b"), initial=0))


def _no_constant(name: str) -> NoReturn:
    raise NotStrictJsonError(f"it holds {name}")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise NotStrictJsonError("it holds a number out of range")
    return value


def _whole(text: str) -> int | float:
    # The largest double has 309 digits, and int() of a hostile length is slow: judge the size first.
    return int(text) if len(text) < 300 else _finite(text)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Every pair is looked at here: one that a later duplicate hides is still part of the document.
    for key, value in pairs:
        _no_lone_surrogate(key)
        _no_lone_surrogate(value)
    return dict(pairs)


def _no_lone_surrogate(value: Any) -> None:
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise NotStrictJsonError("it holds a lone surrogate") from None
    elif isinstance(value, list):
        for item in value:
            _no_lone_surrogate(item)


_PLAIN = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite, parse_int=_whole)
_WITH_SURROGATE_ESCAPES = json.JSONDecoder(
    parse_constant=_no_constant, parse_float=_finite, parse_int=_whole, object_pairs_hook=_members
)
