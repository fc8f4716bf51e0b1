"""Windows: LockFileEx, the MachineGuid, FlushFileBuffers (which is what os.fsync calls)."""

import ctypes
import msvcrt
import os
import sys
import winreg
from ctypes import wintypes
from typing import Final

from filing.lock_manager import unknown_lock

assert sys.platform == "win32"  # noqa: S101 - tells the type checker which system the rest is for

_FAIL_IMMEDIATELY: Final = 0x1
_EXCLUSIVE: Final = 0x2
_WHOLE_FILE: Final = 0xFFFFFFFF
_ERROR_LOCK_VIOLATION: Final = 33
_ERROR_IO_PENDING: Final = 997
_DRIVE_FIXED: Final = 3

_kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)


class _Overlapped(ctypes.Structure):
    _fields_ = (
        ("Internal", ctypes.c_size_t),
        ("InternalHigh", ctypes.c_size_t),
        ("Offset", wintypes.DWORD),
        ("OffsetHigh", wintypes.DWORD),
        ("hEvent", wintypes.HANDLE),
    )


_LockFileEx = _kernel32.LockFileEx
_LockFileEx.argtypes = (
    wintypes.HANDLE,
    wintypes.DWORD,
    wintypes.DWORD,
    wintypes.DWORD,
    wintypes.DWORD,
    ctypes.POINTER(_Overlapped),
)
_LockFileEx.restype = wintypes.BOOL
_UnlockFileEx = _kernel32.UnlockFileEx
_UnlockFileEx.argtypes = (
    wintypes.HANDLE,
    wintypes.DWORD,
    wintypes.DWORD,
    wintypes.DWORD,
    ctypes.POINTER(_Overlapped),
)
_UnlockFileEx.restype = wintypes.BOOL
_GetDriveType = _kernel32.GetDriveTypeW
_GetDriveType.argtypes = (wintypes.LPCWSTR,)
_GetDriveType.restype = wintypes.UINT


flush = os.fsync


def try_lock(fd: int, *, shared: bool = False) -> bool:
    """False: somebody else holds it."""
    error = _lock(fd, _FAIL_IMMEDIATELY | (0 if shared else _EXCLUSIVE))
    if error in {_ERROR_LOCK_VIOLATION, _ERROR_IO_PENDING}:
        return False
    if error:
        raise ctypes.WinError(error)
    return True


def wait_lock(fd: int, *, shared: bool = False) -> None:
    error = _lock(fd, 0 if shared else _EXCLUSIVE)
    if error:
        raise ctypes.WinError(error)


def _lock(fd: int, flags: int) -> int:
    held = _LockFileEx(
        msvcrt.get_osfhandle(fd), flags, 0, _WHOLE_FILE, _WHOLE_FILE, ctypes.byref(_Overlapped())
    )
    return 0 if held else ctypes.get_last_error()


def unlock(fd: int) -> None:
    if not _UnlockFileEx(msvcrt.get_osfhandle(fd), 0, _WHOLE_FILE, _WHOLE_FILE, ctypes.byref(_Overlapped())):
        raise ctypes.WinError(ctypes.get_last_error())


def flush_folder(path: str) -> None:
    """NTFS journals its names itself, and a folder's handle cannot be flushed."""


def machine_id() -> str | None:
    try:
        with winreg.OpenKey(
            winreg.HKEY_LOCAL_MACHINE,
            r"SOFTWARE\Microsoft\Cryptography",
            0,
            winreg.KEY_READ | winreg.KEY_WOW64_64KEY,
        ) as key:
            value, _ = winreg.QueryValueEx(key, "MachineGuid")
    except OSError:
        return None
    return value.strip() or None if isinstance(value, str) else None


def own_identity(folder: str, machine_id: str | None) -> str:  # noqa: ARG001 - every drive is the same here
    return unknown_lock(machine_id)


def own_disk(folder: str, identity: str) -> bool:  # noqa: ARG001 - the identity is the same on every drive
    """A fixed drive and no UNC path, links in the path followed; an error is no."""
    path = os.path.realpath(folder)
    path = "\\\\" + path[8:] if path.upper().startswith("\\\\?\\UNC\\") else path.removeprefix("\\\\?\\")
    drive, _ = os.path.splitdrive(path)
    return not drive.startswith("\\\\") and _GetDriveType(drive + "\\") == _DRIVE_FIXED
