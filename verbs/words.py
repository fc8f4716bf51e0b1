"""The command line of the verbs that send: a recipient, a message, options anywhere before `--`.

By hand, since `argparse` costs start-up time and would take a message for an option.
"""

from _collections_abc import Collection, Mapping  # collections.abc under the name that is loaded already


class UsageError(Exception):
    """A command line that says nothing clear; str() is what is wrong with it."""


class Words:
    """What was typed. `to` is None where it goes to everyone; `text` is None where a file is the message."""

    __slots__ = ("options", "text", "to")

    def __init__(self, to: str | None, text: str | None, options: dict[str, str]) -> None:
        self.to = to
        self.text = text
        self.options = options


def read_words(
    words: list[str], *, everyone: str, valued: Collection[str], hints: Mapping[str, str]
) -> Words:
    """Read a command line. Only the first positional @word is the recipient: a message may begin with one.

    `everyone` is the option that takes the recipient's place, `valued` are those that have a value, `hints`
    what to say to an option of another command. Raises UsageError.
    """
    options: dict[str, str] = {}
    text: list[str] = []
    to: str | None = None
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            rest, left = left, []
        elif _is_option(word):
            _take_option(word, left, options, everyone, valued, hints)
            continue
        else:
            rest = [word]
        for positional in rest:
            if to is None and not text and everyone not in options and positional[:1] == "@":
                to = positional[1:]
            else:
                text.append(positional)
    if everyone in options:
        if to is not None:
            raise UsageError(f"{everyone} goes to everyone and takes no recipient, and @{to} was given")
    elif to is None:
        raise UsageError(_no_recipient(text, everyone))
    _check_message(options, text)
    return Words(to, " ".join(text) if text else None, options)


def asks(words: list[str], options: set[str]) -> bool:
    """Tell whether one of `options` stands before any other word but options.

    Behind them it is part of a message that lacks its `--`, and a page with exit 0 would look like a send.
    """
    for word in words:
        if word in options:
            return True
        if word == "--" or not _is_option(word):
            return False
    return False


def _is_option(word: str) -> bool:
    # A "- point of a list" is text: no option's name holds white space.
    return word[:1] == "-" and word != "-" and not any(char.isspace() for char in word.partition("=")[0])


def _take_option(
    word: str,
    left: list[str],
    options: dict[str, str],
    everyone: str,
    valued: Collection[str],
    hints: Mapping[str, str],
) -> None:
    name, equals, value = word.partition("=")
    if name == everyone:
        if equals:
            raise UsageError(f"{everyone} takes no value")
        options[name] = ""
        return
    if name not in valued:
        why = hints.get(name)
        raise UsageError(why or f"unknown option {name}; a message that begins with - goes after --")
    if name in options:
        raise UsageError(f"{name} is given twice")
    if not equals:
        if not left or left[0][:2] == "--":
            raise UsageError(f"{name} needs a value")
        value = left.pop(0)
    if name == "--from":
        value = value.removeprefix("@")  # no handle begins with one
    if not value:
        raise UsageError(f"{name} needs a value, and it is empty")
    options[name] = value


def _check_message(options: dict[str, str], text: list[str]) -> None:
    if "--file" in options and text:
        raise UsageError(
            f"--file {options['--file']} is the message, and so is {text[0]!r}: give one of them"
        )
    if "--file" not in options and not text:
        raise UsageError('there is no message: give its text (may be ""), or --file PATH')


def _no_recipient(text: list[str], everyone: str) -> str:
    if not text:
        return f"there is no recipient: name one as @HANDLE, or give {everyone}"
    first = text[0]
    if first and not any(char.isspace() for char in first):
        return f"a recipient begins with @: did you mean @{first}?"
    return "the first word is the recipient and begins with @, as in @MyRepo-lab"
