"""The registry lock (PROTOCOL The registry lock): `with registry_lock(home, wait_s): ...`.

`record` says who holds it and whether that process is dead, `walk` how a dead holder's lock is reclaimed,
`take` how long a caller waits, `sentences` what FAILED says: all of it decided from values. `lock` does it.
"""

from filing.registry_lock.lock import (
    HEARTBEAT_WAIT_S,
    RULED_WAIT_S,
    TOUCH_WAIT_S,
    ClearAnswer,
    LockNotTakenError,
    clear,
    registry_lock,
)

__all__ = [
    "HEARTBEAT_WAIT_S",
    "RULED_WAIT_S",
    "TOUCH_WAIT_S",
    "ClearAnswer",
    "LockNotTakenError",
    "clear",
    "registry_lock",
]
