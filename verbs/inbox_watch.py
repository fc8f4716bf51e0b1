"""Waiting until an inbox changes: the system's own notice, and a look now and then beside it.

A network file system tells nothing of what another box writes, so that the look decides there. Where notices
are not to be had at all, the look is all there is, and comes sooner.
"""

import logging
import os
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from filing.comm_folder import CommFolder, make_private_folder
from filing.fresh_read import error_text

if TYPE_CHECKING:
    from watchdog.observers.api import BaseObserver

LOOK_EVERY_S: Final = 5.0
LOOK_ALONE_EVERY_S: Final = 1.0
_STOP_S: Final = 2.0
# Reading the inbox is noticed too ("opened", "closed_no_write"), and must not wake its own reader.
_WRITES: Final = frozenset({"created", "modified", "moved", "closed", "deleted"})


class InboxWatch:
    """Watches one inbox while its block runs. `warnings` are for a person."""

    def __init__(self, home: str, handle: str) -> None:
        folder = CommFolder(home)
        self._inboxes = folder.inboxes
        self._name = os.path.basename(folder.inbox(handle))  # noqa: PTH119  # these are texts
        self._changed = threading.Event()
        self._observer: BaseObserver | None = None
        self.warnings: list[str] = []

    def __enter__(self) -> Self:
        try:
            make_private_folder(self._inboxes)  # before the first mail there may be none
            self._start()
        except ImportError as error:
            self._tell_slow(f"{error.name} is not installed")
        except OSError as error:
            self._tell_slow(error_text(error))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._observer is not None:
            self._observer.stop()
            self._observer.join(_STOP_S)

    def forget(self) -> None:
        """Take the changes until now for seen; called before the inbox is read, so that none is missed."""
        self._changed.clear()

    def wait_for_change(self) -> None:
        """Return when the inbox may have changed since `forget`."""
        self._changed.wait(LOOK_ALONE_EVERY_S if self._observer is None else LOOK_EVERY_S)

    def dispatch(self, event: Any) -> None:
        """Take one notice: what `watchdog` asks of a handler. Called on a thread of its own."""
        if event.event_type in _WRITES and self._name in {_name(event.src_path), _name(event.dest_path)}:
            self._changed.set()

    def _start(self) -> None:
        from watchdog.observers import Observer

        # It warns of notices that come while it is being stopped, and a follower ends without a word.
        logging.getLogger("watchdog").setLevel(logging.CRITICAL)
        observer = Observer()
        observer.schedule(self, self._inboxes)  # type: ignore[arg-type]  # it asks for `dispatch` and no more
        observer.start()
        self._observer = observer

    def _tell_slow(self, why: str) -> None:
        self.warnings.append(
            f"changes are not told here ({why}); looking every {LOOK_ALONE_EVERY_S:g} s instead"
        )


def _name(path: str | bytes) -> str:
    return os.path.basename(os.fsdecode(path))  # noqa: PTH119  # as above
