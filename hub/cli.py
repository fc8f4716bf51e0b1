"""`sot-hub`: serve, check, stdio-bridge (WIRE section 8). Each imports what it needs when it needs it."""

import argparse
import os
import sys
from collections.abc import Sequence

from wire.standard_streams import complain, open_what_is_closed

EXIT_REFUSED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; return its exit code. Usage errors exit 2, an interrupt before it serves 130."""
    open_what_is_closed()
    arguments = _parser().parse_args(argv)
    try:
        match arguments.command:
            case "serve":
                return _serve(arguments)
            case "check":
                from topology.check import main as check

                return check(arguments.hosts, os.environ)
            case _:
                return _bridge(arguments)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    from wire.options import daemon_options
    from wire.version import VERSION

    parser = argparse.ArgumentParser(
        prog="sot-hub",
        description="The hub: files mail for its own comm folder and offers the rest to every linked box.",
    )
    parser.add_argument("--version", action="version", version=f"sot-hub {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serve = commands.add_parser(
        "serve",
        help="run the hub",
        description="Run the hub until SIGTERM or SIGINT. "
        "Prints 'listening ENDPOINT' for each listener, then 'ready'.",
        epilog="example: sot-hub serve --hosts hosts.toml --listen unix:/run/user/1000/sot/hub.sock "
        "--listen ws://127.0.0.1:8787/ --insecure",
    )
    daemon_options(serve)
    serve.add_argument(
        "--listen",
        metavar="ENDPOINT",
        action="append",
        default=[],
        help="unix:/path, ws://host:port/ or, on Windows, pipe:name; may repeat "
        "($SOT_LISTEN, separated by spaces; default: hub.sock in the runtime folder)",
    )
    serve.add_argument(
        "--insecure",
        action="store_true",
        help="WebSocket listeners ask for no token and no TLS ($SOT_INSECURE=1)",
    )
    check = commands.add_parser(
        "check", help="print what hosts.toml says", description="Print what was understood."
    )
    check.add_argument(
        "--hosts", metavar="FILE", help="hosts.toml ($SOT_HOSTS; default: the config folder's)"
    )
    bridge = commands.add_parser(
        "stdio-bridge",
        help="copy stdin and stdout to the hub's socket; what an ssh: endpoint runs on the hub",
        description="Copy bytes between stdin, stdout and the hub's Unix socket.",
    )
    bridge.add_argument(
        "--socket", metavar="PATH", help="the hub's socket (default: hub.sock in the runtime folder)"
    )
    return parser


def _bridge(arguments: argparse.Namespace) -> int:
    from topology.paths import hub_socket
    from wire.transports.stdio_bridge import bridge

    return bridge(arguments.socket or hub_socket(os.environ))


def _serve(arguments: argparse.Namespace) -> int:
    import logging

    from hub.serve import serve
    from hub.settings import HubSettings, InsecureListenerError, listen_endpoints
    from topology.endpoints import WebSocketEndpoint, hub_endpoint, relay_endpoint
    from topology.hosts_file import HostsError, find
    from topology.names import HostNameError, self_host
    from topology.paths import comm_home
    from wire.env import SettingError, box_name, count, lock_wait
    from wire.limits import MAX_FILINGS
    from wire.runtime import log_to_stderr, raise_descriptor_limit, run, until_told_to_stop
    from wire.settings import server_limits

    env = os.environ
    try:
        log_to_stderr(arguments.log_level or env.get("SOT_LOG_LEVEL") or "INFO")
    except ValueError as error:
        return _usage(f"--log-level: {error}")
    try:
        insecure = arguments.insecure or env.get("SOT_INSECURE", "") == "1"
        settings = HubSettings(
            self_host=box_name(arguments.self_host or self_host(env)),
            comm_home=arguments.comm_home or comm_home(env),
            listen=listen_endpoints(
                arguments.listen or env.get("SOT_LISTEN", "").split(),
                hub_endpoint(env),
                insecure=insecure,
            ),
            insecure=insecure,
            lock_wait_s=lock_wait(env),
            max_filings=count(env, "SOT_MAX_FILINGS", MAX_FILINGS),
            server=server_limits(env, raise_descriptor_limit()),
        )
    except (SettingError, HostNameError) as error:
        return _usage(str(error))
    except InsecureListenerError as error:
        return _refused(str(error))
    try:
        topology = find(arguments.hosts, env)
    except HostsError as error:
        return _refused(str(error))
    log = logging.getLogger("sot.hub")
    if topology is None:
        log.warning(
            "there is no hosts.toml: this daemon is the hub of its folder, and no box is expected to link"
        )
    else:
        for warning in topology.warnings:
            log.warning("%s", warning)
    if insecure and any(isinstance(endpoint, WebSocketEndpoint) for endpoint in settings.listen):
        log.warning("--insecure: the WebSocket listeners ask for no token and no TLS")

    forward_endpoint = None
    if topology is not None and topology.hub != settings.self_host:
        log.warning("hosts.toml names %s as the hub; this box is %s", topology.hub, settings.self_host)
        forward_endpoint = relay_endpoint(topology, settings.self_host, env)
    return run(until_told_to_stop(lambda stop: serve(settings, topology, forward_endpoint, stop)))


def _usage(sentence: str) -> int:
    complain(f"sot-hub: {sentence}")
    return EXIT_USAGE


def _refused(sentence: str) -> int:
    complain(f"sot-hub: {sentence}")
    return EXIT_REFUSED


if __name__ == "__main__":
    sys.exit(main())
