"""The JSON of one short exchange, without the start-up cost of `json`, which imports `re` and `enum`.

The C scanner and the C string encoder under `json` do the work. They are private to CPython, so each has a
fallback, and tests/verbs/test_fast_json.py pins that both ways give the same. Whatever is not plain goes to
`wire.strict_json`, which decides alone what is strict JSON (WIRE section 1).
"""

from wire.limits import MAX_NESTING

try:
    from _json import encode_basestring as quote
    from _json import make_scanner
except ImportError:  # a Python without the C module
    from json.encoder import encode_basestring as quote

    make_scanner = None  # type: ignore[assignment, misc]  # checked below, once

__all__ = ["parse", "quote"]

_MAX_INTEGER_CHARS = 300  # fewer than the digits of the largest double


def parse(text: bytes) -> object:
    """Return the one document in `text`, as `wire.strict_json.parse` does, with its errors (a ValueError)."""
    # An escape may hide a lone surrogate, and brackets may nest too deep: only the strict reader looks.
    if _scan is not None and b"\\u" not in text and text.count(b"{") + text.count(b"[") <= MAX_NESTING:
        try:
            characters = text.decode("utf-8")
            document, end = _scan(characters, 0)
        except (ValueError, StopIteration, RecursionError, SystemError):
            pass  # a scanner whose json.decoder nobody has imported yet has no error to raise: SystemError
        else:
            if end == len(characters):
                plain: object = document
                return plain
    from wire.strict_json import parse as parse_strictly

    return parse_strictly(text)


class _NotPlainError(ValueError):
    """Something that the strict reader has to judge."""


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _NotPlainError
    return members


def _integer(digits: str) -> int:
    if len(digits) > _MAX_INTEGER_CHARS:
        raise _NotPlainError
    return int(digits)


def _leave_to_the_strict_reader(_digits: str) -> float:
    raise _NotPlainError


class _Context:
    """What the C scanner asks of the `JSONDecoder` that it usually serves."""

    strict = True
    object_hook = None
    object_pairs_hook = staticmethod(_members)
    array_hook = None  # asked for from Python 3.15 on
    parse_int = staticmethod(_integer)
    parse_float = staticmethod(_leave_to_the_strict_reader)
    parse_constant = staticmethod(_leave_to_the_strict_reader)
    memo: dict[str, str] = {}  # noqa: RUF012  # the scanner's own, read once


try:
    _scan = make_scanner(_Context)  # type: ignore[arg-type]  # it asks for attributes, not for a type
except (AttributeError, TypeError):  # none, or one that asks for more
    _scan = None  # type: ignore[assignment]
