"""What a daemon asks the machine it runs on about a comm folder, as one object that a test can replace."""

from typing import Final

from filing import platform


class Machine:
    """This machine. Each call may read files of the system; none of them fails."""

    def machine_id(self) -> str | None:
        return platform.machine_id()

    def own_identity(self, folder: str, machine_id: str | None) -> str:
        """Line 1 of the lock record for `folder`, as this daemon would write it now."""
        return platform.own_identity(folder, machine_id)

    def own_disk(self, folder: str, identity: str) -> bool:
        return platform.own_disk(folder, identity)


THIS_MACHINE: Final = Machine()
