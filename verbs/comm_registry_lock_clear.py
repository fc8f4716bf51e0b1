"""`comm-registry-lock-clear`: take a dead holder's registry lock off (PROTOCOL The registry lock).

It reclaims at once and with no deadline, and clears nothing that this box cannot prove dead. Exit 0 cleared
or free, 1 refused, 2 usage.
"""

import os
import sys

from filing.registry_lock import clear
from topology.paths import comm_home
from verbs.options import Options, run
from verbs.terminal import one_line, say

COMMAND = "comm-registry-lock-clear"
_DOES = (
    "Takes the registry lock off when this box proves that its holder is dead. A holder that may be alive\n"
    "keeps it: two writers would lose each other's rows. The refusal names the way out."
)
_EXAMPLE = """example:
  comm-registry-lock-clear      after a verb said FAILED: registry lock … is held by …

exit codes: 0 cleared, or free already; 1 refused; 2 usage"""


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    return run(COMMAND, lambda: _main(argv))


def _main(argv: list[str] | None) -> int:
    Options(COMMAND, _DOES, _EXAMPLE).parse_args(argv)
    answer = clear(comm_home(os.environ))
    say(one_line(answer.sentence), error=not answer.ok)
    return 0 if answer.ok else 1


if __name__ == "__main__":
    sys.exit(main())
