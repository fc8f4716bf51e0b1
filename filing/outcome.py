"""The one result of a filing, and every sentence a refusal can say (PROTOCOL Delivery, WIRE section 5).

`Filed` means kept: the line was flushed to the disk before the value was made. `Refused` means that nothing
was added, but for `no_answer`, which says that nobody knows. Sentences quoted in the contract are built here
and nowhere else. The module imports next to nothing, since `verbs/` pays for it at each start.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

BAD_HANDLE: Final = "bad_handle"
BAD_REQUEST: Final = "bad_request"
TOO_LARGE: Final = "too_large"
NOT_HERE: Final = "not_here"
UNKNOWN_HANDLE: Final = "unknown_handle"
NO_LIVE_SESSION: Final = "no_live_session"
FILE_FAILED: Final = "file_failed"
NO_ANSWER: Final = "no_answer"
BUSY: Final = "busy"


@dataclass(frozen=True, slots=True)
class Filed:
    """The line is in the inbox and flushed."""


@dataclass(frozen=True, slots=True)
class Refused:
    """`code` is one of this module's constants, or a code another daemon sent; `sentence` is for people."""

    code: str
    sentence: str


Outcome: TypeAlias = Filed | Refused

FILED: Final = Filed()


def bad_handle(to: str) -> Refused:
    """`to` is quoted as in JSON, but raw UTF-8; a lone surrogate (argv can bring one) stays an escape."""
    quoted = json.dumps(to, ensure_ascii=False).encode("utf-8", "backslashreplace").decode("utf-8")
    return Refused(BAD_HANDLE, f"not a handle: {quoted}")


def bad_request(why: str) -> Refused:
    return Refused(BAD_REQUEST, f"{why}; nothing was filed")


def too_large(size: int, cap: int) -> Refused:
    """`size` and `cap` in bytes."""
    return Refused(
        TOO_LARGE, f"the message makes a request of {size} bytes, and {cap} is the most; nothing was filed"
    )


def not_here(handle: str) -> Refused:
    """One folder's answer. The hub's last word is `unknown_handle`, in the same words."""
    return Refused(NOT_HERE, f"no box knows that handle: {handle}")


def unknown_handle(handle: str, not_linked: Sequence[str]) -> Refused:
    """`not_linked`: the boxes that should hold a link and hold none, in file order."""
    if not_linked:
        boxes = ", ".join(not_linked)
        return Refused(UNKNOWN_HANDLE, f"no linked box knows that handle: {handle}; not linked: {boxes}")
    return Refused(UNKNOWN_HANDLE, f"no box knows that handle: {handle}")


def no_live_session(handle: str) -> Refused:
    return Refused(NO_LIVE_SESSION, f"no live session holds @{handle}")


def lock_held(handle: str, wait_s: float) -> Refused:
    """Another writer held the inbox's lock for the whole wait."""
    return Refused(
        FILE_FAILED, f"the inbox lock for @{handle} was held for {wait_s:g}s — nothing was appended"
    )


def append_failed(why: str) -> Refused:
    return Refused(FILE_FAILED, f"the append failed: {why}")


def registry_unreadable(handle: str, why: str) -> Refused:
    """An unreadable registry is never an absent handle."""
    return Refused(
        FILE_FAILED, f"the registry could not be read, so @{handle} is unverified; nothing was filed: {why}"
    )


def no_answer(hosts: Sequence[str], n_s: float, handle: str) -> Refused:
    """The one refusal that does not say that nothing was added."""
    return Refused(
        NO_ANSWER,
        f"the daemon on {', '.join(hosts)} did not answer within {n_s:g}s; @{handle} may still be filed",
    )


def busy(why: str) -> Refused:
    """A bound of this daemon was met before anything was tried. `why` names it, with its number."""
    return Refused(BUSY, f"{why}; nothing was filed")


def link_down(why: str) -> Refused:
    return Refused(FILE_FAILED, f"the link to the hub is down: {why}; nothing was sent")


def no_hub_named() -> Refused:
    """A guest has nowhere to send what it may not append."""
    return Refused(
        FILE_FAILED,
        "this daemon is a guest on the folder and no hosts.toml names its hub; nothing was sent: "
        "give it the fleet's hosts.toml",
    )


def hub_unreachable(hub: str, why: str) -> Refused:
    """A guest's forward that was never sent."""
    return Refused(FILE_FAILED, f"the hub {hub} could not be reached: {why}; nothing was sent")


def neither_ok_nor_refusal(host: str) -> Refused:
    return Refused(FILE_FAILED, f"the daemon on {host} answered neither ok nor a refusal")


def read_answer(host: str, payload: Mapping[str, Any]) -> Outcome:
    """What the daemon on `host` said of one comm.file: its verdict as it came, code and sentence.

    A non-empty string `error` is a refusal whatever else is said; without a string code it is `file_failed`.
    An answer that is neither `ok:true` nor a refusal is a refusal that names the host.
    """
    error = payload.get("error")
    if isinstance(error, str) and error:
        code = payload.get("code")
        return Refused(code if isinstance(code, str) else FILE_FAILED, error)
    return FILED if payload.get("ok") is True else neither_ok_nor_refusal(host)


def as_payload(verdict: Outcome) -> dict[str, Any]:
    """The answer to one comm.file that says `verdict`."""
    if isinstance(verdict, Filed):
        return {"ok": True}
    return {"error": verdict.sentence, "code": verdict.code}


# The lock record (PROTOCOL Delivery, route 1): each sentence names the lock managers, the file, the recovery.

_RESET = "stop every daemon on the folder, delete {path} and start the hub"
_MACHINE_ID = "give the machine a machine id (/etc/machine-id on Linux), then restart the daemon"


def lock_record_missing(path: str, own: str) -> Refused:
    return Refused(
        FILE_FAILED,
        f"no lock manager is recorded for this folder ({path} is missing; this daemon's is {own!r}); "
        "nothing was filed: restart the hub, which writes it",
    )


def lock_record_unreadable(path: str, own: str, why: str) -> Refused:
    return Refused(
        FILE_FAILED,
        f"the folder's lock manager is unknown ({path} could not be read: {why}; this daemon's is {own!r}); "
        "nothing was filed: make that file readable and send again",
    )


def lock_record_foreign(path: str, own: str, recorded: str, writer: str | None) -> Refused:
    """`recorded` is the record's line 1, `writer` its line 2."""
    by = f"machine {writer}" if writer else "an unknown machine"
    return Refused(
        FILE_FAILED,
        f"{path} names another lock manager ({recorded!r}, written by {by}; this daemon's is {own!r}); "
        f"nothing was filed: {_RESET.format(path=path)}",
    )


def lock_record_remounted(path: str, own: str, recorded: str) -> Refused:
    return Refused(
        FILE_FAILED,
        f"{path} names this machine's lock manager before a remount ({recorded!r}; it is {own!r} now); "
        "nothing was filed: restart the hub, which rewrites it",
    )


def lock_record_no_machine_id(path: str) -> Refused:
    return Refused(
        FILE_FAILED,
        f"this machine has no machine id, so its lock manager ('none') matches no {path}; "
        f"nothing was filed: {_MACHINE_ID}",
    )


def lock_record_forwarded_to_guest(path: str, own: str, recorded: str | None) -> Refused:
    """A forwarded request is never forwarded again. `recorded` is None where no record could be read."""
    names = "no lock manager" if recorded is None else repr(recorded)
    return Refused(
        FILE_FAILED,
        f"the request was forwarded here once, and this daemon is a guest on the folder ({path} names "
        f"{names}; this daemon's is {own!r}); nothing was filed: send it to the hub, or "
        f"{_RESET.format(path=path)}",
    )
