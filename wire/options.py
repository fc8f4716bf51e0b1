"""The command-line options that every daemon takes. Light: `sot-hub stdio-bridge` is parsed with them too."""

import argparse


def daemon_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that every daemon takes; each has its variable in the environment."""
    parser.add_argument(
        "--hosts", metavar="FILE", help="hosts.toml ($SOT_HOSTS; default: the config folder's)"
    )
    parser.add_argument(
        "--self-host", metavar="HOST", help="this box's name ($SOT_SELF_HOST; default: the host name)"
    )
    parser.add_argument(
        "--comm-home", metavar="DIR", help="the comm folder ($SOT_COMM_HOME; default: ~/.sot-comm)"
    )
    parser.add_argument(
        "--log-level", metavar="LEVEL", help="DEBUG, INFO, WARNING or ERROR ($SOT_LOG_LEVEL; default: INFO)"
    )
