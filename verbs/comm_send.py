"""`comm-send`: mail one session, or all that are live (PROTOCOL Mail and address-book verbs, Delivery).

For each receiver one line: `filed -> @h` on standard output (indented where this command appended it itself),
or `FAILED -> @h: <reason>` on standard error. Exit 0 all filed, 1 FAILED, 2 usage, 130 interrupted.

Nothing is imported before it is needed: a usage error or a missing sender costs a few milliseconds.
"""

import os
import sys

from verbs.frames import UnsendableError
from verbs.identity import NoIdentityError, identify
from verbs.sending import (
    INTERRUPTED,
    FailedError,
    handle_shown,
    read_message,
    say_failed,
    say_filed,
)
from verbs.terminal import one_line, say
from verbs.words import UsageError, Words, asks, read_words

USAGE = 'usage: comm-send @HANDLE "TEXT" | @HANDLE --file PATH | --broadcast "TEXT"'
HELP = f"""{USAGE}

Puts one message into the durable inbox of a session, on whichever box it runs, and says what became of it:
`filed -> @HANDLE` (exit 0), or `FAILED -> @HANDLE: why` (exit 1). A message is never queued or sent twice.

  comm-send @MyRepo-lab "the build is green"     several words are joined by a space
  comm-send @MyRepo-lab @me is not a recipient   only the first @ is
  comm-send @MyRepo-lab --file report.md         the file's bytes, whole; they are UTF-8
  git diff | comm-send @MyRepo-lab --file -      the same of standard input
  comm-send @MyRepo-lab -- --broadcast is text   nothing after -- is an option
  comm-send --broadcast "hub restarts at noon"   one copy for each live handle of this box's registry

  -h, --help           this page
  --version            the release

The sender is $SOT_COMM_NAME, else this session's self file (see comm-join); it must have its registry row,
made in this project. A broadcast copy is shown at the receiver's next poll and wakes nobody.
$SOT_INBOX_LOCK_WAIT_SECS moves how long a held inbox is waited for (2 s)."""

TYPE_CHECKING = False  # a type checker takes it for true; `typing` costs start-up time
if TYPE_CHECKING:
    from verbs.route_one import Desk

_TO_ALL = "--broadcast"
_HINTS = {
    "--all": "--all is a notice to connections, of comm-relay; mail to everyone is --broadcast",
    "--from": "--from is an option of comm-relay; the sender is this session, or $SOT_COMM_NAME",
    "--endpoint": "--endpoint is an option of comm-relay; comm-send finds the way by itself",
}


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    words = sys.argv[1:] if argv is None else argv
    try:
        return _run(words)
    except UsageError as error:
        say(f"comm-send: {one_line(str(error))}\n{USAGE}", error=True)
        return 2
    except KeyboardInterrupt:
        say("comm-send: interrupted; nothing was sent", error=True)
        return INTERRUPTED


def _run(words: list[str]) -> int:
    if asks(words, {"-h", "--help"}):
        say(HELP)
        return 0
    if asks(words, {"--version"}):
        from wire.version import VERSION

        say(f"comm-send {VERSION}")
        return 0
    return _send(read_words(words, everyone=_TO_ALL, valued=("--file",), hints=_HINTS))


def _send(words: Words) -> int:
    try:
        sender = identify(None, os.environ)
        file = words.options.get("--file")
        text = read_message(file) if file is not None else words.text or ""
        from verbs.route_one import deliver, open_desk

        desk = open_desk(sender, os.environ, prove=True)
        if words.to is None:
            code = _broadcast(desk, text)
        else:
            say_filed(words.to, own_append=deliver(desk, words.to, text, os.environ))
            code = 0
    except NoIdentityError as error:
        return say_failed(_target(words), FailedError(_no_sender(error)))
    except (FailedError, UnsendableError) as error:
        return say_failed(_target(words), error)
    if code != INTERRUPTED:
        _touch(desk)
    return code


def _broadcast(desk: "Desk", text: str) -> int:
    """Send each live handle its copy. One that fails holds up no other."""
    from verbs.route_one import file_here, others_live

    receivers = others_live(desk)
    filed = 0
    code = 0
    for to, entry in receivers.items():
        try:
            say_filed(to, own_append=file_here(desk, to, entry, text, os.environ, broadcast=True))
            filed += 1
        except (FailedError, UnsendableError) as error:
            code = max(code, say_failed(handle_shown(to), error))
        except KeyboardInterrupt:  # nothing of this copy was sent
            code = INTERRUPTED
        if code == INTERRUPTED:
            break
    say(f"broadcast -> {filed} of {len(receivers)} live sessions")
    return code


def _touch(desk: "Desk") -> None:
    from verbs.route_one import touch_sender

    try:  # noqa: SIM105  # contextlib is imported by then, and this reads no worse
        touch_sender(desk)
    except KeyboardInterrupt:
        pass  # the message is filed, and that was said


def _target(words: Words) -> str:
    return _TO_ALL if words.to is None else handle_shown(words.to)


def _no_sender(error: NoIdentityError) -> str:
    return f"no sender: {error.why}; join first (comm-join), or set SOT_COMM_NAME; nothing was sent"


if __name__ == "__main__":
    sys.exit(main())
