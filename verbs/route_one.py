"""Route 1 as a command takes it, and which route a directed message takes (PROTOCOL Delivery).

What this box's registry lists is filed by this box: by the command's own hand where its lock excludes every
other writer's, else by the daemon. What it does not list goes over the wire. One route is tried, never a
second.

What only one of the routes needs is imported on its way.
"""

import json
import logging
import time
from collections.abc import Mapping
from typing import Any, Final

from filing.liveness import heartbeat_fresh, utc_stamp
from filing.registry import Listing, read_registry
from filing.value import Value
from topology.paths import comm_home
from verbs.endpoints import reach, reach_filer
from verbs.frames import COMM_FILE, comm_file_frame
from verbs.identity import Identity, carried_row, not_its_own
from verbs.project import Project, project_here
from verbs.sending import FailedError, InterruptedSendError, ask_daemon, hello, lock_wait_s, window_s
from verbs.terminal import one_line, say

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class Desk(Value):
    """What one send knows: who sends, from which project, and what the registry said."""

    home: str
    sender: str
    project: Project
    listing: Listing


def open_desk(sender: Identity, env: Mapping[str, str], *, prove: bool) -> Desk:
    """Read the registry once, and prove that the sender is who it says. Raises FailedError.

    Without `prove` the sender is taken at his word.
    """
    home = comm_home(env)
    try:
        project = project_here()
    except OSError as error:
        raise FailedError(f"the working folder cannot be told: {error.strerror}; nothing was sent") from None
    registry = read_registry(home)
    if not isinstance(registry, Listing):
        from verbs.address_book import registry_notes

        raise FailedError(
            f"the registry could not be read, so identity @{sender.handle} is unverified; nothing was sent",
            registry_notes(home),
        )
    if prove and (why := not_its_own(sender.handle, registry.agents, project, carried_row(env))):
        raise FailedError(f"{why}; nothing was sent")
    return Desk(home, sender.handle, project, registry)


def send_directed(sender: Identity, to: str, text: str, env: Mapping[str, str], *, prove: bool) -> bool:
    """Send one message by its one route. Return whether it was this command's own append. Raises FailedError,
    UnsendableError.
    """
    return deliver(open_desk(sender, env, prove=prove), to, text, env)


def deliver(desk: Desk, to: str, text: str, env: Mapping[str, str]) -> bool:
    """`send_directed`, by a desk that is open."""
    entry = desk.listing.entry(to)
    if entry is not None:
        return file_here(desk, to, entry, text, env)
    request = comm_file_frame(desk.sender, to, text)
    frames = (hello(env, desk.sender), request)
    ask_daemon(lambda deadline: reach(None, env, deadline), frames, COMM_FILE, window_s(env))
    return False


def file_here(
    desk: Desk,
    to: str,
    entry: Mapping[str, Any],
    text: str,
    env: Mapping[str, str],
    *,
    broadcast: bool = False,
) -> bool:
    """File for a handle that is listed here, if it is live. Return and raise as `send_directed` does."""
    from filing.local_append import NotOurs, append_locally
    from filing.outcome import Filed, no_live_session

    # Made first: what a daemon could not be handed is refused whoever would have appended it.
    request = comm_file_frame(desk.sender, to, text, broadcast=broadcast)
    wait_s = lock_wait_s(env)
    now = time.time()
    if not heartbeat_fresh(entry.get("last_seen"), now):
        raise FailedError(no_live_session(to).sentence)
    line = {
        "from": desk.sender,
        "to": "" if broadcast else to,
        "repo": desk.project.repo,
        "msg": text,
        "ts": utc_stamp(now),
    }
    _log_as_notes()
    try:
        # Undecodable bytes of a folder's name have no place in JSON.
        data = f"{_ENCODER.encode(line)}\n".encode("utf-8", "replace")
        done = append_locally(desk.home, to, data, wait_s)
    except KeyboardInterrupt:
        raise InterruptedSendError(f"interrupted while it was being filed; @{to} may have it") from None
    if isinstance(done, NotOurs):
        frames = (hello(env, desk.sender), request)
        ask_daemon(lambda deadline: reach_filer(env, deadline), frames, COMM_FILE, window_s(env))
        return False
    if not isinstance(done, Filed):
        raise FailedError(done.sentence)
    return True


def _log_as_notes() -> None:
    """Say what the append logs as this command's own notes; what failed is in the FAILED line already."""

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno < logging.ERROR:
                say(f"note: {one_line(record.getMessage())}", error=True)

    filing_log = logging.getLogger("sot.filing")
    if not filing_log.handlers:
        filing_log.addHandler(Notes(logging.WARNING))
        filing_log.propagate = False


def others_live(desk: Desk) -> dict[str, Mapping[str, Any]]:
    """Return whom a broadcast goes to, by name: all that are listed and live, but the sender."""
    now = time.time()
    listed = {handle: desk.listing.entry(handle) for handle in sorted(desk.listing.agents)}
    return {
        handle: entry
        for handle, entry in listed.items()
        if entry is not None and handle != desk.sender and heartbeat_fresh(entry.get("last_seen"), now)
    }


def touch_sender(desk: Desk) -> None:
    """Stamp the sender's `last_seen`, by best effort: about a second at most, and nobody is told."""
    from filing.registry_write import touch_last_seen

    touch_last_seen(desk.home, desk.sender, time.time())
