"""Self files: which handle a row's session is, and for which project (PROTOCOL Layout, Mail verbs).

`self/<host>__<slot>.txt`: the handle, then `repo=`, then `root=`. The slot is the row's id, or `nopane` for
every shell outside a row. The slot comes from the environment and the project from the shell's folder, so
that a row could come to name another project's session and read its mail: the conflict rule refuses that
where a slot is written, and the audit finds it where it stands.
"""

import os
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from filing.comm_folder import SYSTEM_FILES, FileCalls
from filing.fresh_read import ReadCalls, ReadFailed, read_fresh
from filing.private_file import PRIVATE_READS, replace_private
from topology.names import self_file_says

NO_ROW: Final = "nopane"
CONFLICT_EXIT: Final = 3

_SUFFIX: Final = ".txt"
_BETWEEN: Final = "__"
_ROW_PREFIX: Final = "ws-"
_NOT_IN_A_NAME: Final = frozenset("/\\\0\n\r")
_SLUG_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")


@dataclass(frozen=True, slots=True)
class SelfFile:
    """What a slot says. `repo` and `root` are "" where the line is missing: an older slot."""

    handle: str
    repo: str
    root: str


# The path


def slot_of(workspace_id: str | None) -> str:
    """The slot of a session: its row's id (SOT_WORKSPACE_ID), or the one all shells outside a row share."""
    return workspace_id or NO_ROW


def self_path(home: str, host: str, slot: str) -> str:
    """`host` is the box's declared name. Both come from the environment and become a path: `ValueError`."""
    for part in (host, slot):
        if not part or not _NOT_IN_A_NAME.isdisjoint(part):
            raise ValueError(f"{part!r} cannot be part of a self file's name")
    return os.path.join(home, "self", f"{host}{_BETWEEN}{slot}{_SUFFIX}")


def slot_in_name(name: str, declared_host: str) -> str | None:
    """The slot in a self file's name (no folder). None: it is no self file's name.

    Hosts and ids may hold `__` themselves: this box's own name is looked for first, then the first `__`.
    """
    if not name.endswith(_SUFFIX):
        return None
    stem = name[: -len(_SUFFIX)]
    own = declared_host + _BETWEEN
    host, between, slot = stem.partition(_BETWEEN)
    if declared_host and stem.startswith(own):
        slot = stem[len(own) :]
    elif not host or not between:
        return None
    return slot or None


def row_in_name(name: str, declared_host: str) -> str | None:
    """The row that a pinned self file names, None for `nopane` and for any other name."""
    slot = slot_in_name(name, declared_host)
    return None if slot == NO_ROW else slot


# The text


def parse_self(data: bytes) -> SelfFile | None:
    """None: the file names nobody."""
    own = SelfFile(*self_file_says(data))
    return own if own.handle else None


def self_text(own: SelfFile) -> bytes:
    """Raises `ValueError` for a folder name with a line end in it, which would read back as another line."""
    for value in (own.handle, own.repo, own.root):
        if "\n" in value or "\r" in value:
            raise ValueError(f"{value!r} holds a line end, so it cannot stand in a self file")
    return f"{own.handle}\nrepo={own.repo}\nroot={own.root}\n".encode("utf-8", "surrogateescape")


# The conflict rule


def conflicting_claim(slot: str, stands: SelfFile | None, own: SelfFile) -> str | None:
    """What the slot is claimed for, if that is another project than `own`'s; None where there is no conflict.

    `root=` decides when it is present, `repo=` for an older slot; a slot with neither is no evidence. The
    shared slot is exempt: every shell outside a row writes it, wherever it stands.
    """
    if slot == NO_ROW or stands is None:
        return None
    if stands.root:
        return None if stands.root == own.root else f"root={stands.root}"
    if stands.repo:
        return None if stands.repo == own.repo else f"repo={stands.repo} (an older slot, with no root=)"
    return None


# The file


@dataclass(frozen=True, slots=True)
class SlotTaken:
    """Nothing was written. The join refuses with exit `CONFLICT_EXIT`."""

    sentence: str


SelfAnswer: TypeAlias = SelfFile | ReadFailed | None  # None: there is no file, or it names nobody


def read_self(path: str, calls: ReadCalls = PRIVATE_READS) -> SelfAnswer:
    data = read_fresh(path, calls)
    return parse_self(data) if isinstance(data, bytes) else data


def write_slot(
    home: str,
    host: str,
    slot: str,
    own: SelfFile,
    *,
    repin: bool = False,
    reads: ReadCalls = PRIVATE_READS,
    files: FileCalls = SYSTEM_FILES,
) -> SlotTaken | None:
    """`write_self` where the layout has a session's self file."""
    return write_self(self_path(home, host, slot), slot, own, repin=repin, reads=reads, files=files)


def write_self(
    path: str,
    slot: str,
    own: SelfFile,
    *,
    repin: bool = False,
    reads: ReadCalls = PRIVATE_READS,
    files: FileCalls = SYSTEM_FILES,
) -> SlotTaken | None:
    """Write the self file at `path`, whole or not at all; None when it is written. `repin` overrides the
    conflict rule. `slot` is for that rule: `slot_in_name` of a pinned file (SOT_COMM_SELF_FILE), or "".

    The rule is asked here again, right before the write, since another join may have come first. A slot that
    cannot be read may name anybody, so it is not written over. Raises `OSError` and `ValueError`.
    """
    text = self_text(own)
    if not repin:
        stands = read_self(path, reads)
        if isinstance(stands, ReadFailed):
            claim: str | None = f"it could not be read ({stands.why})"
        else:
            claim = conflicting_claim(slot, stands, own)
            claim = f"it names @{stands.handle}, claimed for {claim}" if stands and claim else None
        if claim:
            return SlotTaken(
                f"REFUSING to write @{own.handle} over the identity slot {path}: {claim}. A row whose slot "
                f"names another project's session reads that session's mail. If this row really is "
                f"{own.root or own.repo} now, join again with --repin"
            )
    replace_private(path, text, files)
    return None


# The audit


class Audit(Enum):
    """What comm-self-audit says of one slot."""

    AGREES = "agrees"
    SUFFIXED = "suffixed"  # the row's label continues its repo's name: a Codex row, or one told apart by path
    DIFFERS = "differs"  # the defect
    NO_REPO = "no repo="  # an older slot: no evidence
    UNREADABLE = "unreadable"
    NOT_A_ROW = "not a row's"  # nopane, or a key that claims no project


@dataclass(frozen=True, slots=True)
class Finding:
    """`name` is the file's. `key_slug` is what the key says of the project, "" in a key that says nothing."""

    name: str
    audit: Audit
    key_slug: str
    own: SelfAnswer


def audit_slot(name: str, own: SelfAnswer, declared_host: str) -> Finding:
    """Compare a workspace-keyed slot's key (`ws-<slug>-<hex>`) with the `repo=` it carries.

    A key may continue its repo's name behind a `-` or `_` and still be that project's. The other way round it
    is not: `alpha` and `alpha-tools` are two checkouts, and telling that is what the audit is for.
    """
    slot = slot_in_name(name, declared_host) or ""
    key_slug = slot.removeprefix(_ROW_PREFIX).rpartition("-")[0] if slot.startswith(_ROW_PREFIX) else ""
    if not key_slug:
        return Finding(name, Audit.NOT_A_ROW, "", own)
    if isinstance(own, ReadFailed):
        return Finding(name, Audit.UNREADABLE, key_slug, own)
    if own is None or not own.repo:
        return Finding(name, Audit.NO_REPO, key_slug, own)
    repo_slug = slug(own.repo)
    if key_slug == repo_slug:
        return Finding(name, Audit.AGREES, key_slug, own)
    if key_slug.startswith((f"{repo_slug}-", f"{repo_slug}_")):
        return Finding(name, Audit.SUFFIXED, key_slug, own)
    return Finding(name, Audit.DIFFERS, key_slug, own)


def slug(label: str) -> str:
    """A label as the daemon makes a workspace's name of it: in lower case, `.` as `_`, and each run of other
    characters as one `-`, none at an end. What leaves nothing over is `default`.
    """
    made = ""
    for character in label:
        small = "_" if character == "." else character.lower() if character.isascii() else "-"
        if character.isascii() and small in _SLUG_LETTERS:
            made += small
        elif made and not made.endswith("-"):
            made += "-"
    return made.rstrip("-") or "default"


def read_slots(home: str, calls: ReadCalls = PRIVATE_READS) -> list[tuple[str, SelfAnswer]]:
    """Every self file of the folder, for the audit. Raises `OSError`, also where there is no folder."""
    folder = os.path.join(home, "self")
    names = sorted(name for name in os.listdir(folder) if name.endswith(_SUFFIX) and _BETWEEN in name)
    return [(name, read_self(os.path.join(folder, name), calls)) for name in names]
