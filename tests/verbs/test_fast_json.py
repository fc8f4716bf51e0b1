"""The quick way and the strict way read and write the same."""

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.verbs.support import BOUND_S, ROOT
from verbs import fast_json
from wire.strict_json import NotStrictJsonError
from wire.strict_json import parse as parse_strictly

DOCUMENTS = [
    b'{"v":1,"id":2,"kind":"res","op":"comm.file","payload":{"ok":true}}',
    '{"a":"é — \u2028 😀","b":[1,-2,0,{"c":null}],"d":false}'.encode(),
    b'{ "a" : [ ] , "b" : { } }',
    b' {"a":1}',
    b'{"a":1}\r',
    b'{"a":1} {"b":2}',
    b'{"a":1}x',
    b'{"a":1.5,"b":1e3,"c":-0.0}',
    b'{"a":1e999}',
    b'{"a":' + b"9" * 305 + b"}",
    b'{"a":' + b"9" * 400 + b"}",
    b'{"a":' + b"9" * 5000 + b"}",
    b'{"a":NaN}',
    b'{"a":-Infinity}',
    b'{"a":1,"a":1}',
    b'{"b":{"a":1,"a":2}}',
    b'{"a":"\\u00e9\\ud83d\\ude00"}',
    b'{"a":"\\ud83d"}',
    b'{"a":"\\u0000"}',
    b'{"a":"\x00"}',
    b'{"a":"\\n\\"\\\\"}',
    b'{"a":"\xff"}',
    b"\xef\xbb\xbf{}",
    b"",
    b"   ",
    b"{",
    b"[1,]",
    b'{"a":01}',
    b"true",
    b"7",
    b'"x"',
    b"[" * 127 + b"]" * 127,
    b"[" * 128 + b"]" * 128,
    b"[" * 100_000,
    b'{"a":"' + b"[" * 500 + b'"}',
]


def outcome(parse: Any, text: bytes) -> tuple[bool, str]:
    try:
        return True, repr(parse(text))
    except NotStrictJsonError as error:
        return False, str(error)


@pytest.mark.parametrize("text", DOCUMENTS, ids=range(len(DOCUMENTS)))
def test_one_reading_of_each_document(text: bytes) -> None:
    assert outcome(fast_json.parse, text) == outcome(parse_strictly, text)


@pytest.mark.parametrize("text", DOCUMENTS, ids=range(len(DOCUMENTS)))
def test_one_reading_without_the_c_scanner(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    monkeypatch.setattr(fast_json, "_scan", None)
    assert outcome(fast_json.parse, text) == outcome(parse_strictly, text)


@given(st.binary(max_size=30) | st.text(alphabet='{}[]",:\\u01e.-tfn ', max_size=20).map(str.encode))
def test_one_reading_of_anything(text: bytes) -> None:
    assert outcome(fast_json.parse, text) == outcome(parse_strictly, text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, st.booleans())
def test_what_json_writes_is_read_back(document: Any, ascii_only: bool) -> None:
    text = json.dumps(document, ensure_ascii=ascii_only).encode()
    assert fast_json.parse(text) == document


@given(st.text())
def test_text_is_quoted_as_json_quotes_it(text: str) -> None:
    assert fast_json.quote(text) == json.dumps(text, ensure_ascii=False)


@pytest.mark.parametrize("text", ["{", '{"a"', "[1", '"x', '{"a":1,'])
def test_what_is_no_json_is_told_also_before_json_was_imported(text: str) -> None:
    program = (
        "import sys\nfrom verbs.fast_json import parse\nassert 'json' not in sys.modules\n"
        f"try:\n    parse({text.encode()!r})\nexcept ValueError:\n    sys.exit(0)\nsys.exit(1)"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=BOUND_S).returncode == 0


def test_a_plain_answer_is_read_without_json() -> None:
    program = (
        "import sys\nfrom verbs.fast_json import parse\n"
        f"assert parse({DOCUMENTS[0]!r})['id'] == 2\nassert 'json' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_a_python_without_the_c_module_reads_and_writes_the_same() -> None:
    program = (
        "import sys\nsys.modules['_json'] = None\nfrom verbs.fast_json import parse, quote\n"
        f"assert parse({DOCUMENTS[0]!r})['id'] == 2\nassert quote('é\\n') == '\"é\\\\n\"'"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
