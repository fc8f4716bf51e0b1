"""One of a crowd, as a process: `python -m tests.support.crowd send|read …` calls a verb's functions often.

The environment says who it is. It ends with the exit code of the first call that fails.
"""

import os
import sys

from filing.comm_folder import CommFolder
from filing.cursor import Counted, parse_cursor, read_cursor
from filing.fresh_read import ReadFailed
from topology.paths import comm_home
from verbs import comm_poll, comm_relay, comm_send
from verbs.identity import identify
from verbs.route_one import send_directed

BY_HAND = "by hand"  # route 1; any other way is the endpoint to send through
WHOLE_COMMAND_EVERY = 25  # else the append alone, without the sender's stamp in the registry
_LONG_EVERY, _LONG_CHARS = 20, 20_000  # more than a page, so that a torn line would show


def text_of(sender: str, number: int) -> str:
    """The sender's text of that number: no two are alike, and every byte of one follows from its name."""
    count = _LONG_CHARS if number % _LONG_EVERY == 0 else number % 97
    return f"{sender} {number} " + chr(ord("a") + number % 26) * count


def receiver(handles: list[str], number: int) -> str:
    """Whom the text of that number goes to: everybody in turn."""
    return handles[number % len(handles)]


def send(way: str, count: int, handles: list[str]) -> int:
    """Send `count` texts, one after the other."""
    sender = identify(None, os.environ)
    for number in range(count):
        to, text = receiver(handles, number), text_of(sender.handle, number)
        if way != BY_HAND:
            code = comm_relay.main(["send", "--endpoint", way, f"@{to}", text])
        elif number % WHOLE_COMMAND_EVERY == 0:
            code = comm_send.main([f"@{to}", text])
        else:
            own_append = send_directed(sender, to, text, os.environ, prove=True)
            print(f"{'  ' if own_append else ''}filed -> @{to}")
            code = 0
        if code != 0:
            return code
    return 0


def read(count: int) -> int:
    """Poll again and again until `count` lines have been shown."""
    handle = identify(None, os.environ).handle
    folder = CommFolder(comm_home(os.environ))
    while _shown(folder, handle) < count:
        code = comm_poll.main(["--json"])
        if code != 0:
            return code
    return 0


def _shown(folder: CommFolder, handle: str) -> int:
    data = read_cursor(folder, handle)
    assert not isinstance(data, ReadFailed), data
    cursor = parse_cursor(data)
    return cursor.count if isinstance(cursor, Counted) else 0


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    if what == "send":
        sys.exit(send(words[0], int(words[1]), words[2:]))
    sys.exit(read(int(words[0])))
