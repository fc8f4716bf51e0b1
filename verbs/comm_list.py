"""`comm-list`: everybody in the address book, the live ones first (PROTOCOL Mail and address-book verbs).

Reads and writes nothing. Exit 0, 1 when the registry could not be read, 2 usage.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from filing.comm_folder import CommFolder
from filing.cursor import read_cursor
from filing.fresh_read import ReadFailed, error_text
from filing.handles import is_handle
from filing.liveness import heartbeat_fresh
from filing.private_file import read_private
from filing.registry import REGISTRY_NAME, Listing, read_registry
from filing.unread import counts_for_the_shell, unread
from filing.value import Value
from topology.paths import comm_home
from verbs.address_book import failed, registry_notes
from verbs.identity import NoIdentityError, carried_row, identify, not_its_own
from verbs.options import Options, is_terminal, run
from verbs.project import project_here
from verbs.table import Cell, clean, lines
from verbs.terminal import say

COMMAND = "comm-list"
UNREADABLE = "the registry could not be read; nothing was listed"
_DOES = (
    "Lists everybody in the address book: handle, box, whether a session is live or how long ago it was,\n"
    "what it is doing, and which one is this session."
)
_EXAMPLE = """examples:
  comm-list                                                      a table
  comm-list --json | jq -r '.agents[] | select(.live).handle'    the live handles

exit codes: 0 listed; 1 the registry could not be read; 2 usage"""
_HEADER = ("HANDLE", "BOX", "SEEN", "STATE", "SUMMARY")
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400
_BOLD, _DIM, _RED, _GREEN, _YELLOW, _CYAN = 1, 2, 31, 32, 33, 36
_STATE_COLOURS = {"working": _YELLOW, "blocked": _RED, "done": _GREEN, "waiting": _CYAN, "spawning": _CYAN}


class Agent(Value):
    """One row as it is listed. `age_s` is None where `last_seen` is no stamp; texts are as they stand."""

    handle: str
    row: Mapping[str, Any]
    live: bool
    age_s: int | None
    me: bool

    def text(self, key: str) -> str:
        value = self.row.get(key)
        return value if isinstance(value, str) else ""

    @property
    def state(self) -> str:
        return "spawning" if self.text("status") == "spawning" else self.text("state") or "idle"

    @property
    def seen(self) -> str:
        return "live" if self.live else human_age(self.age_s)


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    return run(COMMAND, lambda: _main(argv))


def _main(argv: list[str] | None) -> int:
    options = Options(COMMAND, _DOES, _EXAMPLE)
    options.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
    given = options.parse_args(argv)
    home = comm_home(os.environ)
    registry = read_registry(home)
    if not isinstance(registry, Listing):
        return failed(UNREADABLE, *registry_notes(home))
    me = _me(registry, os.environ)
    agents = listed(registry.agents, me, time.time())
    mail = _unread(home, me) if me is not None and me in registry.agents else None
    path = os.path.join(home, REGISTRY_NAME)  # noqa: PTH118  # pathlib costs start-up time
    if given.as_json:
        told = json.dumps({"registry": path, "agents": [_as_json(agent, mail) for agent in agents]})
    elif agents:
        told = "\n".join((*_table(agents), *_own_news(me, mail, agents)))
    else:
        told = f"Nobody has joined yet ({clean(path)}). comm-join, run in a project's folder, joins it."
    unwritten = say(told)
    if unwritten is None or isinstance(unwritten, BrokenPipeError):  # a reader that has seen enough
        return 0
    return failed(f"the list could not be written: {error_text(unwritten)}")


def _me(registry: Listing, env: Mapping[str, str]) -> str | None:
    """Return the handle this process acts as: nobody else's, whatever its self file says."""
    try:
        handle = identify(None, env).handle
        here = project_here()
    except (NoIdentityError, OSError):
        return None
    lost = handle in registry.agents and not_its_own(handle, registry.agents, here, carried_row(env))
    return None if lost else handle


# The rows


def listed(agents: Mapping[str, Any], me: str | None, now_epoch_s: float) -> list[Agent]:
    """Return the rows with the live ones first, those by handle; then the others, the latest seen first."""
    found = []
    for handle, row in agents.items():
        members = row if isinstance(row, dict) else {}
        last_seen = members.get("last_seen")
        live = heartbeat_fresh(last_seen, now_epoch_s)
        found.append(Agent(handle, members, live, _age_s(last_seen, now_epoch_s), handle == me))
    return sorted(found, key=_order)


def _order(agent: Agent) -> tuple[bool, float, str]:
    if agent.live:
        return False, 0, agent.handle
    return True, float("inf") if agent.age_s is None else agent.age_s, agent.handle


def _age_s(last_seen: object, now_epoch_s: float) -> int | None:
    if not isinstance(last_seen, str):
        return None
    try:
        seen = datetime.strptime(last_seen, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None
    return max(0, int(now_epoch_s - seen.timestamp()))  # another box's clock may be ahead


def human_age(age_s: int | None) -> str:
    """Return an age in one unit, the largest that leaves no nought."""
    if age_s is None:
        return "never"
    for unit_s, name in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "m")):
        if age_s >= unit_s:
            return f"{age_s // unit_s}{name} ago"
    return f"{age_s}s ago"


def _as_json(agent: Agent, mail: int | None) -> dict[str, Any]:
    told: dict[str, Any] = {"handle": agent.handle, "live": agent.live, "age_s": agent.age_s, "me": agent.me}
    for key in ("host", "last_seen", "status", "state", "summary", "repo", "root", "workspace_id"):
        told[key] = agent.row.get(key)
    told["expertise"] = agent.row.get("expertise") or []
    if agent.me:
        told["unread"] = mail
    return told


# The table


def _table(agents: list[Agent]) -> list[str]:
    terminal = is_terminal(sys.stdout)
    columns = shutil.get_terminal_size().columns if terminal else None
    rows = [[Cell(text, _BOLD) for text in _HEADER], *(_cells(agent) for agent in agents)]
    return lines(rows, columns, coloured=terminal and wants_colour(os.environ, sys.platform))


def _cells(agent: Agent) -> list[Cell]:
    dim = 0 if agent.live else _DIM
    state = clean(agent.state)
    return [
        Cell(clean(agent.handle) + (" (me)" if agent.me else ""), _BOLD if agent.me else dim),
        Cell(clean(agent.text("host")) or "-", dim),
        Cell(agent.seen, _GREEN if agent.live else _DIM),
        Cell(state, _STATE_COLOURS.get(state, 0) if agent.live else _DIM),
        Cell(clean(agent.text("summary")), dim),
    ]


def wants_colour(env: Mapping[str, str], platform: str) -> bool:
    """Tell whether a terminal is to be given colours: not by NO_COLOR, nor where they show as text."""
    if env.get("NO_COLOR") or env.get("TERM") == "dumb":
        return False
    return platform != "win32" or "WT_SESSION" in env  # the old console shows escapes raw


# One's own mail


def _unread(home: str, me: str) -> int | None:
    """Count this session's unread mail by the rule of the end-of-turn check; None: it cannot be told."""
    if not is_handle(me):
        return None
    folder = CommFolder(home)
    try:
        inbox = read_private(folder.inbox(me))
    except OSError:
        return None
    cursor = read_cursor(folder, me)
    if isinstance(cursor, ReadFailed):
        return None
    return unread(inbox, cursor, me, counts_for_the_shell).count


def _own_news(me: str | None, mail: int | None, agents: list[Agent]) -> list[str]:
    if me is not None and not any(agent.me for agent in agents):
        return [
            "",
            f"This session is @{clean(me)}, which has no row: comm-join --name {clean(me)} takes it back",
        ]
    if me is not None and mail:
        return ["", f"{mail} unread for @{clean(me)}: comm-poll shows {'it' if mail == 1 else 'them'}"]
    return []


if __name__ == "__main__":
    sys.exit(main())
