"""What this machine knows of its processes, for the registry lock's proof of death (PROTOCOL The registry
lock). One set of names, as in `filing.platform`.

`boot_id() -> str | None`: names this start of the machine. `pid_namespace() -> str | None`: the namespace
whose pids `process_start` is asked about, None where it can ask about none. `process_start(pid) -> str`:
`ProcessLookupError` when there is no such process, any other `OSError` when that cannot be told.
`no_fresh_read(folder) -> str | None`: why opening this folder and then a file in it does not prove a fresh
read; None where it does.
"""

import sys

if sys.platform == "win32":
    from filing.platform.process_windows import boot_id, no_fresh_read, pid_namespace, process_start
elif sys.platform == "darwin":
    from filing.platform.process_darwin import boot_id, no_fresh_read, pid_namespace, process_start
else:
    from filing.platform.process_linux import boot_id, no_fresh_read, pid_namespace, process_start

__all__ = ["boot_id", "no_fresh_read", "pid_namespace", "process_start"]
