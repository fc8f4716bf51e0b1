"""What `sot-link run` can be told, and the times that follow from the lock wait (WIRE sections 5 and 8)."""

import sys
from typing import Any

import pytest

from link.cli import main
from link.settings import LinkSettings, hub_endpoint, listen_endpoint
from topology.endpoints import PipeEndpoint, UnixEndpoint
from wire.env import SettingError
from wire.server import ServerLimits


def settings(**members: Any) -> LinkSettings:
    return LinkSettings(
        self_host="box",
        comm_home="/home/comm",
        hub="unix:/hub",
        listen=UnixEndpoint("/own"),
        server=ServerLimits(),
        **members,
    )


@pytest.mark.parametrize(("lock_wait_s", "file_s", "hand_on_s"), [(2, 3, 4.5), (0.5, 1.5, 3), (10, 11, 12.5)])
def test_the_lock_wait_moves_both_times(lock_wait_s: float, file_s: float, hand_on_s: float) -> None:
    told = settings(lock_wait_s=lock_wait_s)
    assert (told.file_wait_s, told.hand_on_wait_s) == (file_s, hand_on_s)


def test_the_default_lock_wait_is_2_s() -> None:
    assert settings().lock_wait_s == 2


def test_what_was_named_goes_before_what_hosts_toml_derives() -> None:
    assert hub_endpoint("unix:/named", "ssh:derived") == "unix:/named"
    assert hub_endpoint(None, "ssh:derived") == "ssh:derived"
    assert hub_endpoint("", "ssh:derived") == "ssh:derived"
    assert hub_endpoint("WS://x:1/".lower(), None) == "ws://x:1/"


@pytest.mark.parametrize(
    ("named", "derived"), [(None, None), ("", ""), ("nowhere", None), ("http://x/", "ssh:y")]
)
def test_a_hub_that_cannot_be_dialled_is_a_usage_error(named: str | None, derived: str | None) -> None:
    with pytest.raises(SettingError, match="--hub"):
        hub_endpoint(named, derived)


def test_a_link_listens_for_its_own_box_only() -> None:
    assert listen_endpoint("unix:/x") == UnixEndpoint("/x")
    assert listen_endpoint("pipe:x") == PipeEndpoint("x")
    for text in ("ws://127.0.0.1:1/", "wss://x/", "ssh:x", "x"):
        with pytest.raises(SettingError, match="--listen"):
            listen_endpoint(text)


@pytest.mark.parametrize(
    "argv", [[], ["dance"], ["run", "--hub"], ["run", "--insecure"], ["run", "extra"]], ids=" ".join
)
def test_usage_errors_exit_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(argv)
    assert exit_info.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "usage: sot-link" in said.err


@pytest.mark.parametrize("argv", [["--help"], ["run", "--help"], ["--version"]], ids=" ".join)
def test_help_and_version_exit_0(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(argv)
    assert exit_info.value.code == 0
    assert "sot-link" in capsys.readouterr().out


def test_a_missing_hosts_file_that_was_named_exits_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    assert main(["run", "--hub", "unix:/x", "--hosts", str(tmp_path / "none.toml")]) == 1
    assert "none.toml" in capsys.readouterr().err


def test_no_hub_at_all_exits_2_and_says_how_to_name_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    for name in ("SOT_HUB", "SOT_HOSTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert main(["run"]) == 2
    assert "--hub ENDPOINT" in capsys.readouterr().err


def test_the_command_imports_nothing_heavy_for_its_help() -> None:
    import subprocess

    heavy = (
        "import sys, link.cli; link.cli._parser(); print('pydantic' in sys.modules, 'asyncio' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["False", "False"]
