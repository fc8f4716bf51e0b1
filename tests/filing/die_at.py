"""For each home given: fork a child that appends two lines there, and ends by `_exit` at its n-th call."""

import os
import sys

from filing.comm_folder import CommFolder
from filing.inbox import Inboxes
from tests.filing.test_inbox import Faulty, line


def append_and_die(home: str, at: int) -> None:
    def die(_: str) -> None:
        os._exit(9)

    Inboxes(CommFolder(home), Faulty(at, die)).append("h", [line("x"), line("y")])


if __name__ == "__main__" and sys.platform != "win32":
    for number, its_home in enumerate(sys.argv[1:], 1):
        child = os.fork()
        if child == 0:
            append_and_die(its_home, number)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 9, number
