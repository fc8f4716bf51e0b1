"""What `sot-hub check` prints: the topology as this box reads it, for a person."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence

from topology.endpoints import relay_endpoint
from topology.hosts_file import HostsError, find
from topology.model import Host, Topology
from topology.names import HostNameError, self_host
from topology.paths import hosts_file


def report(topology: Topology | None, self_host: str, path: str, env: Mapping[str, str] | None = None) -> str:
    """Return the report, each line with its end.

    `path` is the file that was asked for, `env` the environment (default: os.environ). Without a topology the
    report says what that means (WIRE section 7).
    """
    env = os.environ if env is None else env
    lines = _without_file(self_host, path) if topology is None else _with_file(topology, self_host, path, env)
    return "".join(f"{line}\n" for line in lines)


def main(hosts: str | None, env: Mapping[str, str]) -> int:
    """Load hosts.toml and print the report; return the exit code: 0, or 1 with the error on stderr.

    `hosts` is the file of `--hosts`; None means `$SOT_HOSTS`, else the default file, which alone may be
    missing.
    """
    try:
        name = self_host(env)
        topology = find(hosts, env)
    except (HostsError, HostNameError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    path = hosts_file(env)[0] if hosts is None else hosts
    _write(report(topology, name, path, env))
    return 0


def _write(text: str) -> None:
    # A console may lack a letter of a label or a path; the report is worth more than that letter.
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _without_file(name: str, path: str) -> Iterator[str]:
    yield f"no topology: there is no file {_plain(path)}"
    yield "This daemon is the hub of its own comm folder: any host may link to it, and no box is expected to."
    yield ""
    yield f"this box  {_plain(name)}"


def _with_file(topology: Topology, name: str, path: str, env: Mapping[str, str]) -> Iterator[str]:
    holders = topology.link_holders()
    yield f"hosts.toml  {_plain(path)}"
    yield f"sha256      {topology.sha256}"
    yield f"hub         {topology.hub}, dialed at {topology.hub_url() or f'ssh:{topology.hub} (no url)'}"
    yield f"links       {', '.join(holders) or 'no box is expected to hold one'}"
    yield ""
    rows: list[tuple[str, ...]] = [("HOST", "DAEMON", "FRONTEND", "LINK", "URL")]
    rows += [_row(topology, host, holds=host.name in holders) for host in topology.hosts]
    yield from _aligned(rows)
    if topology.monitor:
        yield ""
        monitor = [(_plain(label), _plain(target) or "-") for label, target in topology.monitor]
        yield from _aligned([("MONITOR", "SSH TARGET"), *monitor])
    yield ""
    yield f"this box  {_plain(name)}: {_part(topology, name)}"
    yield f"endpoint  {_plain(relay_endpoint(topology, name, env) or '-')}"
    override = env.get("SOT_RELAY_ENDPOINT")
    if override:
        yield f"          clients here use $SOT_RELAY_ENDPOINT instead: {_plain(override)}"
    if topology.warnings:
        yield ""
        yield "warnings"
        yield from (f"  {_plain(str(warning))}" for warning in topology.warnings)


def _row(topology: Topology, host: Host, *, holds: bool) -> tuple[str, ...]:
    link = "is the hub" if host.name == topology.hub else "expected" if holds else "-"
    url = host.url or "-"
    if host.url and host.name != topology.hub:
        url += " (unused: not the hub)"
    return (host.name, "yes" if host.daemon else "no", "yes" if host.frontend else "no", link, _plain(url))


def _part(topology: Topology, name: str) -> str:
    if name == topology.hub:
        return "the hub"
    if not topology.lists(name):
        return "not in the file; the hub refuses a link from it"
    return "should hold a link to the hub" if name in topology.link_holders() else "no link expected"


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _plain(text: str) -> str:
    """Show what others wrote without letting it drive the terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
