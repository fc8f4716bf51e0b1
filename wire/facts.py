"""What a daemon says of itself: the answer to `version.query` (WIRE section 4)."""

from typing import Any

from wire.limits import PROTOCOL_VERSION
from wire.version import VERSION


def daemon_facts(host: str, hosts_toml_hash: str, uptime_s: float) -> dict[str, Any]:
    """Return the five facts; older clients read them under `daemon`. The hash is SHA-256 hex, or ""."""
    facts = {
        "app_version": VERSION,
        "protocol": PROTOCOL_VERSION,
        "host": host,
        "hosts_toml_hash": hosts_toml_hash,
        "uptime_s": round(uptime_s, 3),
    }
    return {**facts, "daemon": dict(facts)}
