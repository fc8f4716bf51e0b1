"""`comm-relay`: send one message to a handle on any box, and say what became of it (PROTOCOL Delivery).

The one result is `filed -> @h` on standard output with exit 0, or `FAILED -> @h: <reason>` on standard error
with exit 1. Usage errors exit 2, an interrupt 130 (WIRE section 8).

Only what a send on a Unix socket needs is imported here: the command starts in a few milliseconds.
"""

import os
import sys
import time

from verbs.client import Accepted, NoAnswer, Refused, ask
from verbs.endpoints import NoDaemonError, SilentError, UnusableEndpointError, reach
from verbs.frames import (
    AGENT_SEND,
    COMM_FILE,
    UnsendableError,
    agent_send_frame,
    comm_file_frame,
    hello_frame,
    too_large,
)
from verbs.identity import NoIdentityError, identify
from verbs.terminal import one_line, say
from wire.limits import LOCK_WAIT_S, MAX_FRAME_BYTES, WINDOW_EXTRA_S

USAGE = (
    'usage: comm-relay send @HANDLE "TEXT" | @HANDLE --file PATH | --all "TEXT"  '
    "[--from NAME] [--endpoint ENDPOINT]"
)
HELP = f"""{USAGE}

Sends one message to the inbox of a session, on whichever box it runs, and says what became of it:
`filed -> @HANDLE` (exit 0), or `FAILED -> @HANDLE: why` (exit 1). A message is never queued or sent twice.

  comm-relay send @MyRepo-lab "the build is green"     several words are joined by a space
  comm-relay send @MyRepo-lab @me is not a recipient   only the first @ is
  comm-relay send @MyRepo-lab --file report.md         the file's bytes, whole; they are UTF-8
  git diff | comm-relay send @MyRepo-lab --file -      the same of standard input
  comm-relay send @MyRepo-lab -- --all is an option    nothing after -- is
  comm-relay send --all "hub restarts at noon"         a notice to every connection, not mail

  --from NAME          the sender: else $SOT_COMM_NAME, else this session's self file (see comm-join)
  --endpoint ENDPOINT  the daemon: unix:/path, ssh:target, ws://host:port/, wss://host/, or on Windows
                       pipe:name; else $SOT_RELAY_ENDPOINT, else this box's link, its hub, or what
                       hosts.toml says
  -h, --help           this page
  --version            the release

$SOT_INBOX_LOCK_WAIT_SECS moves how long an answer is waited for: it and 3 seconds, 5 in all by default.
`comm-relay bridge` is retired; mail needs no bridge."""

RETIRED = "comm-relay: bridge is retired: mail needs no bridge. There is nothing to do; this loop now sleeps."

_INTERRUPTED = 130
_LOCK_WAIT_VARIABLE = "SOT_INBOX_LOCK_WAIT_SECS"
_LONGEST_LOCK_WAIT_S = 3600
_LONG_S = 86_400


class UsageError(Exception):
    """A command line that says nothing clear; str() is what is wrong with it."""


class FailedError(Exception):
    """A send that ended before anything was sent; str() is the reason."""


class Send:
    """What a command line asks for. Without `to` it goes to every connection."""

    __slots__ = ("endpoint", "file", "sender", "text", "to")

    def __init__(
        self, to: str | None, text: str | None, file: str | None, sender: str | None, endpoint: str | None
    ) -> None:
        self.to = to
        self.text = text
        self.file = file
        self.sender = sender
        self.endpoint = endpoint

    @property
    def target(self) -> str:
        """What the result's line calls the receiver."""
        return "all" if self.to is None else one_line(f"@{self.to}")


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    words = sys.argv[1:] if argv is None else argv
    verb, rest = (words[0], words[1:]) if words else ("", [])
    try:
        return _run(verb, rest)
    except UsageError as error:
        say(f"comm-relay: {one_line(str(error))}\n{USAGE}", error=True)
        return 2
    except KeyboardInterrupt:
        say("comm-relay: interrupted; nothing was sent", error=True)
        return _INTERRUPTED


def _run(verb: str, words: list[str]) -> int:
    if verb == "bridge":
        return _bridge()
    if verb in {"-h", "--help", "help"} or (verb == "send" and _asks(words, {"-h", "--help"})):
        say(HELP)
        return 0
    if verb == "--version" or (verb == "send" and _asks(words, {"--version"})):
        from wire.version import VERSION

        say(f"comm-relay {VERSION}")
        return 0
    if verb != "send":
        raise UsageError(_unknown_verb(verb))
    return _send(parse_send(words))


def parse_send(words: list[str]) -> Send:
    """Read what follows `send`. Options may stand anywhere before `--`. Raises UsageError."""
    options: dict[str, str] = {}
    text: list[str] = []
    to: str | None = None
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            rest, left = left, []
        elif _is_option(word):
            _take_option(word, left, options)
            continue
        else:
            rest = [word]
        for positional in rest:
            if to is None and not text and "--all" not in options and positional[:1] == "@":
                to = positional[1:]
            else:
                text.append(positional)
    if "--all" in options:
        if to is not None:
            raise UsageError(f"--all goes to everyone and takes no recipient, and @{to} was given")
    elif to is None:
        raise UsageError(_no_recipient(text))
    _check_message(options, text)
    return Send(
        to,
        " ".join(text) if text else None,
        options.get("--file"),
        options.get("--from"),
        options.get("--endpoint"),
    )


def _send(command: Send) -> int:
    try:
        sender = identify(command.sender, os.environ).handle
        frames, op = _frames(command, sender)
        window_s = _window_s()
    except (FailedError, NoIdentityError, UnsendableError) as error:
        return _failed(command, str(error))
    deadline = time.monotonic() + window_s
    try:
        endpoint, channel = reach(command.endpoint, os.environ, deadline)
    except (NoDaemonError, UnusableEndpointError) as error:
        return _failed(command, str(error))
    except SilentError as error:
        return _failed(command, _did_not_answer(error.endpoint, error.words))
    try:
        match ask(channel, frames, op, deadline):
            case Accepted(payload):
                return _accepted(command, payload)
            case Refused(reason):
                return _failed(command, reason)
            case NoAnswer():
                return _failed(command, _did_not_answer(endpoint, channel.words))
    except KeyboardInterrupt:
        if not channel.sent:
            raise
        _failed(
            command,
            "interrupted before an answer came; the request was sent, so nothing is known of its end",
        )
        return _INTERRUPTED
    finally:
        channel.close()


def _frames(command: Send, sender: str) -> tuple[tuple[bytes, bytes], str]:
    from topology.names import HostNameError, self_host

    text = _read(command.file) if command.file is not None else command.text or ""
    try:
        hello = hello_frame(self_host(os.environ), sender)
    except HostNameError as error:
        raise FailedError(f"{error}; nothing was sent") from None
    if command.to is None:
        return (hello, agent_send_frame(sender, text)), AGENT_SEND
    return (hello, comm_file_frame(sender, command.to, text)), COMM_FILE


def _read(path: str) -> str:
    """Return the text of a file, or of standard input. It is read only as far as a frame could hold it."""
    name = "standard input" if path == "-" else path
    try:
        with open(0 if path == "-" else path, "rb", closefd=path != "-") as file:
            data = file.read(MAX_FRAME_BYTES + 1)
            size = os.fstat(file.fileno()).st_size  # 0 for a pipe
    except OSError as error:
        raise FailedError(f"{name} could not be read: {error.strerror}; nothing was sent") from None
    if len(data) > MAX_FRAME_BYTES:
        known = f"is {size} bytes" if size > MAX_FRAME_BYTES else f"is more than {MAX_FRAME_BYTES} bytes"
        raise FailedError(too_large(known))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FailedError(f"{name} is not UTF-8 at byte {error.start}; nothing was sent") from None


def _window_s() -> float:
    """Return how long an answer is waited for: the lock wait and 3 s (PROTOCOL "The one result").

    The same variable, range and sentence as the daemons' `wire.settings`, which is too much to import.
    """
    text = os.environ.get(_LOCK_WAIT_VARIABLE, "")
    if not text:
        return LOCK_WAIT_S + WINDOW_EXTRA_S
    try:
        lock_wait_s = float(text)
    except ValueError:
        lock_wait_s = -1
    if not 0 <= lock_wait_s <= _LONGEST_LOCK_WAIT_S:
        raise FailedError(
            f"{_LOCK_WAIT_VARIABLE} is {text!r}; it takes a number from 0 to {_LONGEST_LOCK_WAIT_S}; "
            "nothing was sent"
        )
    return lock_wait_s + WINDOW_EXTRA_S


def _accepted(command: Send, payload: dict[str, object]) -> int:
    if command.to is None:
        receivers = payload.get("receivers")
        count = len(receivers) if isinstance(receivers, list) else 0
        say(f"relayed -> {count} connections")
    else:
        say(f"filed -> {command.target}")
    return 0


def _failed(command: Send, reason: str) -> int:
    say(f"FAILED -> {command.target}: {one_line(reason)}", error=True)
    return 1


def _did_not_answer(endpoint: str, words: str) -> str:
    sentence = f"the daemon did not answer at {endpoint}"
    words = words.strip()
    return f"{sentence}: {words}" if words else sentence


def _bridge() -> int:
    # Loops that an earlier release started run this again whenever it returns, so it does not.
    try:
        say(RETIRED, error=True)
        while True:
            if sys.platform == "win32":
                time.sleep(_LONG_S)
            else:
                import signal

                signal.pause()
    except KeyboardInterrupt:
        return _INTERRUPTED


def _asks(words: list[str], options: set[str]) -> bool:
    before = words[: words.index("--")] if "--" in words else words
    return not options.isdisjoint(before)


def _is_option(word: str) -> bool:
    # A "- point of a list" is text: no option's name holds white space.
    return word[:1] == "-" and word != "-" and not any(char.isspace() for char in word.partition("=")[0])


def _take_option(word: str, left: list[str], options: dict[str, str]) -> None:
    name, equals, value = word.partition("=")
    if name == "--all":
        if equals:
            raise UsageError("--all takes no value")
        options[name] = ""
        return
    if name not in {"--from", "--endpoint", "--file"}:
        raise UsageError(_unknown_option(name))
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


def _no_recipient(text: list[str]) -> str:
    if not text:
        return "there is no recipient: name one as @HANDLE, or give --all"
    first = text[0]
    if first and not any(char.isspace() for char in first):
        return f"a recipient begins with @: did you mean @{first}?"
    return "the first word is the recipient and begins with @, as in @MyRepo-lab"


def _unknown_option(name: str) -> str:
    if name == "--broadcast":
        return "--broadcast is not an option of comm-relay: broadcast mail is `comm-send --broadcast`"
    return f"unknown option {name}; a message that begins with - goes after --"


def _unknown_verb(verb: str) -> str:
    if not verb:
        return 'what is to be done? `comm-relay send @HANDLE "TEXT"` sends a message'
    if verb.startswith("@"):
        return f"did you mean `comm-relay send {verb} …`?"
    return f"unknown command {verb!r}; there is `send`"


if __name__ == "__main__":
    sys.exit(main())
