"""Windows: nothing proves a death (PROTOCOL The registry lock)."""


def boot_id() -> str | None:
    return None


def pid_namespace() -> str | None:
    return None


def process_start(pid: int) -> str:
    raise OSError(0, f"this system does not prove whether pid {pid} runs")


def no_fresh_read(folder: str) -> str | None:  # noqa: ARG001 - one interface: the other systems ask the folder
    return "this system proves no death"
