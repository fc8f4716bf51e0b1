"""The read cursor: how many lines of an inbox were shown (PROTOCOL Message frame).

`read/<handle>.cursor` holds `<count> <crc>-<len>`: the number of lines, and a hash of the last of them. If
that line no longer hashes so, a cut-back removed it, and the reader goes one line back. Where there is doubt
the rule answers low: a line shown twice is a nuisance, one never shown is lost.
"""

import binascii
import os
import re
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from filing.comm_folder import SYSTEM_FILES, CommFolder, FileCalls
from filing.fresh_read import ReadCalls, ReadFailed, read_fresh
from filing.handles import is_handle
from filing.inbox_lines import InboxLines, read_leniently
from filing.private_file import PRIVATE_READS, replace_private

_MIRRORED: Final = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
_DROPPED: Final = b"\n\0"
_COUNT = re.compile(r"([0-9]+)(?: (.*))?", re.DOTALL | re.ASCII)
_MAX_DIGITS: Final = 18


# The hash


def cksum(data: bytes) -> int:
    """The CRC of POSIX `cksum`: most significant bit first, from 0, the length's bytes after the data.

    It is the CRC-32 of zlib in a mirror (each byte's bits, and the result's, the other way round), which runs
    at the C library's speed. A start value of all ones is a register of 0.
    """
    size = len(data)
    length = size.to_bytes((size.bit_length() + 7) // 8, "little")
    mirrored = binascii.crc32(data.translate(_MIRRORED), 0xFFFFFFFF)
    mirrored = binascii.crc32(length.translate(_MIRRORED), mirrored)
    return int.from_bytes(mirrored.to_bytes(4, "little").translate(_MIRRORED), "big")


def line_hash(line: bytes) -> str:
    """`<crc>-<len>` of a line without its newline and NUL bytes, which a shell's copy of it has lost."""
    kept = line.translate(None, _DROPPED)
    return f"{cksum(kept)}-{len(kept)}"


# The text


@dataclass(frozen=True, slots=True)
class Counted:
    """`count` lines were shown. `last` is the hash of the last one, "" in a count-only cursor."""

    count: int
    last: str


@dataclass(frozen=True, slots=True)
class ReadUpTo:
    """Any other text is the legacy form: "read up to that time", compared as text."""

    stamp: str


Cursor: TypeAlias = Counted | ReadUpTo | None  # None: nothing was shown yet


def parse_cursor(data: bytes | None) -> Cursor:
    """`data`: the cursor file, None without one. NULs (a crash's leavings) and trailing newlines do not
    count.
    """
    text = (data or b"").translate(None, b"\0").rstrip(b"\n").decode("utf-8", "replace")
    if not text:
        return None
    counted = _COUNT.fullmatch(text)
    if counted is None:
        return ReadUpTo(text)
    digits = counted[1].lstrip("0")
    # Past the end of any file, whatever the number is: int() refuses a text of thousands of digits.
    count = int(digits or "0") if len(digits) <= _MAX_DIGITS else 10**_MAX_DIGITS
    return Counted(count, counted[2] or "")


def cursor_text(count: int, last_line: bytes) -> str:
    """The text for `count` shown lines. `last_line`: line `count` as it was read, never read again."""
    return f"{count} {line_hash(last_line)}" if count else "0"


# The rule


@dataclass(frozen=True, slots=True)
class Offset:
    """`lines` of the inbox count as shown. `cut_back`: the last line shown is gone, and this is one less."""

    lines: int
    cut_back: bool = False


def offset(cursor: Cursor, lines: InboxLines) -> Offset:
    """How many lines `cursor` says were shown. One rule for the poll and for every count of unread mail.

    Past the end of the inbox it is 0: the file was cleared or restored by hand, and a cursor left as it is
    would hide all mail to come. But one past the end with a hash is the last line read, cut back with nothing
    filed since.
    """
    match cursor:
        case None:
            return Offset(0)
        case ReadUpTo(stamp):
            return Offset(_lines_up_to(stamp, lines))
        case Counted(count, last):
            if count > lines.total:
                one_back = bool(last) and count == lines.total + 1
                return Offset(lines.total, cut_back=True) if one_back else Offset(0)
            if count and last and line_hash(lines.line(count)) != last:
                return Offset(count - 1, cut_back=True)
            return Offset(count)


def _lines_up_to(stamp: str, lines: InboxLines) -> int:
    """The lines before the FIRST one with a later stamp: clocks differ, so a count of all earlier stamps
    could pass over a line that was never shown.

    An empty line is not counted, and an unfinished one is, as the shell has it; a sum past the end is 0.
    """
    count = 0
    for line in lines.data.split(b"\n"):
        if line:
            if _is_later(line, stamp):
                break
            count += 1
    return count if count <= lines.total else 0


def _is_later(line: bytes, stamp: str) -> bool:
    """By the order of `jq`: null and false read as "", true and numbers sort below every text, arrays and
    objects above it.
    """
    members = read_leniently(line)
    its_stamp: Any = members.get("ts") if members is not None else None
    return its_stamp > stamp if isinstance(its_stamp, str) else isinstance(its_stamp, list | dict)


def cut_back_note(handle: str) -> str:
    return f"note: the last line read from @{handle}'s inbox was cut back; reading from the line before it"


# The file


def cursor_path(folder: CommFolder, handle: str) -> str:
    if not is_handle(handle):
        raise ValueError("not a handle")  # it is about to become a path
    return os.path.join(folder.home, "read", f"{handle}.cursor")


def read_cursor(
    folder: CommFolder, handle: str, calls: ReadCalls = PRIVATE_READS
) -> bytes | ReadFailed | None:
    """The cursor file's bytes, for `parse_cursor`; None without one."""
    return read_fresh(cursor_path(folder, handle), calls)


def write_cursor(folder: CommFolder, handle: str, text: str, calls: FileCalls = SYSTEM_FILES) -> None:
    """Replace the cursor, whole or not at all, flushed. Only the poll that showed the lines does this.

    Raises `OSError`: the lines that were shown will be shown again.
    """
    replace_private(cursor_path(folder, handle), text.encode("ascii"), calls)
