"""Settings of the environment: read once, checked, each with its default. Light: every send reads one."""

from wire.limits import LOCK_WAIT_S

TYPE_CHECKING = False  # spares a send what only type checkers read
if TYPE_CHECKING:
    from collections.abc import Mapping


LONGEST_WAIT_S = 3600  # that a setting may ask for


class SettingError(ValueError):
    """A setting that cannot be used; str() names it, its value and the way out. Exit 2."""


def lock_wait(env: "Mapping[str, str]") -> float:
    """Return $SOT_INBOX_LOCK_WAIT_SECS, which moves every bound of one comm.file, or its default."""
    return number(env, "SOT_INBOX_LOCK_WAIT_SECS", LOCK_WAIT_S, least=0, most=LONGEST_WAIT_S)


def box_name(name: str) -> str:
    """Return this box's own name as declared. SettingError for one that no frame and no log can hold."""
    if not name.isprintable() or not name.strip():
        raise SettingError(f"this box's name is {name!r}; give a printable one with --self-host")
    return name


def count(env: "Mapping[str, str]", name: str, default: int) -> int:
    """Return a whole number of at least 1 from the environment, or `default`."""
    value = number(env, name, default, least=1, most=1_000_000)
    if value != int(value):
        raise SettingError(f"{name} is {env[name]!r}; it takes a whole number")
    return int(value)


def number(env: "Mapping[str, str]", name: str, default: float, *, least: float, most: float) -> float:
    """Return a number from the environment, or `default` where it is unset or empty."""
    text = env.get(name, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not least <= value <= most:
        raise SettingError(f"{name} is {text!r}; it takes a number from {least:g} to {most:g}")
    return value
