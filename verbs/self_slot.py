"""This session's self file: where it is, what it says, and whose it is to write (PROTOCOL Layout, Mail and
address-book verbs).
"""

import os
from collections.abc import Mapping

from filing.fresh_read import ReadFailed
from filing.handles import is_handle
from filing.self_file import (
    SelfAnswer,
    SelfFile,
    conflicting_claim,
    read_self,
    self_path,
    slot_in_name,
    slot_of,
)
from filing.value import Value
from topology.paths import comm_home
from verbs.address_book import FailedError


class SelfSlot(Value):
    """`stands` is what the file at `path` said when it was read."""

    path: str
    slot: str
    stands: SelfAnswer

    @property
    def unreadable(self) -> str | None:
        """Why it could not be read, so that it may name anybody."""
        return self.stands.why if isinstance(self.stands, ReadFailed) else None

    @property
    def names(self) -> str | None:
        """The handle in it, if there is one."""
        return self.stands.handle if isinstance(self.stands, SelfFile) else None

    def claim_against(self, own: SelfFile) -> str | None:
        """Say what makes the slot another project's than `own`'s. One that was not read is not judged."""
        stands = self.stands if isinstance(self.stands, SelfFile) else None
        claim = conflicting_claim(self.slot, stands, own)
        return f"it names @{self.names}, claimed for {claim}" if claim else None

    def remembers(self, own: SelfFile) -> str | None:
        """Return the handle it gives `own`'s project: the shared slot may name any other."""
        stands = self.stands
        if not isinstance(stands, SelfFile) or not is_handle(stands.handle):
            return None
        same = stands.root == own.root if stands.root else stands.repo == own.repo
        return stands.handle if same else None


def read_slot(env: Mapping[str, str], host: str) -> SelfSlot:
    """Read the self file of this process; `host` is the declared name. Raises FailedError."""
    path = env.get("SOT_COMM_SELF_FILE")
    if not path:
        try:
            path = self_path(comm_home(env), host, slot_of(env.get("SOT_WORKSPACE_ID")))
        except ValueError as error:
            raise FailedError(f"this session has no self file: {error}") from None
    slot = slot_in_name(os.path.basename(path), host) or ""  # noqa: PTH119  # pathlib costs start-up time
    return SelfSlot(path, slot, read_self(path))
