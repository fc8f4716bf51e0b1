"""Is a handle live: the one rule that the shell's `sot_heartbeat_fresh` shares (PROTOCOL registry.json)."""

import re
import time
from functools import lru_cache
from typing import Final

LIVE_SECS: Final = 600

_STAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", re.ASCII)


def utc_stamp(epoch_s: float) -> str:
    """`YYYY-MM-DDTHH:MM:SSZ`, the fraction dropped."""
    return _stamp(int(epoch_s // 1))


@lru_cache(maxsize=16)  # asked twice for each filing, and there are many in a second
def _stamp(epoch_s: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch_s))


def heartbeat_fresh(last_seen: object, now_epoch_s: float, live_secs: int = LIVE_SECS) -> bool:
    """True when `last_seen` is a fixed-width UTC stamp under `live_secs` old by the caller's clock.

    Stamps are compared as text, as the shell does: a date that no calendar has still sorts, and one in the
    future is live.
    """
    if not isinstance(last_seen, str) or _STAMP.fullmatch(last_seen) is None:
        return False
    return last_seen > utc_stamp(now_epoch_s - live_secs)
