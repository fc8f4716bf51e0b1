"""The command line of the address-book verbs: argparse, with the house's manners on a terminal."""

import argparse
import sys
from collections.abc import Callable
from typing import IO, Any, NoReturn

from verbs.terminal import one_line, say

USAGE_EXIT = 2  # argparse's own, and the contract's
_INTERRUPTED = 130


class Options(argparse.ArgumentParser):
    """A verb's options. `does` says what it is for, `example` how it is typed.

    What it prints costs no traceback when nobody reads it, and a word it complains about reaches no terminal
    raw.
    """

    def __init__(self, command: str, does: str, example: str) -> None:
        super().__init__(
            prog=command,
            description=does,
            epilog=example,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.add_argument("--version", action=_Version, nargs=0, help="the release")

    def error(self, message: str) -> NoReturn:
        super().error(one_line(message))

    def _print_message(self, message: str, file: Any = None) -> None:
        say(message.rstrip("\n"), error=file is sys.stderr)


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from wire.version import VERSION

        say(f"{parser.prog} {VERSION}")
        parser.exit()


def run(command: str, body: Callable[[], int]) -> int:
    """Run a verb; return its exit code, 130 for an interrupt."""
    try:
        return body()
    except KeyboardInterrupt:
        say(f"{command}: interrupted", error=True)
        return _INTERRUPTED


def is_terminal(stream: IO[str] | None) -> bool:
    """Tell whether a person is reading. A stream that was closed before we started has no reader."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False
