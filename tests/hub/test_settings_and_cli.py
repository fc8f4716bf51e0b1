"""What `sot-hub` can be told, and the times that follow from the lock wait (WIRE sections 3, 5 and 8)."""

from pathlib import Path

import pytest

from hub.cli import main
from hub.settings import HubSettings, InsecureListenerError, listen_endpoints
from topology.endpoints import PipeEndpoint, UnixEndpoint, WebSocketEndpoint
from wire.env import SettingError
from wire.server import ServerLimits

DEFAULT = "unix:/default"


@pytest.mark.parametrize(("lock_wait_s", "offer_s", "window_s"), [(2, 3, 5), (0.3, 1.3, 3.3), (10, 11, 13)])
def test_the_lock_wait_moves_both_times(lock_wait_s: float, offer_s: float, window_s: float) -> None:
    settings = HubSettings(
        self_host="hub", comm_home="/c", listen=(), lock_wait_s=lock_wait_s, server=ServerLimits()
    )
    assert settings.offer_wait_s == pytest.approx(offer_s)
    assert settings.window_s == pytest.approx(window_s)


def test_the_defaults_are_the_contracts() -> None:
    settings = HubSettings(self_host="hub", comm_home="/c", listen=(), server=ServerLimits())
    assert (settings.lock_wait_s, settings.max_filings, settings.insecure) == (2, 1024, False)


def test_without_a_listener_named_the_default_one_is_bound() -> None:
    assert listen_endpoints([], DEFAULT, insecure=False) == (UnixEndpoint("/default"),)
    assert listen_endpoints(["unix:/a", "pipe:b"], DEFAULT, insecure=False) == (
        UnixEndpoint("/a"),
        PipeEndpoint("b"),
    )


def test_a_websocket_listener_needs_the_operators_word() -> None:
    assert listen_endpoints(["ws://127.0.0.1:0/"], DEFAULT, insecure=True) == (
        WebSocketEndpoint("127.0.0.1", 0),
    )
    with pytest.raises(InsecureListenerError, match="--insecure"):
        listen_endpoints(["unix:/a", "ws://127.0.0.1:0/"], DEFAULT, insecure=False)


@pytest.mark.parametrize("text", ["wss://x/", "ssh:hub", "tcp://x:1", "", "unix"])
def test_what_cannot_be_listened_on_is_a_usage_error(text: str) -> None:
    with pytest.raises(SettingError, match="--listen"):
        listen_endpoints([text], DEFAULT, insecure=True)


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["dance"],
        ["serve", "--lissten", "x"],
        ["serve", "extra"],
        ["check", "--socket", "x"],
        ["serve", "--listen"],
    ],
    ids=" ".join,
)
def test_usage_errors_exit_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(argv)
    assert exit_info.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "usage: sot-hub" in said.err


@pytest.mark.parametrize(
    "argv", [["--help"], ["serve", "--help"], ["check", "--help"], ["stdio-bridge", "--help"], ["--version"]]
)
def test_help_and_version_exit_0(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(argv)
    assert exit_info.value.code == 0
    assert "sot-hub" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["serve", "--listen", "ws://127.0.0.1:0/"], 1, "--insecure"),
        (["serve", "--listen", "wss://x/", "--insecure"], 2, "TLS proxy"),
        (["serve", "--log-level", "LOUD"], 2, "LOUD"),
        (["serve", "--hosts", "none.toml"], 1, "none.toml"),
        (["check", "--hosts", "none.toml"], 1, "none.toml"),
    ],
)
def test_what_stops_a_start(
    argv: list[str],
    code: int,
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOT_SELF_HOST", "hub")
    assert main(argv) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert words in said.err
