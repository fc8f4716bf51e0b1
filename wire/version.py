"""Which release this is, and what a daemon says of itself."""

from typing import Any

from wire.limits import PROTOCOL_VERSION

VERSION = "0.1.0"


def daemon_facts(host: str, hosts_toml_hash: str, uptime_s: float) -> dict[str, Any]:
    """Return the answer to `version.query` (WIRE section 4); older clients read the five under `daemon`."""
    facts = {
        "app_version": VERSION,
        "protocol": PROTOCOL_VERSION,
        "host": host,
        "hosts_toml_hash": hosts_toml_hash,
        "uptime_s": round(uptime_s, 3),
    }
    return {**facts, "daemon": dict(facts)}
