"""`comm-self-audit`: does each row's self file name that row's project (PROTOCOL Mail verbs).

Exit 0 when none names another project, 1 when one does or when that cannot be told, 2 usage.
"""

import json
import os
import sys
from typing import Any

from filing.fresh_read import ReadFailed, error_text
from filing.self_file import Audit, Finding, SelfFile, audit_slot, read_slots
from topology.names import HostNameError, self_host
from topology.paths import comm_home
from verbs.address_book import failed
from verbs.options import Options, run
from verbs.terminal import one_line, say

COMMAND = "comm-self-audit"
_DOES = (
    "Compares the key of each row's self file with the project it carries. A row whose file names another\n"
    "project's session reads that session's mail; such a file is reported."
)
_EXAMPLE = """examples:
  comm-self-audit               what is wrong, and a count of the rest
  comm-self-audit --verbose     each file, with what was found

exit codes: 0 none names another project; 1 one does, or could not be read; 2 usage"""
_WAY_OUT = "comm-join, run in such a row in its own project's folder, mends it (--repin where it refuses)"
_FAULTS = {Audit.DIFFERS, Audit.UNREADABLE}


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    return run(COMMAND, lambda: _main(argv))


def _main(argv: list[str] | None) -> int:
    options = Options(COMMAND, _DOES, _EXAMPLE)
    options.add_argument("-v", "--verbose", action="store_true", help="list every self file")
    options.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
    given = options.parse_args(argv)
    home = comm_home(os.environ)
    try:
        slots = read_slots(home)
    except FileNotFoundError:
        slots = []  # nobody has joined here
    except OSError as error:
        return failed(f"the self files of {home} could not be read: {error_text(error)}; nothing was audited")
    try:
        host = self_host(os.environ)
    except HostNameError:
        host = ""  # it only helps to part a host from a row where both hold "__"
    findings = [audit_slot(name, own, host) for name, own in slots]
    if given.as_json:
        say(json.dumps({"folder": os.path.join(home, "self"), "slots": [_as_json(f) for f in findings]}))  # noqa: PTH118
    else:
        _say(findings, every=given.verbose)
    return 1 if any(finding.audit in _FAULTS for finding in findings) else 0


def _say(findings: list[Finding], *, every: bool) -> None:
    for finding in findings:
        if every or finding.audit in _FAULTS:
            say(one_line(_line(finding)))
    counts = [(sum(f.audit is audit for f in findings), audit) for audit in Audit]
    told = ", ".join(f"{count} {_COUNTED[audit]}" for count, audit in counts if count)
    say(f"{COMMAND}: {told or 'no self files'}")
    if any(finding.audit is Audit.DIFFERS for finding in findings):
        say(_WAY_OUT, error=True)


_COUNTED = {
    Audit.AGREES: "agree",
    Audit.SUFFIXED: "agree but for a suffix",
    Audit.DIFFERS: "name another project",
    Audit.NO_REPO: "carry no repo=",
    Audit.UNREADABLE: "could not be read",
    Audit.NOT_A_ROW: "belong to no row",
}


def _line(finding: Finding) -> str:
    label = "DIFFERS" if finding.audit is Audit.DIFFERS else finding.audit.value
    line = f"{label:<12} {finding.name}"
    match finding.own:
        case ReadFailed(why=why):
            return f"{line}: {why}"
        case SelfFile(handle=handle, repo=repo):
            said = f"repo={repo}" if repo else "no repo="
            row = f", in a row of {finding.key_slug}" if finding.audit is Audit.DIFFERS else ""
            return f"{line}: names @{handle}, {said}{row}"
        case None:
            return f"{line}: names nobody"


def _as_json(finding: Finding) -> dict[str, Any]:
    told: dict[str, Any] = {"file": finding.name, "audit": finding.audit.value, "key": finding.key_slug}
    match finding.own:
        case SelfFile(handle=handle, repo=repo, root=root):
            told |= {"handle": handle, "repo": repo, "root": root}
        case ReadFailed(why=why):
            told["why"] = why
        case None:
            pass
    return told


if __name__ == "__main__":
    sys.exit(main())
