"""`comm-relay`: send one message to a handle on any box, and say what became of it (PROTOCOL Delivery).

The one result is `filed -> @h` on standard output with exit 0, or `FAILED -> @h: <reason>` on standard error
with exit 1. Usage errors exit 2, an interrupt 130 (WIRE section 8).

Only what a send on a Unix socket needs is imported here: the command starts in a few milliseconds.
"""

import os
import sys
import time

from topology.paths import comm_home
from verbs.endpoints import VARIABLE, reach
from verbs.fast_json import parse
from verbs.frames import AGENT_SEND, COMM_FILE, UnsendableError, agent_send_frame, comm_file_frame
from verbs.identity import Identity, NoIdentityError, identify
from verbs.sending import (
    INTERRUPTED,
    FailedError,
    ask_daemon,
    handle_shown,
    hello,
    read_message,
    say_failed,
    say_filed,
    window_s,
)
from verbs.terminal import one_line, say
from verbs.words import UsageError, asks, read_words

__all__ = ["HELP", "RETIRED", "USAGE", "Send", "UsageError", "main", "parse_send"]

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
                       hosts.toml says. Where neither names one, a handle that this box's registry
                       lists is filed as comm-send files it
  -h, --help           this page
  --version            the release

$SOT_INBOX_LOCK_WAIT_SECS moves how long an answer is waited for: it and 3 seconds, 5 in all by default.
`comm-relay bridge` is retired; mail needs no bridge."""

RETIRED = "comm-relay: bridge is retired: mail needs no bridge. There is nothing to do; this loop now sleeps."

_LONG_S = 86_400
_OPTIONS = ("--from", "--endpoint", "--file")
_HINTS = {
    "--broadcast": "--broadcast is not an option of comm-relay: broadcast mail is `comm-send --broadcast`"
}


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
        return "all" if self.to is None else handle_shown(self.to)


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
        return INTERRUPTED


def _run(verb: str, words: list[str]) -> int:
    if verb == "bridge":
        return _bridge()
    if verb in {"-h", "--help", "help"} or (verb == "send" and asks(words, {"-h", "--help"})):
        say(HELP)
        return 0
    if verb == "--version" or (verb == "send" and asks(words, {"--version"})):
        from wire.version import VERSION

        say(f"comm-relay {VERSION}")
        return 0
    if verb != "send":
        raise UsageError(_unknown_verb(verb))
    return _send(parse_send(words))


def parse_send(words: list[str]) -> Send:
    """Read what follows `send`. Raises UsageError."""
    given = read_words(words, everyone="--all", valued=_OPTIONS, hints=_HINTS)
    options = given.options
    return Send(given.to, given.text, options.get("--file"), options.get("--from"), options.get("--endpoint"))


def _send(command: Send) -> int:
    try:
        sender = identify(command.sender, os.environ)
        text = read_message(command.file) if command.file is not None else command.text or ""
        if command.to is None:
            return _to_everyone(command, sender.handle, text)
        if _by_the_folder(command, sender, command.to):
            return _filed_by_the_folder(sender, command.to, text)
        frames = (hello(os.environ, sender.handle), comm_file_frame(sender.handle, command.to, text))
        _ask(command, frames, COMM_FILE)
        say_filed(command.to)
    except (FailedError, NoIdentityError, UnsendableError) as error:
        return say_failed(command.target, error)
    return 0


def _to_everyone(command: Send, sender: str, text: str) -> int:
    payload = _ask(command, (hello(os.environ, sender), agent_send_frame(sender, text)), AGENT_SEND)
    receivers = payload.get("receivers")
    count = len(receivers) if isinstance(receivers, list) else 0
    say(f"relayed -> {count} connections")
    return 0


def _ask(command: Send, frames: tuple[bytes, bytes], op: str) -> dict[str, object]:
    return ask_daemon(
        lambda deadline: reach(command.endpoint, os.environ, deadline), frames, op, window_s(os.environ)
    )


def _by_the_folder(command: Send, sender: Identity, to: str) -> bool:
    """Tell whether this box's registry has to be asked: for the receiver, or for proof of the sender.

    An endpoint that somebody named is the one to ask. Else a sender by a self file is proved first, and a
    document that holds no such name lists no such handle. What cannot be read is never taken for "no".
    """
    if command.endpoint or os.environ.get(VARIABLE):
        return False
    path = os.path.join(comm_home(os.environ), "registry.json")  # noqa: PTH118  # pathlib costs start-up time
    try:
        # O_NONBLOCK: a FIFO in the file's place must not hold the send up.
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:  # noqa: PTH123
            data = file.read() or b""
    except (FileNotFoundError, NotADirectoryError):
        return False  # a box without a comm folder holds no handles
    except OSError:
        return True
    if sender.self_file is not None or not data or f'"{to}"'.encode("utf-8", "surrogatepass") in data:
        return True
    try:
        parse(data)
    except ValueError:
        return True
    return False


def _filed_by_the_folder(sender: Identity, to: str, text: str) -> int:
    from verbs.route_one import send_directed

    # Who names himself is taken at his word, as on the wire; and this command says "filed" in one way.
    send_directed(sender, to, text, os.environ, prove=sender.self_file is not None)
    say_filed(to)
    return 0


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
        return INTERRUPTED


def _unknown_verb(verb: str) -> str:
    if not verb:
        return 'what is to be done? `comm-relay send @HANDLE "TEXT"` sends a message'
    if verb.startswith("@"):
        return f"did you mean `comm-relay send {verb} …`?"
    return f"unknown command {verb!r}; there is `send`"


if __name__ == "__main__":
    sys.exit(main())
