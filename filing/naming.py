"""A session's handle, derived from its project folder and its box (PROTOCOL Naming).

`<base>-<host>`; where another project holds that, `<base>-<parent folder>-<host>`; where that is held too,
`<base>-<hash6 of the root>-<host>`. Whether the holder is live is not asked: two projects would swap a name
to and fro. An explicit name overrides all of this, and is the caller's business.
"""

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from filing.registry import Listing, RegistryAnswer

RECLAIM: Final = "reclaim"  # a join: a handle that this very root holds is its own
FRESH: Final = "fresh"  # a spawn: it makes a new agent, and absorbs nobody's row
COMPONENT_MAX: Final = 20
HOST_MAX: Final = 12

_FORBIDDEN = re.compile(r"[^A-Za-z0-9._-]+")
_DASHES = re.compile(r"-{2,}")


def component(raw: str, most: int = COMPONENT_MAX) -> str:
    """One part of a handle: of `[A-Za-z0-9._-]`, at most `most` long, with single dashes and none at an end.

    What leaves nothing over is `x`.
    """
    reduced = _DASHES.sub("-", _FORBIDDEN.sub("-", raw)).strip("-")
    return reduced[:most].rstrip("-") or "x"


def host_component(raw_host: str) -> str:
    """The box's part. A name that the reduction changed carries a hash of itself, or two boxes could meet in
    one handle.
    """
    reduced = component(raw_host, HOST_MAX)
    return reduced if reduced == raw_host else f"{reduced}-{hash6(raw_host)}"


def hash6(text: str) -> str:
    """The first 6 hex digits of SHA-256. A path's undecodable bytes are hashed as they were."""
    import hashlib  # some milliseconds that only the third tier and an unusual host name need

    data = text.encode("utf-8", "surrogatepass" if sys.platform == "win32" else "surrogateescape")
    return hashlib.sha256(data).hexdigest()[:6]


@dataclass(frozen=True, slots=True)
class Derived:
    """`qualifier` stands between base and host, "" at tier 1. `notice`: what a person must be told, that the
    handle is not the plain `tier1`; None at tier 1.
    """

    handle: str
    tier: int
    qualifier: str
    tier1: str
    notice: str | None


@dataclass(frozen=True, slots=True)
class NoHandle:
    """No handle was derived, and nothing may be written. `sentence` says why, and the way out."""

    sentence: str


def tiers(root: str, host: str) -> tuple[tuple[str, str], ...]:
    """(handle, qualifier) of the three tiers, in their order."""
    above, name = os.path.split(_without_trailing_separators(root))
    base, box = component(name), host_component(host)
    parent, hashed = component(os.path.basename(above)), hash6(root)
    return (f"{base}-{box}", ""), (f"{base}-{parent}-{box}", parent), (f"{base}-{hashed}-{box}", hashed)


def derive_handle(mode: str, root: str, host: str, held: Mapping[str, str] | None) -> Derived | NoHandle:
    """The first tier that nobody else holds. `root` is canonical (no link, no trailing separator).

    `host` is the box's raw name. `held` is `held_roots` of the registry, read under its lock by whoever is
    going to write; a caller that must not take a handle adds it there under the root "", nobody's. Nothing
    is ever overwritten: with all three held there is no handle.
    """
    if mode not in {RECLAIM, FRESH}:
        return NoHandle(f"comm: a handle is derived to {RECLAIM} or {FRESH}, not {mode!r}")
    if held is None:
        return NoHandle("the registry could not be read, so no handle was derived; nothing was written")
    candidates = tiers(root, host)
    plain = candidates[0][0]
    passed: list[str] = []
    for tier, (handle, qualifier) in enumerate(candidates, 1):
        holder = held.get(handle)
        if holder is None or (mode == RECLAIM and holder == root):
            notice = f"comm: {_and(passed)} already held — joining as @{handle} instead" if passed else None
            return Derived(handle, tier, qualifier, plain, notice)
        passed.append(f"@{handle} (by {holder or 'an unknown project'})")
    return NoHandle(
        f"comm: every derived handle for this project is already held: {_and(passed)}. "
        "Pass --name to pick one explicitly"
    )


def held_roots(registry: RegistryAnswer) -> dict[str, str] | None:
    """Each handle with a row, and the root it was joined from ("": not known). None: it cannot be told.

    A missing registry tells nothing either: it is made before a name is derived, so that somebody has removed
    it.
    """
    if not isinstance(registry, Listing):
        return None
    held = {}
    for handle, row in registry.agents.items():
        root = row.get("root") if isinstance(row, dict) else None
        held[handle] = root if isinstance(root, str) else ""
    return held


def _without_trailing_separators(path: str) -> str:
    return path.rstrip(os.sep + (os.altsep or ""))


def _and(parts: list[str]) -> str:
    return " and ".join((", ".join(parts[:-1]), parts[-1])) if len(parts) > 1 else parts[0]
