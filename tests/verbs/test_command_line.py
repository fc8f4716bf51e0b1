"""How `comm-relay` reads its words."""

from typing import Any

import pytest

from tests.verbs.support import Box
from verbs import comm_relay
from verbs.comm_relay import USAGE, UsageError, parse_send

READ: list[tuple[list[str], dict[str, Any]]] = [
    (["@h", "hi"], {"to": "h", "text": "hi"}),
    (["@h", "one", "two  words", "three"], {"to": "h", "text": "one two  words three"}),
    (["@h", ""], {"to": "h", "text": ""}),
    (["@h", "@other", "look"], {"to": "h", "text": "@other look"}),
    (["@h", "- a point"], {"to": "h", "text": "- a point"}),
    (["@h", "-"], {"to": "h", "text": "-"}),
    (["@h", "--all the king's men"], {"to": "h", "text": "--all the king's men"}),
    (["@h", "a=b", "--", "--file", "--", "-x"], {"to": "h", "text": "a=b --file -- -x"}),
    (["--", "@h", "hi"], {"to": "h", "text": "hi"}),
    (["@h", "--", "@x"], {"to": "h", "text": "@x"}),
    (["--", "@h", "@x"], {"to": "h", "text": "@x"}),
    (["@", "hi"], {"to": "", "text": "hi"}),
    (["@h", "--file", "notes.md"], {"to": "h", "file": "notes.md"}),
    (["@h", "--file=-"], {"to": "h", "file": "-"}),
    (["--file", "-", "@h"], {"to": "h", "file": "-"}),
    (["@h", "--file=--odd name"], {"to": "h", "file": "--odd name"}),
    (["@h", "hi", "--from", "me"], {"to": "h", "text": "hi", "sender": "me"}),
    (["--from=@me", "@h", "hi"], {"to": "h", "text": "hi", "sender": "me"}),
    (["@h", "--endpoint=unix:/a=b", "hi"], {"to": "h", "text": "hi", "endpoint": "unix:/a=b"}),
    (["--endpoint", "ssh:hub", "@h", "hi"], {"to": "h", "text": "hi", "endpoint": "ssh:hub"}),
    (["--all", "hi", "there"], {"text": "hi there"}),
    (["--all", "@everyone", "hi"], {"text": "@everyone hi"}),
    (["hi", "--all"], {"text": "hi"}),
    (["--all", "--file", "f"], {"file": "f"}),
]


@pytest.mark.parametrize(("words", "expected"), READ, ids=" ".join)
def test_what_is_sent_to_whom(words: list[str], expected: dict[str, Any]) -> None:
    command = parse_send(words)
    read = {name: getattr(command, name) for name in ("to", "text", "file", "sender", "endpoint")}
    assert read == {"to": None, "text": None, "file": None, "sender": None, "endpoint": None, **expected}


REFUSED = [
    ([], "there is no recipient: name one as @HANDLE, or give --all"),
    (["h", "hi"], "a recipient begins with @: did you mean @h?"),
    (["h", "@h"], "a recipient begins with @: did you mean @h?"),
    (["hi there"], "the first word is the recipient and begins with @, as in @MyRepo-lab"),
    ([""], "the first word is the recipient and begins with @, as in @MyRepo-lab"),
    (["@h"], 'there is no message: give its text (may be ""), or --file PATH'),
    (["--all"], 'there is no message: give its text (may be ""), or --file PATH'),
    (["@h", "--all", "hi"], "--all goes to everyone and takes no recipient, and @h was given"),
    (["@h", "hi", "--file", "f"], "--file f is the message, and so is 'hi': give one of them"),
    (["@h", "", "--file", "f"], "--file f is the message, and so is '': give one of them"),
    (["@h", "--fiel", "f"], "unknown option --fiel; a message that begins with - goes after --"),
    (["@h", "--fiel=my notes"], "unknown option --fiel; a message that begins with - goes after --"),
    (["@h", "-5"], "unknown option -5; a message that begins with - goes after --"),
    (["@h", "--all=yes", "hi"], "--all takes no value"),
    (
        ["--broadcast", "hi"],
        "--broadcast is not an option of comm-relay: broadcast mail is `comm-send --broadcast`",
    ),
    (["@h", "hi", "--from"], "--from needs a value"),
    (["@h", "run", "ls", "-h"], "unknown option -h; a message that begins with - goes after --"),
    (["@h", "hi", "--from", "--endpoint"], "--from needs a value"),
    (["@h", "hi", "--from="], "--from needs a value, and it is empty"),
    (["@h", "hi", "--from", "@"], "--from needs a value, and it is empty"),
    (["@h", "hi", "--endpoint", ""], "--endpoint needs a value, and it is empty"),
    (["@h", "hi", "--from=a", "--from=b"], "--from is given twice"),
]


@pytest.mark.parametrize(
    ("words", "sentence"), REFUSED, ids=lambda value: value if isinstance(value, str) else ""
)
def test_what_is_a_usage_error(words: list[str], sentence: str) -> None:
    with pytest.raises(UsageError) as told:
        parse_send(words)
    assert str(told.value) == sentence


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], 'what is to be done? `comm-relay send @HANDLE "TEXT"` sends a message'),
        (["@h", "hi"], "did you mean `comm-relay send @h …`?"),
        (["sned", "@h"], "unknown command 'sned'; there is `send`"),
        (["send", "h\nx", "hi"], "the first word is the recipient and begins with @, as in @MyRepo-lab"),
        (["send", "@h\n", "--all"], "--all goes to everyone and takes no recipient, and @h  was given"),
    ],
)
def test_a_usage_error_exits_2_with_a_usage_line(
    capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    assert comm_relay.main(words) == 2
    assert capsys.readouterr() == ("", f"comm-relay: {sentence}\n{USAGE}\n")


@pytest.mark.parametrize(
    "words", [["-h"], ["--help"], ["help"], ["send", "--help"], ["send", "-h", "@h", "x"]]
)
def test_help_shows_examples(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert comm_relay.main(words) == 0
    out, err = capsys.readouterr()
    assert "comm-relay send @MyRepo-lab" in out
    assert err == ""


@pytest.mark.parametrize("words", [["--version"], ["send", "--version"]])
def test_the_version(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    from wire.version import VERSION

    assert comm_relay.main(words) == 0
    assert capsys.readouterr().out == f"comm-relay {VERSION}\n"


def test_help_after_two_dashes_is_text(box: Box) -> None:
    with box.daemon() as daemon:
        assert box.relay("send", "@h", "--", "--help").code == 0
        assert daemon.requests[0]["payload"]["text"] == "--help"


def test_without_arguments_the_process_s_own_are_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["comm-relay", "--help"])
    assert comm_relay.main() == 0
    assert USAGE in capsys.readouterr().out
