import ntpath
import os
import sys
import types

import pytest

from topology import paths

HOME = {"HOME": "/home/ann"}
WINDOWS = {
    "USERPROFILE": "C:\\Users\\ann",
    "LOCALAPPDATA": "C:\\Users\\ann\\AppData\\Local",
    "TEMP": "C:\\Users\\ann\\AppData\\Local\\Temp",
    "XDG_CONFIG_HOME": "C:\\elsewhere",
}
posix = pytest.mark.skipif(sys.platform == "win32", reason="the folders of Linux and macOS")


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let paths.py believe that it runs on Windows."""
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(paths, "os", types.SimpleNamespace(path=ntpath))


@pytest.fixture
def uid(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(os, "getuid", lambda: 4711, raising=False)
    return 4711


@posix
def test_the_runtime_folder_is_in_the_login_s_folder() -> None:
    env = {"XDG_RUNTIME_DIR": "/run/user/7", "TMPDIR": "/elsewhere"}
    assert paths.runtime_folder(env) == "/run/user/7/sot"
    assert paths.hub_socket(env) == "/run/user/7/sot/hub.sock"
    assert paths.link_socket(env) == "/run/user/7/sot/link.sock"


@posix
@pytest.mark.parametrize("env", [{}, {"XDG_RUNTIME_DIR": ""}, {"XDG_RUNTIME_DIR": "relative/folder"}])
def test_without_a_usable_variable_the_uid_names_the_folder(
    monkeypatch: pytest.MonkeyPatch, uid: int, env: dict[str, str]
) -> None:
    monkeypatch.setattr("os.path.isdir", lambda path: path == f"/run/user/{uid}")
    assert paths.runtime_folder(env) == f"/run/user/{uid}/sot"


@posix
def test_without_a_login_s_folder_it_is_a_temporary_one(uid: int) -> None:
    assert paths.runtime_folder({}) == f"/tmp/sot-{uid}"
    assert paths.runtime_folder({"TMPDIR": "/var/folders/x/"}) == f"/var/folders/x/sot-{uid}"


@posix
def test_the_config_folder() -> None:
    assert paths.config_folder(HOME) == "/home/ann/.config/sot"
    assert paths.config_folder({**HOME, "XDG_CONFIG_HOME": "/etc/ann"}) == "/etc/ann/sot"
    assert paths.config_folder({**HOME, "XDG_CONFIG_HOME": "relative"}) == "/home/ann/.config/sot"


@posix
def test_hosts_toml_says_whether_it_was_named() -> None:
    assert paths.hosts_file(HOME) == ("/home/ann/.config/sot/hosts.toml", False)
    assert paths.hosts_file({**HOME, "SOT_HOSTS": ""}) == ("/home/ann/.config/sot/hosts.toml", False)
    assert paths.hosts_file({**HOME, "SOT_HOSTS": "boxes.toml"}) == ("boxes.toml", True)


@posix
def test_the_comm_home() -> None:
    assert paths.comm_home(HOME) == "/home/ann/.sot-comm"
    assert paths.comm_home({**HOME, "SOT_COMM_HOME": ""}) == "/home/ann/.sot-comm"
    assert paths.comm_home({**HOME, "SOT_COMM_HOME": "/mnt/comm"}) == "/mnt/comm"


@posix
def test_without_home_the_account_has_one() -> None:
    assert paths.comm_home({}).startswith("/")


@posix
def test_an_account_without_an_entry_has_the_root_for_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7, raising=False)
    assert paths.comm_home({}) == "/.sot-comm"


@pytest.mark.usefixtures("windows")
def test_the_folders_on_windows() -> None:
    assert paths.config_folder(WINDOWS) == "C:\\Users\\ann\\AppData\\Local\\sot\\config"
    assert paths.hosts_file(WINDOWS) == ("C:\\Users\\ann\\AppData\\Local\\sot\\config\\hosts.toml", False)
    assert paths.hub_socket(WINDOWS) == "C:\\Users\\ann\\AppData\\Local\\Temp\\sot\\hub.sock"
    assert paths.comm_home(WINDOWS) == "C:\\Users\\ann\\.sot-comm"
    assert paths.runtime_folder({**WINDOWS, "XDG_RUNTIME_DIR": "D:\\run"}) == "D:\\run\\sot"


@pytest.mark.usefixtures("windows")
def test_windows_without_the_usual_variables() -> None:
    env = {"USERPROFILE": "C:\\Users\\ann"}
    assert paths.config_folder(env) == "C:\\Users\\ann\\AppData\\Local\\sot\\config"
    assert paths.runtime_folder(env) == "C:\\Users\\ann\\AppData\\Local\\Temp\\sot"
    assert paths.comm_home({"HOME": "D:\\ann"}) == "D:\\ann\\.sot-comm"
