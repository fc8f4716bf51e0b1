import contextlib

import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

from topology.hosts_file import parse
from topology.toml_lines import Header, Key, entries


def found(text: str) -> list[Header | Key]:
    tomli.loads(text)  # the walk is made for text that tomli takes
    return list(entries(text))


@pytest.mark.parametrize(
    "value",
    [
        "1",
        "'it''s'".replace("''", ""),
        '"a \\" # [x] = "',
        "'\\'",
        '"\\\\"',
        '""',
        "''",
        "'''\n[x]\nk = 1\n'''",
        '"""\n[x]\n# " "" \\""" k = 1\n"""',
        '""""quoted""""',
        '"""""two quotes at both ends"""""',
        "'''''two at both ends'''''",
        "''''''",
        '"""a\\\n\n   b"""',
        "[1, 2]",
        "[\n  1, # ] a bracket in a comment\n  '''\n]''',\n  [ [], {a = 1} ],\n]",
        '{ a = 1, "b" = "}", c = { d = [\n1\n] } }',
        "1979-05-27T07:32:00Z",
        "true # [comment]",
    ],
)
def test_a_value_of_any_kind_ends_where_the_next_line_begins(value: str) -> None:
    line = value.count("\n") + 2
    text = f"k = {value}\nnext = 1\n\n[t]"
    assert found(text) == [Key(1, ("k",)), Key(line, ("next",)), Header(line + 2, ("t",), array=False)]
    crlf = found(text.replace("\n", "\r\n"))
    assert crlf == found(text)


def test_names_are_split_as_toml_does() -> None:
    text = ' [ a . "b.c" . \'d]\' ] # comment\n\t"x=\\u0041 # ".y\t.z=1\n[[q]]\n"" = 1\n[ \'x[\' ]\n1.2-_ = 3'
    assert found(text) == [
        Header(1, ("a", "b.c", "d]"), array=False),
        Key(2, ("x=A # ", "y", "z")),
        Header(3, ("q",), array=True),
        Key(4, ("",)),
        Header(5, ("x[",), array=False),
        Key(6, ("1", "2-_")),
    ]


def test_there_may_be_nothing() -> None:
    assert found("") == found("\n# only\n\n  # comments") == []


@pytest.mark.parametrize(
    "text", ["k", "k\n= 1", "[k", "[k\n]", "[]", "[#]", "= 1", "k = 'x", 'k = "x\\', "'k = 1", "a b = 1"]
)
def test_text_that_is_not_toml_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        list(entries(text))


@given(st.text(alphabet="ab.=[]{}\"'#\\\n\r ,1"))
def test_the_walk_ends_on_any_text(text: str) -> None:
    with contextlib.suppress(ValueError):
        for entry in entries(text):
            assert 1 <= entry.line <= text.count("\n") + 1


# Files of our shape, written piece by piece with the line of each piece noted.

LABEL = st.text("abc019-_", min_size=1, max_size=4)
HOST = st.lists(LABEL, min_size=1, max_size=3).map(".".join).filter(lambda name: name[0] not in "-_")
QUOTED = st.text(
    st.characters(codec="utf-8", exclude_characters="'", exclude_categories=("Cc", "Cs")), max_size=5
)
BASIC = st.text(max_size=6).map(
    lambda text: "".join(f"\\U{ord(c):08X}" for c in text if not "\ud800" <= c <= "\udfff")
)
VALUE = st.one_of(
    st.sampled_from(["true", "1", "-0.5", "1979-05-27", "[]", "[\n'#', # ]\n]", "[{a = '}'}]"]),
    QUOTED.map(lambda text: f"'{text}'"),
    BASIC.map(lambda text: f'"{text}"'),
    st.lists(QUOTED | st.just("''"), max_size=3).map(lambda lines: "'''" + "\n[x]\n".join(lines) + "\n'''"),
    st.lists(BASIC | st.just('""'), max_size=3).map(lambda lines: '"""' + "\nk = 1\n".join(lines) + '\n"""'),
)
BETWEEN = st.sampled_from(["", "\n", "# comment ' \"\n", "  \t\n\n"])
TAIL = st.sampled_from(["\n", " # [host.x]\n", "\t#'\n", "\r\n"])


@st.composite
def files(draw: st.DrawFn) -> tuple[str, list[Header | Key]]:
    written: list[Header | Key] = [Key(1, ("hub",))]
    text = "hub = 'a'\n"
    hosts = draw(st.lists(HOST.filter(lambda name: name != "a"), unique=True, max_size=4))
    for number, host in enumerate(["a", *hosts]):
        text += draw(BETWEEN)
        quoted = draw(st.booleans())
        parts = ("host", host) if quoted else ("host", *host.split("."))
        written.append(Header(text.count("\n") + 1, parts, array=False))
        text += (f'[ host."{host}" ]' if quoted else f"[host.{host}]") + draw(TAIL)
        for key in draw(st.lists(LABEL.map("x".__add__), unique=True, max_size=3)):
            text += draw(BETWEEN)
            written.append(Key(text.count("\n") + 1, (key,)))
            text += f"{key} = {draw(VALUE)}{draw(TAIL)}"
        if number == 0:
            written.append(Key(text.count("\n") + 1, ("daemon",)))
            text += "daemon = true\n"
    return text, written


@given(files())
def test_each_header_and_key_is_found_at_its_line(file: tuple[str, list[Header | Key]]) -> None:
    text, written = file
    assert found(text) == written


@given(files())
def test_each_host_and_warning_of_such_a_file_is_told_as_it_was_written(
    file: tuple[str, list[Header | Key]],
) -> None:
    text, written = file
    topology = parse(text.encode(), "hosts.toml")
    assert [host.name for host in topology.hosts] == [
        ".".join(entry.parts[1:]) for entry in written if isinstance(entry, Header)
    ]
    unknown = [
        entry for entry in written if isinstance(entry, Key) and entry.parts[0] not in {"hub", "daemon"}
    ]
    assert [(warning.line, warning.key) for warning in topology.warnings] == [
        (k.line, k.parts[0]) for k in unknown
    ]
