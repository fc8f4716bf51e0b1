"""What the address-book verbs share: how FAILED is said, and what is wrong with a registry (PROTOCOL
registry.json, "Unreadable is never absent").
"""

import json
import os
from collections.abc import Mapping

from filing.fresh_read import ReadFailed, read_fresh
from filing.registry import REGISTRY_NAME, RegistryUnreadable, parse_document
from filing.registry_lock import RULED_WAIT_S
from filing.registry_write import NotWritten
from filing.value import Value
from verbs.terminal import one_line, say
from wire.env import LONGEST_WAIT_S, SettingError, number

LOCK_WAIT_VARIABLE = "SOT_LOCK_WAIT_SECS"
_MEND = (
    "mend it in an editor, or move the file aside: the next comm-join makes an empty one, and every session "
    "then joins again with comm-join --name HANDLE"
)


class FailedError(Exception):
    """A verb that ended before it wrote anything; str() stands after `FAILED: `."""


def failed(sentence: str, *notes: str) -> int:
    """Say why on standard error, each note on a line of its own below; return the exit code, 1."""
    say(f"FAILED: {one_line(sentence)}", error=True)
    for note in notes:
        say(f"  {one_line(note)}", error=True)
    return 1


def not_written(answer: NotWritten) -> int:
    """Say the writer's FAILED line, and its cause where the line does not hold it."""
    return failed(answer.sentence, *((answer.why,) if answer.why else ()))


def lock_wait_s(env: Mapping[str, str]) -> float:
    """Return how long a join or a leave waits for the registry lock (PROTOCOL Bounds). Raises FailedError."""
    try:
        return number(env, LOCK_WAIT_VARIABLE, RULED_WAIT_S, least=0, most=LONGEST_WAIT_S)
    except SettingError as error:
        raise FailedError(str(error)) from None


def not_utf8(text: str, what: str) -> str | None:
    """Say where `text` is no UTF-8, None where it is: such bytes arrive as lone surrogates, which no registry
    keeps.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        return f"{what} is not UTF-8 at character {error.start}"
    return None


# What is wrong with a registry


class Fault(Value):
    """`line` counts from 1; None where the fault has no place."""

    why: str
    line: int | None = None


def registry_notes(home: str) -> tuple[str, ...]:
    """Read the registry once more and say, for a person, what keeps it from being read and the way out."""
    path = os.path.join(home, REGISTRY_NAME)  # noqa: PTH118  # pathlib costs start-up time
    data = read_fresh(path)
    if data is None:
        return (f"there is no {path}: comm-join, run in a project's folder, makes one",)
    if isinstance(data, ReadFailed):
        return (f"{path}: {data.why}",)
    fault = fault_in(data)
    if fault is None:
        return (f"{path} reads well again: retry",)
    place = path if fault.line is None else f"{path}:{fault.line}"
    return (f"{place}: {fault.why}", _MEND)


def fault_in(data: bytes) -> Fault | None:
    """Return why these bytes are no registry, and where; None: they are one."""
    document = parse_document(data)
    if not isinstance(document, RegistryUnreadable):
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return Fault(document.why, data.count(b"\n", 0, error.start) + 1)
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return _fault_at(text, error) if text.strip() else Fault("it is empty")
    except (ValueError, RecursionError):
        pass  # a number or a nesting that the strict reader has its own word for
    return Fault(document.why)


def _fault_at(text: str, error: json.JSONDecodeError) -> Fault:
    for comma in (error.pos, len(text[: error.pos].rstrip()) - 1):  # Python 3.13 points at the comma itself
        after = text[comma + 1 :].lstrip()[:1]
        if text[comma : comma + 1] == "," and after in {"}", "]"}:
            return Fault(f"a comma stands before the closing {after}", text.count("\n", 0, comma) + 1)
    if error.msg == "Extra data":
        return Fault("it goes on after its document", error.lineno)
    return Fault(f"it is not JSON: {error.msg[:1].lower()}{error.msg[1:]}", error.lineno)
