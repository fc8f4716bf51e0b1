"""`sot-link`: run (WIRE section 8)."""

import argparse
import os
import sys
from collections.abc import Sequence

from wire.standard_streams import complain, open_what_is_closed


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; return its exit code. Usage errors exit 2, an interrupt before it serves 130."""
    open_what_is_closed()
    arguments = _parser().parse_args(argv)
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    from wire.options import daemon_options
    from wire.version import VERSION

    parser = argparse.ArgumentParser(
        prog="sot-link",
        description="A box's daemon: holds its link to the hub and files what the hub offers.",
    )
    parser.add_argument("--version", action="version", version=f"sot-link {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser(
        "run",
        help="hold the link",
        description="Hold the link until SIGTERM or SIGINT. Prints 'listening ENDPOINT', then 'ready'.",
        epilog="example: sot-link run --hub ssh:hub --self-host laptop",
    )
    run.add_argument(
        "--hub",
        metavar="ENDPOINT",
        help="where the hub is dialled: ws://, wss://, unix:/path or ssh:target ($SOT_HUB; default: what "
        "hosts.toml derives)",
    )
    daemon_options(run)
    run.add_argument(
        "--listen",
        metavar="ENDPOINT",
        help="unix:/path or, on Windows, pipe:name, for this box's clients ($SOT_LISTEN; default: link.sock "
        "in the runtime folder)",
    )
    return parser


def _run(arguments: argparse.Namespace) -> int:
    import logging

    from link.run import hold_link
    from link.settings import LinkSettings, hub_endpoint, listen_endpoint
    from topology.endpoints import link_endpoint, relay_endpoint
    from topology.hosts_file import HostsError, find
    from topology.names import HostNameError, self_host
    from topology.paths import comm_home
    from wire.env import SettingError, box_name, count, lock_wait
    from wire.limits import MAX_FILINGS
    from wire.runtime import log_to_stderr, raise_descriptor_limit, run, until_told_to_stop
    from wire.settings import server_limits

    env = os.environ
    log = logging.getLogger("sot.link")
    try:
        log_to_stderr(arguments.log_level or env.get("SOT_LOG_LEVEL") or "INFO")
        topology = find(arguments.hosts, env)
        name = box_name(arguments.self_host or self_host(env))
        derived = relay_endpoint(topology, name, env)
        settings = LinkSettings(
            self_host=name,
            comm_home=arguments.comm_home or comm_home(env),
            hub=hub_endpoint(arguments.hub or env.get("SOT_HUB"), derived),
            listen=listen_endpoint(arguments.listen or env.get("SOT_LISTEN") or link_endpoint(env)),
            lock_wait_s=lock_wait(env),
            max_filings=count(env, "SOT_MAX_FILINGS", MAX_FILINGS),
            server=server_limits(env, raise_descriptor_limit()),
        )
    except HostsError as error:
        complain(f"sot-link: {error}")
        return 1
    except (SettingError, HostNameError, ValueError) as error:
        complain(f"sot-link: {error}")
        return 2
    if topology is None:
        log.warning("there is no hosts.toml: the link dials what it was told")
    else:
        for warning in topology.warnings:
            log.warning("%s", warning)
    return run(until_told_to_stop(lambda stop: hold_link(settings, topology, stop)))


if __name__ == "__main__":
    sys.exit(main())
