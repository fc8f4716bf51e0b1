"""What differs between systems, behind one set of names. Nothing else in `filing` asks which system this is,
but for flags of `os.open` that one of them lacks.

`try_lock(fd, shared=False) -> bool` and `wait_lock(fd, shared=False)`: the kernel's file lock, on a
descriptor opened read-write (an NFS client refuses a shared lock on one without read access). `wait_lock`
blocks, and its thread cannot be called off. `unlock(fd)` gives the lock back. All raise `OSError`.
`machine_id() -> str | None`: this machine's own id. `own_identity(folder, machine_id) -> str`: line 1 of the
lock record for that folder. `own_disk(folder, identity) -> bool`: the folder is on this machine's own disk.
`flush(fd)`: the file's bytes are on the disk when it returns. `flush_folder(path)`: so are the names in it.
"""

import sys

if sys.platform == "win32":
    from filing.platform.windows import (
        flush,
        flush_folder,
        machine_id,
        own_disk,
        own_identity,
        try_lock,
        unlock,
        wait_lock,
    )
else:
    from filing.platform.posix import flush_folder, try_lock, unlock, wait_lock

    if sys.platform == "darwin":
        from filing.platform.darwin import flush, machine_id, own_disk, own_identity
    else:
        from filing.platform.linux import flush, machine_id, own_disk, own_identity

__all__ = [
    "flush",
    "flush_folder",
    "machine_id",
    "own_disk",
    "own_identity",
    "try_lock",
    "unlock",
    "wait_lock",
]
