"""Reading hosts.toml: bytes in, a Topology or a HostsError out (WIRE section 7).

HostsError
└── HostsMissing    there is no such file
"""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from topology.endpoints import EndpointError, PipeEndpoint, UnixEndpoint, WebSocketEndpoint, parse_endpoint
from topology.model import Host, HostWarning, Topology
from topology.names import is_host_name
from topology.paths import hosts_file
from topology.toml_lines import Header, Key, entries

MAX_HOSTS_BYTES = 1_048_576  # of one hosts.toml; some ten thousand hosts

_TOP_KEYS = ("hub",)
_HOST_KEYS = ("daemon", "frontend", "url")
_SECTIONS = ("host", "monitor")
_HOST_NAME = "a host name is lower-case letters, digits, '.', '_' and '-', and begins with a letter or digit"


class HostsError(Exception):
    """A hosts.toml that cannot be used; str() is `<file>:<line>: <sentence>`, or `<file>: <sentence>`.

    Where not even a file was named it is the sentence alone, and `path` is "".
    """

    def __init__(self, path: str, line: int | None, sentence: str) -> None:
        super().__init__(path, line, sentence)
        self.path = path
        self.line = line
        self.sentence = sentence

    def __str__(self) -> str:
        if not self.path:
            return self.sentence
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{place}: {self.sentence}"


class HostsMissing(HostsError):  # noqa: N818  # named for what it says, as FileNotFoundError's callers read it
    """There is no file of that name. A file that is there and cannot be read is a plain HostsError."""

    def __init__(self, path: str) -> None:
        super().__init__(path, None, "there is no such file")

    def __reduce__(self) -> tuple[type["HostsMissing"], tuple[str]]:
        return HostsMissing, (self.path,)


def find(named: str | None, env: Mapping[str, str]) -> Topology | None:
    """Return the topology this box runs by, None where there is no file and none was named (WIRE section 7).

    `named` is the file of `--hosts`; None means `$SOT_HOSTS`, else the default file, which alone may be
    missing. Raises HostsMissing, HostsError.
    """
    if named == "":
        raise HostsError("", None, "--hosts names no file")
    path, must_exist = hosts_file(env) if named is None else (named, True)
    try:
        return load(path)
    except HostsMissing:
        if must_exist:
            raise
        return None


def load(path: str) -> Topology:
    """Read the hosts.toml at `path`; messages name it as given. Raises HostsMissing, else HostsError."""
    try:
        with open(path, "rb", opener=_open_at_once) as file:  # Path.open takes no opener
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise HostsError(path, None, "is not a regular file (a FIFO, or a device)")
            data = file.read(MAX_HOSTS_BYTES + 1)
    except FileNotFoundError as error:
        if Path(path).is_symlink():
            # The file was meant to be there: no reason to go on as if nobody had written one.
            raise HostsError(path, None, "is a symbolic link to a file that is not there") from error
        raise HostsMissing(path) from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise HostsError(path, None, f"cannot be read: {why}") from error
    return parse(data, path)


def _open_at_once(path: str, flags: int) -> int:
    # The open of a FIFO would wait for a writer, for ever as a rule.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def parse(data: bytes, path: str) -> Topology:
    """Read the bytes of a hosts.toml; `path` is the name that messages give it. Raises HostsError.

    The first thing wrong in file order is reported; what concerns the whole file (the hub) after that.
    """
    if len(data) > MAX_HOSTS_BYTES:
        raise HostsError(path, None, f"is larger than {MAX_HOSTS_BYTES} bytes, which no hosts.toml is")
    text = _text(data, path)
    tables = _tables(text, path)
    reader = _Reader(path)
    for entry in entries(text):
        reader.place(entry)
        if isinstance(entry, Key):
            reader.take(entry, _value(tables, reader.full_name(entry)))
    return reader.topology(sha256(data).hexdigest())


def _text(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8").lstrip("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        hint = " (it looks like UTF-16: save it as UTF-8)" if data[:2] in {b"\xff\xfe", b"\xfe\xff"} else ""
        raise HostsError(path, line, f"is not UTF-8{hint}") from error


def _tables(text: str, path: str) -> dict[str, Any]:
    import tomli

    try:
        return tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        # tomli counts past a last line end when it meets the end of the file; an editor has no such line.
        line = min(error.lineno, max(1, len(text.removesuffix("\n").split("\n"))))
        _complain_before(text, path, line)
        raise HostsError(path, line, f"TOML syntax error: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise HostsError(path, None, f"the TOML reader gave up: {error}") from error


def _complain_before(text: str, path: str, line: int) -> None:
    """Raise what our own rules say up to the line that tomli refused: it is earlier, or better said."""
    reader = _Reader(path)
    try:
        for entry in entries(text):
            if entry.line > line:
                break
            reader.place(entry)
    except (ValueError, RecursionError):
        return


def _value(tables: Mapping[str, Any], name: tuple[str, ...]) -> Any:
    value: Any = tables
    for part in name:
        value = value[part]
    return value


@dataclass(slots=True)
class _Section:
    """The section that keys fall into: the top of the file, [monitor], or a host and what it has so far."""

    header: tuple[str, ...]
    line: int
    host: Host | None = None


@dataclass(slots=True)
class _Reader:
    """Takes headers and keys in file order, and keeps what they say. Every method raises HostsError."""

    path: str
    section: _Section = field(default_factory=lambda: _Section((), 1))
    hosts: dict[str, _Section] = field(default_factory=dict)
    monitor: dict[str, str] = field(default_factory=dict)
    warnings: list[HostWarning] = field(default_factory=list)
    hub: str | None = None
    hub_line: int | None = None
    stray_hub: tuple[int, str] | None = None  # a `hub` inside a host's section: line and host
    seen: dict[tuple[str, ...], int] = field(default_factory=dict)

    def place(self, entry: Header | Key) -> None:
        """Judge where an entry stands, whatever its value."""
        if isinstance(entry, Header):
            self._open(entry)
        else:
            self._once(self.full_name(entry), _dotted(entry.parts), entry.line)
            self._place_key(entry)

    def full_name(self, key: Key) -> tuple[str, ...]:
        return self.section.header + key.parts

    def take(self, key: Key, value: Any) -> None:
        """Judge and keep the value of a key that was placed."""
        if self.section.host is not None:
            self.section.host = self._host_key(self.section.host, key, value)
        elif self.section.header == ("monitor",):
            self._monitor_key(key, value)
        else:
            self._hub_key(key, value)

    def topology(self, digest: str) -> Topology:
        """Judge the file as a whole."""
        hosts = tuple(section.host for section in self.hosts.values() if section.host is not None)
        if self.hub is None:
            if self.stray_hub is not None:
                line, host = self.stray_hub
                raise HostsError(
                    self.path, line, f"hub is set inside [host.{host}]: move it above the first section"
                )
            raise HostsError(self.path, None, 'no hub is named: put hub = "<host>" above the first section')
        section = self.hosts.get(self.hub)
        if section is None:
            near = _did_you_mean(self.hub, tuple(self.hosts))
            raise HostsError(
                self.path, self.hub_line, f"the hub {self.hub!r} has no section [host.{self.hub}]{near}"
            )
        if section.host is None or not section.host.daemon:
            where = f"[host.{self.hub}] (line {section.line})"
            raise HostsError(self.path, self.hub_line, f"the hub {self.hub!r} needs daemon = true in {where}")
        return Topology(self.hub, hosts, tuple(self.monitor.items()), tuple(self.warnings), digest, self.path)

    def _once(self, name: tuple[str, ...], shown: str, line: int) -> None:
        # Never in a file that tomli takes; in one that it does not, a better sentence than tomli's.
        first = self.seen.setdefault(name, line)
        if first != line:
            raise HostsError(self.path, line, f"{shown} is given twice (first at line {first})")

    def _open(self, header: Header) -> None:
        shown = f"[{_dotted(header.parts)}]"
        kind, *rest = header.parts
        if kind not in _SECTIONS:
            raise HostsError(self.path, header.line, _unknown_section(header.parts, shown))
        if header.array:
            raise HostsError(self.path, header.line, f"[{shown}] is an array of tables: write {shown}")
        self.section = _Section(header.parts, header.line)
        if kind == "monitor":
            if rest:
                raise HostsError(
                    self.path, header.line, f"{shown} is no section: [monitor] holds labels only"
                )
            self._once(header.parts, shown, header.line)
            return
        name = ".".join(rest)
        if not rest:
            raise HostsError(self.path, header.line, f"{shown} is no section: a host's is [host.<name>]")
        if not is_host_name(name):
            near = f" (did you mean {name.lower()!r}?)" if is_host_name(name.lower()) else ""
            raise HostsError(self.path, header.line, f"{name!r} is no host name{near}: {_HOST_NAME}")
        if name in self.hosts:
            first = self.hosts[name].line
            raise HostsError(self.path, header.line, f"host {name!r} is listed twice (first at line {first})")
        self.section.host = Host(name)
        self.hosts[name] = self.section

    def _place_key(self, key: Key) -> None:
        first = key.parts[0]
        if self.section.host is not None:
            if len(key.parts) > 1:
                raise self._table_in_host(self.section.host, key)
        elif self.section.header:
            return
        elif first in _SECTIONS:
            form = "[host.<name>]" if first == "host" else "[monitor]"
            raise HostsError(
                self.path, key.line, f"{_dotted(key.parts)!r} must be a section of its own: {form}"
            )
        elif first in _HOST_KEYS:
            raise HostsError(
                self.path, key.line, f"unknown key {first!r}: it belongs into a [host.<name>] section"
            )
        elif first not in _TOP_KEYS:
            near = _did_you_mean(first, _TOP_KEYS) or " (the one key above the sections is 'hub')"
            raise HostsError(self.path, key.line, f"unknown key {first!r}{near}")

    def _hub_key(self, key: Key, value: Any) -> None:
        if not isinstance(value, str) or len(key.parts) > 1:
            raise HostsError(self.path, key.line, f"hub is one host name in quotes, not {_kind(value)}")
        if not is_host_name(value):
            raise HostsError(self.path, key.line, f"hub = {value!r} is no host name: {_HOST_NAME}")
        self.hub, self.hub_line = value, key.line

    def _monitor_key(self, key: Key, value: Any) -> None:
        label = ".".join(key.parts)  # a label is a host's name as a rule, and is written with dots like one
        if not isinstance(value, str):
            raise HostsError(
                self.path, key.line, f"{label!r} in [monitor] is an ssh target in quotes, not {_kind(value)}"
            )
        if label in self.monitor:
            raise HostsError(self.path, key.line, f"label {label!r} is given twice in [monitor]")
        self.monitor[label] = value

    def _host_key(self, host: Host, key: Key, value: Any) -> Host:
        match key.parts[0]:
            case "daemon":
                return replace(host, daemon=self._boolean(key, value))
            case "frontend":
                return replace(host, frontend=self._boolean(key, value))
            case "url":
                return replace(host, url=self._url(key, value))
        if isinstance(value, dict):
            raise self._table_in_host(host, key)
        self._warn(host, key)
        return host

    def _boolean(self, key: Key, value: Any) -> bool:
        if not isinstance(value, bool):
            raise HostsError(self.path, key.line, f"{key.parts[0]} is true or false, not {_kind(value)}")
        return value

    def _url(self, key: Key, value: Any) -> str:
        if not isinstance(value, str):
            raise HostsError(self.path, key.line, f"url is an endpoint in quotes, not {_kind(value)}")
        try:
            endpoint = parse_endpoint(value)
        except EndpointError as error:
            raise HostsError(self.path, key.line, f"url is {error}") from error
        match endpoint:
            case PipeEndpoint():
                why = "a pipe reaches no other box"
            case UnixEndpoint() if not endpoint.path.startswith("/"):
                why = "the path of a socket begins with /"
            case WebSocketEndpoint() if endpoint.port == 0:
                why = "port 0 is for listening"
            case _:
                return value
        raise HostsError(self.path, key.line, f"url = {value!r} cannot be dialed: {why}")

    def _table_in_host(self, host: Host, key: Key) -> HostsError:
        name = _dotted((*host.name.split("."), *key.parts))
        sentence = f"{_dotted(key.parts)!r} in [host.{host.name}] is a table, and a host holds none"
        return HostsError(
            self.path, key.line, f"{sentence} (a host of that name is a section: [host.{name}])"
        )

    def _warn(self, host: Host, key: Key) -> None:
        name = key.parts[0]
        near = _did_you_mean(name, _HOST_KEYS)
        if name in _TOP_KEYS:
            self.stray_hub = self.stray_hub or (key.line, host.name)
            near = " (it belongs above the first section)"
        sentence = f"unknown key {name!r} in [host.{host.name}] is ignored{near}"
        self.warnings.append(HostWarning(self.path, key.line, host.name, name, sentence))


def _unknown_section(parts: tuple[str, ...], shown: str) -> str:
    if parts[0] in _TOP_KEYS:
        return f'{shown} is no section: write {parts[0]} = "<host>" above the first section'
    match _nearest(parts[0], _SECTIONS):
        case "host":
            near = (
                f" (did you mean [{_dotted(('host', *parts[1:]))}]?)"
                if parts[1:]
                else " (did you mean [host.<name>]?)"
            )
        case "monitor":
            near = " (did you mean [monitor]?)"
        case _:
            near = " (sections are [host.<name>] and [monitor])"
    return f"unknown section {shown}{near}"


def _did_you_mean(word: str, known: tuple[str, ...]) -> str:
    near = _nearest(word, known)
    return "" if near is None else f" (did you mean {near!r}?)"


def _nearest(word: str, known: tuple[str, ...]) -> str | None:
    import difflib

    return next(iter(difflib.get_close_matches(word.casefold(), known, 1)), None)


def _dotted(parts: tuple[str, ...]) -> str:
    """Write a name as TOML does: a part gets quotes when it needs them, and reaches no terminal raw."""
    return ".".join(part if _is_bare(part) else _quoted(part) for part in parts)


def _is_bare(part: str) -> bool:
    return part.isascii() and part.replace("-", "a").replace("_", "a").isalnum()


def _quoted(part: str) -> str:
    import json

    return (
        part.join('""') if part.isprintable() and '"' not in part and "\\" not in part else json.dumps(part)
    )


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case dict():
            return "a table"
        case _:
            return "a date or time"
