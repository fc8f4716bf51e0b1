import json
import os
import pickle
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology import hosts_file
from topology.hosts_file import HostsError, HostsMissing, find, load, parse
from topology.model import Host, Topology

TABLE: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "hosts_toml.json").read_text("utf-8")
)
CASES: list[dict[str, Any]] = TABLE["cases"]

# The table was made by a reader of a part of TOML. Here WIRE section 7 decides otherwise.
ANY_VALUE = "an unknown key inside a host is a warning, whatever its value"
ACCEPTED = {
    "hub in single quotes": "TOML 1.0 has two kinds of quotes",
    "quoted host section": '[host."b"] and [host.b] both name b',
    "unknown host key with a bad value is an error": ANY_VALUE,
    "a float": ANY_VALUE,
    "a negative integer": ANY_VALUE,
}
REFUSED = {
    "monitor twice is two sections with one key set each": (6, "TOML has each section once"),
    "monitor label is not a host name": (5, "a TOML key with a space is quoted"),
    "an empty key": (4, "a TOML key is not empty without quotes"),
}
SMALLEST = 'hub = "a"\n[host.a]\ndaemon = true\n'  # three lines; cases below add to it


def read(text: str) -> Topology:
    return parse(text.encode(), "hosts.toml")


def refusal(text: str) -> HostsError:
    with pytest.raises(HostsError) as caught:
        read(text)
    assert str(caught.value) == (
        f"hosts.toml{'' if caught.value.line is None else f':{caught.value.line}'}: {caught.value.sentence}"
    )
    return caught.value


def names(topology: Topology) -> list[str]:
    return [host.name for host in topology.hosts]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_table(case: dict[str, Any]) -> None:
    if case["name"] in ACCEPTED:
        assert case["error"]
        topology = read(case["text"])
        assert topology.hub == "a"
        assert [(w.line, w.key, w.host) for w in topology.warnings] == (
            [(4, "x", "a")] if ACCEPTED[case["name"]] is ANY_VALUE else []
        )
    elif case["name"] in REFUSED:
        assert "topology" in case
        assert refusal(case["text"]).line == REFUSED[case["name"]][0]
    elif "topology" in case:
        topology = read(case["text"])
        expected = case["topology"]
        assert topology.hub == expected["hub"]
        assert topology.hosts == tuple(Host(h["name"], h["daemon"], h["frontend"]) for h in expected["hosts"])
        assert topology.monitor == tuple((label, target) for label, target in expected["monitor"])
        assert topology.link_holders() == tuple(case["link_holders"])
        assert [{"line": w.line, "key": w.key, "host": w.host} for w in topology.warnings] == expected[
            "warnings"
        ]
        assert topology.sha256 == sha256(case["text"].encode()).hexdigest()
        assert topology.path == "hosts.toml"
    else:
        error = refusal(case["text"])
        if case["error_line"] is not None:
            assert error.line == case["error_line"]


def test_every_case_that_wire_decides_otherwise_is_in_the_table() -> None:
    assert {*ACCEPTED, *REFUSED} <= {case["name"] for case in CASES}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("hbu = 'a'\n" + SMALLEST, "hosts.toml:1: unknown key 'hbu' (did you mean 'hub'?)"),
        ("\nHUB = 'a'\n" + SMALLEST, "hosts.toml:2: unknown key 'HUB' (did you mean 'hub'?)"),
        (
            "default_host = 'a'",
            "hosts.toml:1: unknown key 'default_host' (the one key above the sections is 'hub')",
        ),
        ("daemon = true", "hosts.toml:1: unknown key 'daemon': it belongs into a [host.<name>] section"),
        ("'a\u001bb' = 1", "hosts.toml:1: TOML syntax error: Found invalid character '\\x1b'"),
        ('"a\\u001bb" = 1', "hosts.toml:1: unknown key 'a\\x1bb' (the one key above the sections is 'hub')"),
        (SMALLEST + "[hosts]", "hosts.toml:4: unknown section [hosts] (did you mean [host.<name>]?)"),
        (SMALLEST + "[hosts.b]", "hosts.toml:4: unknown section [hosts.b] (did you mean [host.b]?)"),
        (SMALLEST + "[Host.b.c]", "hosts.toml:4: unknown section [Host.b.c] (did you mean [host.b.c]?)"),
        (SMALLEST + "[[hosts]]", "hosts.toml:4: unknown section [hosts] (did you mean [host.<name>]?)"),
        (SMALLEST + "[moniter]", "hosts.toml:4: unknown section [moniter] (did you mean [monitor]?)"),
        (
            SMALLEST + '["a b\\u0007"]',
            'hosts.toml:4: unknown section ["a b\\u0007"] (sections are [host.<name>] and [monitor])',
        ),
        (
            "[hub]\nname = 'a'",
            'hosts.toml:1: [hub] is no section: write hub = "<host>" above the first section',
        ),
        (
            SMALLEST + "[host]\nb = {daemon = true}",
            "hosts.toml:4: [host] is no section: a host's is [host.<name>]",
        ),
        (SMALLEST + "[[host.b]]", "hosts.toml:4: [[host.b]] is an array of tables: write [host.b]"),
        (SMALLEST + "[[host.a.b]]", "hosts.toml:4: [[host.a.b]] is an array of tables: write [host.a.b]"),
        (SMALLEST + "[[monitor]]", "hosts.toml:4: [[monitor]] is an array of tables: write [monitor]"),
        (SMALLEST + "[monitor.x]", "hosts.toml:4: [monitor.x] is no section: [monitor] holds labels only"),
        ("host.a.daemon = true", "hosts.toml:1: 'host.a.daemon' must be a section of its own: [host.<name>]"),
        ("host = {}", "hosts.toml:1: 'host' must be a section of its own: [host.<name>]"),
        ("monitor = {}", "hosts.toml:1: 'monitor' must be a section of its own: [monitor]"),
        ("monitor.x = 'x'", "hosts.toml:1: 'monitor.x' must be a section of its own: [monitor]"),
    ],
)
def test_what_is_unknown_is_named_with_its_line_and_what_was_meant(text: str, sentence: str) -> None:
    assert str(refusal(text)) == sentence


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("hub = true\n", 1, "hub is one host name in quotes, not a boolean"),
        ("hub = 3\n", 1, "not a number"),
        ("hub = 1979-05-27\n", 1, "not a date or time"),
        ("\nhub = ['a']\n", 2, "not an array"),
        ("hub = {a = 1}\n", 1, "not a table"),
        ("hub.a = 'a'\n", 1, "hub is one host name in quotes"),
        ("hub = 'A'\n", 1, "hub = 'A' is no host name"),
        ("hub = ''\n", 1, "hub = '' is no host name"),
        (
            "# x\nhub = 'ab'\n[host.abc]\ndaemon = true\n",
            2,
            "the hub 'ab' has no section [host.ab] (did you mean 'abc'?)",
        ),
        ("hub = 'a'\n[host.b]\n[host.a]\n", 1, "the hub 'a' needs daemon = true in [host.a] (line 3)"),
        (
            "[host.a]\ndaemon = true\nhub = 'a'\n",
            3,
            "hub is set inside [host.a]: move it above the first section",
        ),
        ("[host.a]\ndaemon = true\n", None, 'no hub is named: put hub = "<host>" above the first section'),
        (SMALLEST + "[host.Two]\n", 4, "'Two' is no host name (did you mean 'two'?)"),
        (SMALLEST + "[host.'b c']\n", 4, "'b c' is no host name: a host name is"),
        (SMALLEST + "frontend = 1\n", 4, "frontend is true or false, not a number"),
        (SMALLEST + "frontend = 1979-05-27\n", 4, "frontend is true or false, not a date or time"),
        (SMALLEST + "frontend.x = true\n", 4, "'frontend.x' in [host.a] is a table"),
        (SMALLEST + "url = 1\n", 4, "url is an endpoint in quotes, not a number"),
        (
            SMALLEST + "[monitor]\nx = 07:32:00\n",
            5,
            "'x' in [monitor] is an ssh target in quotes, not a date or time",
        ),
        (SMALLEST + "[monitor]\nx = {y = 'z'}\n", 5, "not a table"),
        (SMALLEST + "x = 1\nx = 2\n", 5, "x is given twice (first at line 4)"),
        (SMALLEST + "[host.a]\n", 4, "host 'a' is listed twice (first at line 2)"),
        (SMALLEST + "[monitor]\n[monitor]\n", 5, "[monitor] is given twice (first at line 4)"),
        ("hub = 'a'\nhub = 'b'\n", 2, "hub is given twice (first at line 1)"),
        (SMALLEST + "x = '''\nnot closed\n\n", 6, "TOML syntax error"),
        (SMALLEST + "x = " + "[" * 5000, None, "the TOML reader gave up"),
        (SMALLEST + "x = " + "9" * 5000, None, "the TOML reader gave up"),
        ("x = ?\n" + SMALLEST, 1, "unknown key 'x'"),
        ("hub = ?\nx = 1\n", 1, "TOML syntax error: Invalid value"),
    ],
)
def test_what_is_wrong_is_an_error_with_its_line(text: str, line: int | None, part: str) -> None:
    error = refusal(text)
    assert part in str(error)
    assert error.line == line


def test_a_key_of_very_many_parts_is_refused_whether_or_not_tomli_gives_up() -> None:
    refusal(".".join(["k"] * 5000) + " = 1")


def test_the_first_thing_wrong_is_the_one_that_is_told() -> None:
    assert refusal(SMALLEST + "frontend = 3\n[hosts]\n").line == 4
    assert refusal(SMALLEST + "[hosts]\n[host.a]\n").line == 4  # tomli refuses line 5


def test_a_host_with_dots_is_one_host_quoted_or_not() -> None:
    for header in ["[host.lab.example.org]", '[host."lab.example.org"]', '[ host . "lab.example" . org ]']:
        assert names(read(f"{SMALLEST}{header}\ndaemon = true\n")) == ["a", "lab.example.org"]


def test_a_host_once_quoted_and_once_not_is_listed_twice() -> None:
    error = refusal(f'{SMALLEST}[host.b.c]\n[host."b.c"]\n')
    assert str(error) == "hosts.toml:5: host 'b.c' is listed twice (first at line 4)"


@pytest.mark.parametrize("keys", ["", "frontend = true\n"])
def test_a_host_and_one_whose_name_goes_on_from_it_are_two(keys: str) -> None:
    lab, example = "[host.lab]\n" + keys, "[host.lab.example]\ndaemon = true\n"
    topology = read(SMALLEST + lab + example)
    assert names(topology) == ["a", "lab", "lab.example"]
    assert topology.hosts[1:] == (Host("lab", frontend=bool(keys)), Host("lab.example", daemon=True))
    assert names(read(SMALLEST + example + lab)) == ["a", "lab.example", "lab"]
    assert names(read(SMALLEST + example)) == ["a", "lab.example"]


def test_a_name_that_goes_on_with_a_key_s_word_is_a_host() -> None:
    assert names(read(SMALLEST + "[host.b]\n[host.b.daemon]\nfrontend = true\n")) == ["a", "b", "b.daemon"]


def test_the_hub_may_have_a_name_with_dots_and_stand_last() -> None:
    topology = read('hub = "h.example.org"\n[host.x]\n[host.h.example.org]\ndaemon = true\n')
    assert topology.hub == "h.example.org"
    assert topology.lists("h.example.org")


@pytest.mark.parametrize(
    "value",
    [
        "'red'",
        "1",
        "-1.5",
        "inf",
        "true",
        "1979-05-27",
        "07:32:00",
        "[1, 'a']",
        "[{a = 1}]",
        "'''\n\n'''",
        "[\n]",
    ],
)
def test_an_unknown_key_in_a_host_is_a_warning_whatever_its_value(value: str) -> None:
    topology = read(f"{SMALLEST}demon = {value}\nfrontend = true\n")
    (warning,) = topology.warnings
    assert (warning.line, warning.host, warning.key) == (4, "a", "demon")
    assert str(warning) == "hosts.toml:4: unknown key 'demon' in [host.a] is ignored (did you mean 'daemon'?)"
    assert topology.hosts == (Host("a", daemon=True, frontend=True),)


def test_a_warning_guesses_only_when_something_is_near() -> None:
    (warning,) = read(SMALLEST + "colour = 'red'\n").warnings
    assert str(warning) == "hosts.toml:4: unknown key 'colour' in [host.a] is ignored"
    (warning,) = read(SMALLEST + "hub = 'a'\n").warnings
    assert warning.sentence == "unknown key 'hub' in [host.a] is ignored (it belongs above the first section)"


@pytest.mark.parametrize(
    "text", ["b.daemon = true", "b = {daemon = true}", "b = {}", "b.c = 1", "b = {x = 1}"]
)
def test_a_table_in_a_host_is_an_error_that_says_how_a_host_is_written(text: str) -> None:
    error = refusal(f"{SMALLEST}{text}\n")
    assert error.line == 4
    assert (
        "in [host.a] is a table, and a host holds none (a host of that name is a section: [host.a.b"
        in str(error)
    )


@pytest.mark.parametrize(
    "url",
    [
        "wss://hub.example.org/",
        "ws://hub.example.org:8080/",
        "unix:/run/hub.sock",
        "ssh:atlas",
        "ws://[::1]:1/",
    ],
)
def test_the_hub_may_have_a_url(url: str) -> None:
    assert read(f"{SMALLEST}url = '{url}'\n").hub_url() == url


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("pipe:x", "cannot be dialed: a pipe reaches no other box"),
        ("unix:", "cannot be dialed: the path of a socket begins with /"),
        ("unix:hub.sock", "cannot be dialed: the path of a socket begins with /"),
        ("ws://h:0/", "cannot be dialed: port 0 is for listening"),
        ("tcp:h:1", "url is not an endpoint: 'tcp:h:1' (accepted: "),
        ("", "url is not an endpoint: ''"),
        ("ssh:-oProxyCommand=x", "an ssh target is a plain host name"),
    ],
)
def test_a_url_that_cannot_be_dialed_is_an_error(url: str, part: str) -> None:
    error = refusal(f"{SMALLEST}url = '{url}'\n")
    assert error.line == 4
    assert part in error.sentence


def test_a_url_of_a_box_that_is_not_the_hub_is_kept() -> None:
    topology = read(SMALLEST + "[host.b]\nurl = 'ssh:b'\n")
    assert topology.host("b") == Host("b", url="ssh:b")
    assert topology.hub_url() is None
    assert topology.warnings == ()


def test_monitor_labels_may_have_dots_quoted_or_not() -> None:
    topology = read(SMALLEST + "[monitor]\nb.c = 'x'\n'GPU Box' = 'ann@gpu'\n")
    assert topology.monitor == (("b.c", "x"), ("GPU Box", "ann@gpu"))
    error = refusal(SMALLEST + "[monitor]\nb.c = 'x'\n'b.c' = 'y'\n")
    assert str(error) == "hosts.toml:6: label 'b.c' is given twice in [monitor]"


def test_escapes_and_all_kinds_of_strings_mean_what_toml_says() -> None:
    topology = read('"\\u0068ub" = """\\\n  a"""\n["host".\'a\']\n"daemon" = true\n')
    assert topology.hub == "a"
    assert topology.hosts == (Host("a", daemon=True),)


@pytest.mark.parametrize("marks", [0, 1, 2, 3])
def test_byte_order_marks_at_the_start_are_skipped_and_hashed(marks: int) -> None:
    data = b"\xef\xbb\xbf" * marks + SMALLEST.encode()
    topology = parse(data, "x")
    assert (topology.hub, topology.sha256) == ("a", sha256(data).hexdigest())
    assert refusal("\ufeff" * marks + "hbu = 1").line == 1


def test_a_byte_order_mark_elsewhere_is_an_error() -> None:
    assert refusal(SMALLEST + "\ufefffrontend = true\n").line == 4


def test_bytes_that_are_not_utf_8_are_an_error_with_their_line() -> None:
    with pytest.raises(HostsError, match=r"^hosts\.toml:4: is not UTF-8$"):
        parse(SMALLEST.encode() + b"x = '\xff'", "hosts.toml")
    with pytest.raises(HostsError, match=r"^h:1: is not UTF-8 \(it looks like UTF-16: save it as UTF-8\)$"):
        parse(SMALLEST.encode("utf-16"), "h")


def test_windows_line_ends_keep_their_lines() -> None:
    assert refusal(SMALLEST.replace("\n", "\r\n") + "x = '''\r\n'''\r\n[hosts]\r\n").line == 6


def test_a_file_is_loaded_under_the_name_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("boxes.toml").write_text(SMALLEST, "utf-8")
    assert load("boxes.toml") == parse(SMALLEST.encode(), "boxes.toml")
    Path("boxes.toml").write_text("hbu = 1", "utf-8")
    with pytest.raises(HostsError, match=r"^\./boxes\.toml:1: "):
        load("./boxes.toml")


def test_a_missing_file_is_an_error_of_its_own(tmp_path: Path) -> None:
    path = str(tmp_path / "none" / "hosts.toml")
    with pytest.raises(HostsMissing) as caught:
        load(path)
    assert str(caught.value) == f"{path}: there is no such file"
    assert (caught.value.path, caught.value.line) == (path, None)


def test_only_a_file_that_nobody_named_may_be_missing(tmp_path: Path) -> None:
    env = {"XDG_CONFIG_HOME": str(tmp_path), "LOCALAPPDATA": str(tmp_path)}
    assert find(None, env) is None
    missing = str(tmp_path / "boxes.toml")
    for named, more in [(missing, {}), (None, {"SOT_HOSTS": missing})]:
        with pytest.raises(HostsMissing):
            find(named, {**env, **more})
    Path(missing).write_text(SMALLEST, "utf-8")
    assert find(missing, {**env, "SOT_HOSTS": "another"}) == load(missing)
    assert find(None, {"SOT_HOSTS": missing}) == load(missing)


def test_a_link_to_nothing_is_not_taken_for_a_missing_file(tmp_path: Path) -> None:
    link = tmp_path / "hosts.toml"
    try:
        link.symlink_to(tmp_path / "nothing")
    except OSError:
        pytest.skip("this account may not make symbolic links")
    with pytest.raises(HostsError, match="is a symbolic link to a file that is not there") as caught:
        load(str(link))
    assert not isinstance(caught.value, HostsMissing)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows words it differently")
def test_what_cannot_be_read_is_an_error_with_its_cause(tmp_path: Path) -> None:
    with pytest.raises(HostsError, match="cannot be read: Is a directory"):
        load(str(tmp_path))
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(HostsError, match="cannot be read: Not a directory"):
        load(str(file / "hosts.toml"))
    with pytest.raises(HostsError, match="cannot be read: embedded null"):
        load("a\0b")


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="nothing is kept from this account")
def test_a_file_without_the_right_to_read_it(tmp_path: Path) -> None:
    file = tmp_path / "hosts.toml"
    file.write_text(SMALLEST, "utf-8")
    file.chmod(0)
    with pytest.raises(HostsError, match="cannot be read: Permission denied"):
        load(str(file))


def test_a_refused_right_to_read_names_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "hosts.toml")

    monkeypatch.setattr(hosts_file, "_open_at_once", refuse)
    with pytest.raises(HostsError, match=r"^hosts\.toml: cannot be read: Permission denied$") as caught:
        load("hosts.toml")
    assert not isinstance(caught.value, HostsMissing)


@pytest.mark.skipif(sys.platform == "win32", reason="FIFOs and devices of POSIX")
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    fifo = tmp_path / "hosts.toml"
    if sys.platform != "win32":
        os.mkfifo(fifo)
    for path in (str(fifo), "/dev/null", "/dev/zero"):
        with pytest.raises(HostsError, match="is not a regular file") as caught:
            load(path)
        assert str(caught.value).startswith(f"{path}: ")
        assert not isinstance(caught.value, HostsMissing)


def test_an_option_that_names_no_file_is_told_so() -> None:
    with pytest.raises(HostsError, match=r"^--hosts names no file$") as caught:
        find("", {})
    assert not isinstance(caught.value, HostsMissing)


def test_a_url_whose_host_no_dns_encodes_is_refused() -> None:
    for host in ("a..b", ".a", "a" * 64, "a." * 127 + "b"):
        with pytest.raises(HostsError, match=r"hosts\.toml:3: url is not an endpoint: .*host"):
            parse(f"hub = 'a'\n[host.a]\nurl = 'wss://{host}/'\n".encode(), "hosts.toml")


def test_a_file_past_the_bound_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "hosts.toml"
    file.write_bytes(SMALLEST.encode() + b"#" * hosts_file.MAX_HOSTS_BYTES)
    with pytest.raises(HostsError, match="is larger than 1048576 bytes"):
        load(str(file))


def test_the_errors_survive_pickling() -> None:
    for error in [HostsError("f", 3, "a sentence"), HostsMissing("f")]:
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.line) == (type(error), str(error), error.line)


def test_the_example_file_is_valid() -> None:
    topology = load(str(Path(__file__).parents[2] / "hosts.toml.example"))
    assert topology.warnings == ()
    assert topology.hub_url() == "wss://hub.example.org/"
    assert topology.lists("lab.example.org")
    assert topology.link_holders() == ("laptop", "winbox")
    assert topology.monitor


PIECES = st.sampled_from(
    [
        *("hub = 'a'", "[host.a]", "[host.a.b]", "[monitor]", "daemon = true", "url", "host", "monitor"),
        *("[[", '"""', "'''", "1979-05-27"),
        *"[]{}'\"#=.\n\r\\ ,1x\x00é\ufeff",
    ]
)


@given(st.one_of(st.text(), st.lists(PIECES, max_size=25).map("".join)).map(str.encode) | st.binary())
def test_no_bytes_at_all_raise_anything_but_a_hosts_error(data: bytes) -> None:
    try:
        parse(data, "hosts.toml")
    except HostsError as error:
        assert error.line is None or 1 <= error.line <= data.count(b"\n") + 1  # noqa: PT017  # only this one may come
