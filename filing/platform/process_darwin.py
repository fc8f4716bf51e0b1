"""macOS: sysctl."""

import ctypes
import os
import sys
from typing import Final

from filing import platform

assert sys.platform == "darwin"  # noqa: S101 - tells the type checker which system the rest is for

_CTL_KERN: Final = 1
_KERN_PROC: Final = 14
_KERN_PROC_PID: Final = 1
_KINFO_PROC_BYTES: Final = 648  # sizeof(struct kinfo_proc), 64-bit
_STARTED_OFFSET: Final = 0  # kp_proc.p_un.__p_starttime.tv_sec
_PID_OFFSET: Final = 40  # kp_proc.p_pid
_LARGEST_PID: Final = 0x7FFFFFFF


def boot_id() -> str | None:
    """The boot session's UUID."""
    libc = ctypes.CDLL(None, use_errno=True)
    size = ctypes.c_size_t(64)
    value = ctypes.create_string_buffer(size.value)
    if libc.sysctlbyname(b"kern.bootsessionuuid", value, ctypes.byref(size), None, ctypes.c_size_t(0)) != 0:
        return None
    return value.value.decode("ascii", "replace").strip() or None


def pid_namespace() -> str:
    return "darwin"


def process_start(pid: int) -> str:
    """Whole seconds since the epoch. sysctl tells them of every account's processes, libproc of one's own."""
    if pid > _LARGEST_PID:
        raise OSError(0, "no pid is that large")
    libc = ctypes.CDLL(None, use_errno=True)
    name = (ctypes.c_int * 4)(_CTL_KERN, _KERN_PROC, _KERN_PROC_PID, pid)
    size = ctypes.c_size_t(_KINFO_PROC_BYTES)
    entry = ctypes.create_string_buffer(size.value)
    if libc.sysctl(name, 4, entry, ctypes.byref(size), None, ctypes.c_size_t(0)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    if size.value == 0:  # how this sysctl says that there is no such process
        raise ProcessLookupError(pid)
    if size.value != _KINFO_PROC_BYTES or ctypes.c_int32.from_buffer(entry, _PID_OFFSET).value != pid:
        raise OSError(0, "the kernel's record of it has another shape")
    return str(ctypes.c_int64.from_buffer(entry, _STARTED_OFFSET).value)


def no_fresh_read(folder: str) -> str | None:
    """Only the Mac's own disk (MNT_LOCAL) proves one."""
    return None if platform.own_disk(folder, "") else "the comm home is not on this Mac's own disk"
