"""Where this box keeps its sockets, settings and mail (WIRE section 7).

Each function takes the environment and returns a path as text; nothing is created here. An empty variable
counts as unset. So does a relative XDG path, as the XDG base directory specification asks: it would name
another folder for each working directory. Light on purpose: `verbs/` imports this before it sends a line.
"""
# pathlib costs start-up time, and these are texts:
# ruff: noqa: PTH111, PTH112, PTH117, PTH118

import os
import sys

TYPE_CHECKING = False  # `typing` would cost a send more than all the rest of this module
if TYPE_CHECKING:
    from collections.abc import Mapping


def runtime_folder(env: "Mapping[str, str]") -> str:
    r"""Return the sockets' folder: `$XDG_RUNTIME_DIR/sot`, else `/run/user/<uid>/sot`, else a temporary one.

    The second is taken only where `/run/user/<uid>` exists. The third is `<temp folder>/sot-<uid>`; on
    Windows it is `<temp folder>\sot`, as the temp folder is the account's own there.
    """
    base = _absolute(env, "XDG_RUNTIME_DIR")
    if base:
        return os.path.join(base, "sot")
    if sys.platform == "win32":
        temp = env.get("TEMP") or env.get("TMP") or os.path.join(_local_app_data(env), "Temp")
        return os.path.join(temp, "sot")
    uid = os.getuid()
    login = f"/run/user/{uid}"
    if os.path.isdir(login):
        return f"{login}/sot"
    return os.path.join(env.get("TMPDIR") or "/tmp", f"sot-{uid}")  # noqa: S108  # whoever makes it makes it 0700


def hub_socket(env: "Mapping[str, str]") -> str:
    """Return the path of the socket that a hub serves its own box on."""
    return os.path.join(runtime_folder(env), "hub.sock")


def link_socket(env: "Mapping[str, str]") -> str:
    """Return the path of the socket that a link serves its own box on."""
    return os.path.join(runtime_folder(env), "link.sock")


def config_folder(env: "Mapping[str, str]") -> str:
    r"""Return the folder of hosts.toml and the tokens: `$XDG_CONFIG_HOME/sot`, else `~/.config/sot`.

    On Windows it is `%LOCALAPPDATA%\sot\config`.
    """
    if sys.platform == "win32":
        return os.path.join(_local_app_data(env), "sot", "config")
    return os.path.join(_absolute(env, "XDG_CONFIG_HOME") or os.path.join(_home(env), ".config"), "sot")


def hosts_file(env: "Mapping[str, str]") -> tuple[str, bool]:
    """Return the path of hosts.toml, and whether `$SOT_HOSTS` named it: a named file has to be there."""
    named = env.get("SOT_HOSTS")
    if named:
        return named, True
    return os.path.join(config_folder(env), "hosts.toml"), False


def comm_home(env: "Mapping[str, str]") -> str:
    """Return the comm folder: `$SOT_COMM_HOME`, else `~/.sot-comm`."""
    return env.get("SOT_COMM_HOME") or os.path.join(_home(env), ".sot-comm")


def _absolute(env: "Mapping[str, str]", variable: str) -> str | None:
    value = env.get(variable, "")
    return value if os.path.isabs(value) else None


def _home(env: "Mapping[str, str]") -> str:
    if sys.platform == "win32":
        return env.get("USERPROFILE") or env.get("HOME") or os.path.expanduser("~")
    if env.get("HOME"):
        return env["HOME"]
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"  # a container's made-up uid has no entry; container engines set HOME to the same


def _local_app_data(env: "Mapping[str, str]") -> str:
    return env.get("LOCALAPPDATA") or os.path.join(_home(env), "AppData", "Local")
