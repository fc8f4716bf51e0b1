"""After a power cut, with any part of what was not flushed, every line answered ok is there once."""

import errno
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from filing.comm_folder import CommFolder, FileCalls, make_private_folder
from filing.inbox import Appended, Inboxes
from tests.filing.test_inbox import line


class PowerCutError(BaseException):
    pass


@dataclass
class Disk:
    """What a power cut cannot take back, and the changes since, any of which it may have kept."""

    flushed: bytes = b""
    name_flushed: bool = False
    changes: list[tuple[int, bytes | None]] = field(default_factory=list)  # (offset, data), or (size, None)

    def after_cut(self, kept: list[tuple[bool, int, int]], *, keep_name: bool) -> bytes | None:
        """`kept` says of each change whether it reached the disk, and of a write from where to where."""
        if not self.name_flushed and not keep_name:
            return None
        data = bytearray(self.flushed)
        for (offset, written), (reached, start, stop) in zip(self.changes, kept, strict=False):
            if not reached:
                continue
            if written is None:
                del data[offset:]
                data.extend(b"\0" * (offset - len(data)))
            else:
                first, last = sorted((start % (len(written) + 1), stop % (len(written) + 1)))
                data.extend(b"\0" * (offset + last - len(data)))
                data[offset + first : offset + last] = written[first:last]
        return bytes(data)


class CuttableCalls(FileCalls):
    """Writes to a real file and notes what is flushed. The power goes at call `cut_at`."""

    def __init__(self, path: Path, disk: Disk, cut_at: int, failing: set[int]) -> None:
        self.path = path
        self.disk = disk
        self.cut_at = cut_at
        self.failing = failing
        self.count = 0
        self.off = False

    def step(self) -> None:
        self.count += 1
        self.off = self.off or self.count == self.cut_at
        if self.off:
            raise PowerCutError
        if self.count in self.failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def write(self, fd: int, data: memoryview) -> int:
        self.step()
        offset = os.fstat(fd).st_size
        written = super().write(fd, data)
        self.disk.changes.append((offset, bytes(data[:written])))
        return written

    def truncate(self, fd: int, size: int) -> None:
        self.step()
        super().truncate(fd, size)
        self.disk.changes.append((size, None))

    def flush(self, fd: int) -> None:
        self.step()
        self.disk.flushed = self.path.read_bytes()
        self.disk.changes.clear()

    def flush_folder(self, path: str) -> None:
        self.step()
        if path.endswith("inbox"):
            self.disk.name_flushed = True


@given(
    batches=st.lists(st.integers(1, 3), min_size=1, max_size=5),
    tail=st.sampled_from([b"", b'{"half', b"\0\0\0"]),
    cut_at=st.integers(1, 30),
    failing=st.sets(st.integers(1, 20), max_size=3),
    kept=st.lists(
        st.tuples(st.booleans(), st.integers(0, 200), st.integers(0, 200)), min_size=12, max_size=12
    ),
    keep_name=st.booleans(),
)
@settings(deadline=None, max_examples=300)
def test_every_line_answered_ok_outlives_the_power(
    batches: list[int],
    tail: bytes,
    cut_at: int,
    failing: set[int],
    kept: list[tuple[bool, int, int]],
    keep_name: bool,
) -> None:
    with tempfile.TemporaryDirectory() as home:
        folder = CommFolder(home)
        make_private_folder(folder.inboxes)
        path = Path(folder.inbox("h"))
        disk = Disk()
        if tail:
            path.write_bytes(line("old") + tail)
            disk.flushed = line("old") + tail
            disk.name_flushed = True
        inboxes = Inboxes(folder, CuttableCalls(path, disk, cut_at, failing))
        answered = [line("old")] if tail else []
        refused: list[bytes] = []
        try:
            for batch, size in enumerate(batches):
                lines = [line(f"{batch}.{number}") for number in range(size)]
                result = inboxes.append("h", lines)
                if isinstance(result, Appended):
                    answered += lines
                elif result.clean:
                    refused += lines
        except PowerCutError:
            pass
        left = disk.after_cut(kept, keep_name=keep_name)
        path.unlink(missing_ok=True)
        if left is not None:
            path.write_bytes(left)
        assert isinstance(Inboxes(folder).append("h", [line("next")]), Appended)
        after = path.read_bytes().split(b"\n")
        assert after.pop() == b""
        assert after.pop() + b"\n" == line("next")
        for each in answered:
            assert after.count(each[:-1]) == 1
        for each in refused:
            assert each[:-1] not in after
