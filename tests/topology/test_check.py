import io
import sys
from pathlib import Path

import pytest

from topology.check import main, report
from topology.hosts_file import parse

TEXT = """\
hub = "hub"
[host.hub]
daemon = true
url = "wss://hub.example.org/"
[host.laptop]
frontend = true
demon = true
[host.lab.example.org]
url = "ssh:lab"
[monitor]
hub = ""
"\\u001b[31mred" = "ann@gpu"
"""
ENV = {"XDG_RUNTIME_DIR": "/run/user/7"}


def told(name: str, text: str = TEXT, **env: str) -> str:
    return report(parse(text.encode(), "hosts.toml"), name, "hosts.toml", {**ENV, **env})


@pytest.mark.skipif(sys.platform == "win32", reason="the hub's own endpoint is a pipe there")
def test_the_whole_report_as_a_person_reads_it() -> None:
    assert told("hub").splitlines() == [
        "hosts.toml  hosts.toml",
        f"sha256      {parse(TEXT.encode(), '').sha256}",
        "hub         hub, dialed at wss://hub.example.org/",
        "links       laptop",
        "",
        "HOST             DAEMON  FRONTEND  LINK        URL",
        "hub              yes     no        is the hub  wss://hub.example.org/",
        "laptop           no      yes       expected    -",
        "lab.example.org  no      no        -           ssh:lab (unused: not the hub)",
        "",
        "MONITOR      SSH TARGET",
        "hub          -",
        "\\x1b[31mred  ann@gpu",
        "",
        "this box  hub: the hub",
        "endpoint  unix:/run/user/7/sot/hub.sock",
        "",
        "warnings",
        "  hosts.toml:7: unknown key 'demon' in [host.laptop] is ignored (did you mean 'daemon'?)",
    ]


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("laptop", "this box  laptop: should hold a link to the hub\nendpoint  wss://hub.example.org/\n"),
        ("lab.example.org", "this box  lab.example.org: no link expected\n"),
        ("other", "this box  other: not in the file; the hub refuses a link from it\n"),
    ],
)
def test_what_this_box_is(name: str, part: str) -> None:
    assert part in told(name)


def test_a_small_file_has_a_small_report() -> None:
    text = told("b", "hub = 'a'\n[host.a]\ndaemon = true\n[host.b]\n")
    assert "hub         a, dialed at ssh:a (no url)\nlinks       no box is expected to hold one\n" in text
    assert "endpoint  ssh:a\n" in text
    assert "MONITOR" not in text
    assert "warnings" not in text


def test_an_endpoint_that_overrides_is_named() -> None:
    assert "clients here use $SOT_RELAY_ENDPOINT instead: ssh:other\n" in told(
        "laptop", SOT_RELAY_ENDPOINT="ssh:other"
    )


def test_without_a_file_the_report_says_what_that_means() -> None:
    assert report(None, "atlas", "/home/ann/.config/sot/hosts.toml", {}) == (
        "no topology: there is no file /home/ann/.config/sot/hosts.toml\n"
        "This daemon is the hub of its own comm folder: any host may link to it, and no box is expected to.\n"
        "\n"
        "this box  atlas\n"
    )


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
        "LOCALAPPDATA": str(tmp_path),
        "SOT_SELF_HOST": "laptop",
        **ENV,
    }


def test_a_good_file_is_printed_and_exits_0(
    tmp_path: Path, env: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "boxes.toml"
    file.write_text(TEXT, "utf-8")
    assert main(str(file), env) == 0
    out, err = capsys.readouterr()
    assert "this box  laptop: should hold a link" in out
    assert err == ""
    assert main(None, {**env, "SOT_HOSTS": str(file)}) == 0
    assert capsys.readouterr().out == out


def test_a_bad_file_is_told_on_stderr_and_exits_1(
    tmp_path: Path, env: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "boxes.toml"
    file.write_text("hbu = 1", "utf-8")
    assert main(str(file), env) == 1
    assert capsys.readouterr() == ("", f"{file}:1: unknown key 'hbu' (did you mean 'hub'?)\n")


def test_only_the_default_file_may_be_missing(
    tmp_path: Path, env: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "boxes.toml")
    assert main(missing, env) == 1
    assert main(None, {**env, "SOT_HOSTS": missing}) == 1
    assert capsys.readouterr() == ("", f"{missing}: there is no such file\n" * 2)
    assert main(None, env) == 0
    out, err = capsys.readouterr()
    assert out.startswith("no topology: there is no file ")
    assert err == ""


def test_a_box_without_a_name_is_told_and_exits_1(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("topology.names._machine_name", lambda: "")
    assert main(None, {**env, "SOT_SELF_HOST": ""}) == 1
    assert "set SOT_SELF_HOST" in capsys.readouterr().err


def test_a_console_without_the_letter_still_gets_the_report(
    tmp_path: Path, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "boxes.toml"
    file.write_text(TEXT + "'é' = 'é'\n", "utf-8")
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii", newline="\n"))
    assert main(str(file), env) == 0
    sys.stdout.flush()
    assert b"\\xe9" in raw.getvalue()


def test_an_option_that_names_no_file_has_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("", {"SOT_SELF_HOST": "hub"}) == 1
    assert capsys.readouterr().err == "--hosts names no file\n"
