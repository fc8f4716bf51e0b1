"""What a handle may be spelled like (WIRE section 5, `bad_handle`)."""

import re

_HANDLE = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)


def is_handle(text: str) -> bool:
    """1 to 64 characters of `[A-Za-z0-9._-]`."""
    return _HANDLE.fullmatch(text) is not None
