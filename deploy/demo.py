"""The main job, live: a hub and two links as separate processes, and every verdict mail can get.

Run with `make demo`, or `python -m deploy.demo`. Exit 0 only when each verdict was the contract's.
"""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

from deploy.fleet import Fleet, Sent

HUB, LAPTOP, STUDIO = "server", "laptop", "studio"
LOCK_WAIT_S, OFFER_WAIT_S = 2, 3
SENDER = "demo-server"


@dataclass(frozen=True, slots=True)
class Step:
    """One send: to whom, in what circumstance, and the one verdict that is right."""

    what: str
    to: str
    verdict: str
    during: Callable[[], AbstractContextManager[None]] = field(default=nullcontext)


def main() -> int:
    """Run the demo; return 0 when every verdict was the contract's, 1 when one was not, 130 at Ctrl-C."""
    try:
        with Fleet() as fleet:
            return _run(fleet)
    except KeyboardInterrupt:
        print("\nstopped; every process of the demo was ended", file=sys.stderr)
        return 130


def _run(fleet: Fleet) -> int:
    _start(fleet)
    wrong = 0
    for step in _steps(fleet):
        with step.during():
            sent = fleet.send(SENDER, step.to, f"hello {step.to}", box=HUB)
        wrong += _show(step, sent)
    print("\nWhat stands in the inboxes now:")
    for name, handle in ((HUB, "notes-server"), (LAPTOP, "app-laptop"), (STUDIO, "mix-studio")):
        for line in fleet.box(name).inbox(handle):
            print(f"  {name:7} {handle + '.jsonl':20} {line['ts']} from @{line['from']}: {line['msg']}")
    wrong += _inboxes_wrong(fleet)
    print(f"\n{'every verdict was the contract’s' if not wrong else f'{wrong} WRONG'}")
    return 1 if wrong else 0


def _start(fleet: Fleet) -> None:
    hub, laptop, studio = fleet.box(HUB), fleet.box(LAPTOP), fleet.box(STUDIO)
    hub.register("notes-server")
    laptop.register("app-laptop")
    laptop.register("busy-laptop")
    studio.register("mix-studio")
    studio.register("stale-studio", age_s=3600)
    print(f"Starting a hub on box '{HUB}' and a link on each of '{LAPTOP}' and '{STUDIO}':")
    hosts = fleet.hosts_file(HUB, [LAPTOP, STUDIO])
    daemon = fleet.start_hub(HUB, hosts=hosts, web_socket=True)
    web_socket = next(endpoint for endpoint in daemon.endpoints if endpoint.startswith("ws:"))
    print(f"  {HUB:7} pid {daemon.pid}  listening on {' and '.join(daemon.endpoints)}")
    for name, endpoint in ((LAPTOP, web_socket), (STUDIO, hub.endpoint)):
        link = fleet.start_link(name, endpoint)
        print(f"  {name:7} pid {link.pid}  linked over {endpoint.partition(':')[0]}")
    fleet.wait_linked(HUB, [LAPTOP, STUDIO])
    print(f"\nSending as @{SENDER} with comm-relay:")


def _steps(fleet: Fleet) -> Iterator[Step]:
    yield Step("a handle of the hub's own folder", "notes-server", "filed -> @notes-server")
    yield Step(f"a handle on {LAPTOP}, over WebSocket", "app-laptop", "filed -> @app-laptop")
    yield Step(f"a handle on {STUDIO}, over a Unix socket", "mix-studio", "filed -> @mix-studio")
    yield Step("a handle that nobody lists", "nobody", "FAILED -> @nobody: no box knows that handle: nobody")
    yield Step(
        "a session not seen for an hour",
        "stale-studio",
        "FAILED -> @stale-studio: no live session holds @stale-studio",
    )
    yield Step(
        f"an inbox whose lock is held for longer than {LOCK_WAIT_S} s",
        "busy-laptop",
        f"FAILED -> @busy-laptop: the inbox lock for @busy-laptop was held for {LOCK_WAIT_S}s"
        " — nothing was appended",
        during=lambda: fleet.box(LAPTOP).inbox_lock("busy-laptop"),
    )
    if sys.platform != "win32":
        yield Step(
            f"a handle on {STUDIO} while its daemon is stopped (SIGSTOP)",
            "mix-studio",
            f"FAILED -> @mix-studio: the daemon on {STUDIO} did not answer within {OFFER_WAIT_S}s;"
            " @mix-studio may still be filed",
            during=lambda: _stopped(fleet, STUDIO),
        )
    _end_link(fleet, LAPTOP)
    fleet.wait_linked(HUB, [STUDIO])
    yield Step(
        f"the same unknown handle, when {LAPTOP} should hold a link and holds none",
        "nobody",
        f"FAILED -> @nobody: no linked box knows that handle: nobody; not linked: {LAPTOP}",
    )


@contextmanager
def _stopped(fleet: Fleet, name: str) -> Iterator[None]:
    daemon = fleet.box(name).daemon
    if daemon is None or sys.platform == "win32":
        raise AssertionError(f"{name} runs no daemon that can be stopped")
    daemon.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        daemon.signal(signal.SIGCONT)


def _end_link(fleet: Fleet, name: str) -> None:
    daemon = fleet.box(name).daemon
    if daemon is not None:
        daemon.stop()


def _show(step: Step, sent: Sent) -> int:
    right = sent.verdict == step.verdict and sent.code == (0 if step.verdict.startswith("filed") else 1)
    print(f"  {step.what}\n    {sent.took_s:5.2f} s  {sent.verdict}")
    if not right:
        print(f"    WRONG, the contract says: {step.verdict}")
    return 0 if right else 1


def _inboxes_wrong(fleet: Fleet) -> int:
    """Count the handles with another number of lines than were filed; an unanswered offer may add its one."""
    wrong = 0
    filed = {(HUB, "notes-server"): 1, (LAPTOP, "app-laptop"): 1, (LAPTOP, "busy-laptop"): 0}
    for (name, handle), expected in filed.items():
        found = len(fleet.box(name).inbox(handle))
        if found != expected:
            print(f"  WRONG: {handle} holds {found} lines, {expected} were filed")
            wrong += 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
