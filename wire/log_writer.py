"""The log's way to stderr: a thread of its own, so that a reader who stops reading never stops the loop."""

import logging
import os
import queue
import threading

from wire.standard_streams import discard

LINES_KEPT = 10_000  # that stderr has not taken yet
GOODBYE_S = 0.5  # at exit, for what is still to be written


class LogWriter(logging.Handler):
    """Formats on the caller's thread and writes on its own. Past LINES_KEPT lines are dropped, counted and
    told.
    """

    def __init__(self, descriptor: int = 2, *, lines_kept: int = LINES_KEPT) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._lines: queue.Queue[bytes | None] = queue.Queue(lines_kept)
        self._dropped = 0
        self._thread = threading.Thread(target=self._write, name="sot-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.put_nowait((self.format(record) + "\n").encode("utf-8", "backslashreplace"))
        except queue.Full:
            self._dropped += 1
        except Exception:  # noqa: BLE001  # logging's own rule: a record that cannot be formatted is told by it
            self.handleError(record)

    def close(self) -> None:
        """Give what is left GOODBYE_S to be written."""
        try:
            self._lines.put(None, timeout=GOODBYE_S)
        except queue.Full:
            return
        finally:
            super().close()
        self._thread.join(GOODBYE_S)

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            if self._dropped:
                told, self._dropped = self._dropped, 0
                line = f"{told} log lines were dropped: stderr took no more\n".encode() + line
            try:
                left = memoryview(line)
                while left:
                    left = left[os.write(self._descriptor, left) :]
            except OSError:
                discard(self._descriptor)
