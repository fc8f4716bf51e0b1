"""Which daemon is asked."""

import os
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.verbs.support import BOUND_S, Box, answering, failed, filed, filing
from topology.endpoints import hub_endpoint, link_endpoint
from verbs import endpoints, unix
from verbs.endpoints import NoDaemonError, SilentError, UnusableEndpointError, own_endpoints, reach
from verbs.unix import UnixChannel

if sys.platform == "win32":
    pytest.skip("the scripted daemon serves a Unix socket", allow_module_level=True)

HOSTS = """
hub = "hub"
[host.hub]
daemon = true
{url}
[host.boxa]
daemon = true
"""


def asked(box: Box, named: str | None = None) -> str:
    endpoint, channel = reach(named, box.env, time.monotonic() + BOUND_S)
    channel.close()
    return endpoint


def hosts(box: Box, url: str = "") -> None:
    folder = box.folder / ".config" / "sot"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hosts.toml").write_text(HOSTS.format(url=f'url = "{url}"' if url else ""))


def why_none(box: Box) -> str:
    with pytest.raises(NoDaemonError) as told:
        reach(None, box.env, time.monotonic() + BOUND_S)
    sentence = str(told.value)
    assert sentence.startswith(
        f"no sotd daemon found; nobody listens on unix:{box.link_socket} or unix:{box.hub_socket}, and "
    )
    assert "SOT_RELAY_ENDPOINT or comm-relay's --endpoint" in sentence
    return sentence.partition(", and ")[2].partition(": start one, or name one")[0]


def test_the_first_that_serves_is_asked(box: Box) -> None:
    named, variable, url = (str(box.folder / name) for name in ("named", "variable", "url"))
    hosts(box, f"unix:{url}")
    with box.daemon(path=url):
        assert asked(box) == f"unix:{url}"
        with box.daemon(path=box.hub_socket):
            assert asked(box) == f"unix:{box.hub_socket}"
            with box.daemon(path=box.link_socket):
                assert asked(box) == f"unix:{box.link_socket}"
                with box.daemon(path=variable):
                    box.env["SOT_RELAY_ENDPOINT"] = f"unix:{variable}"
                    assert asked(box) == f"unix:{variable}"
                    with box.daemon(path=named):
                        assert asked(box, f"unix:{named}") == f"unix:{named}"


def test_a_socket_of_this_box_that_nobody_listens_on_is_passed_over(box: Box) -> None:
    url = str(box.folder / "url")
    hosts(box, f"unix:{url}")
    box.stale(box.link_socket)
    with box.daemon(path=box.hub_socket):
        assert asked(box) == f"unix:{box.hub_socket}"
    with box.daemon(path=url):  # the hub's is stale now
        assert asked(box) == f"unix:{url}"


def test_an_empty_variable_names_nothing(box: Box) -> None:
    box.env["SOT_RELAY_ENDPOINT"] = ""
    with box.daemon():
        assert asked(box) == f"unix:{box.hub_socket}"


@pytest.mark.parametrize("stale", [True, False])
def test_a_named_endpoint_is_never_passed_over(box: Box, stale: bool) -> None:
    path = str(box.folder / "named")
    if stale:
        box.stale(path)
    why = "Connection refused" if stale else "No such file or directory"
    with box.daemon() as daemon:
        line = failed(f"the daemon did not answer at unix:{path}: {why}")
        assert box.relay("send", "@h", "hi", "--endpoint", f"unix:{path}") == line
        assert box.relay("send", "@h", "hi", SOT_RELAY_ENDPOINT=f"unix:{path}") == line
        assert daemon.hellos == []


def test_the_endpoint_of_hosts_toml_is_never_passed_over(box: Box) -> None:
    hosts(box, "unix:/nowhere")
    assert box.relay("send", "@h", "hi") == failed(
        "the daemon did not answer at unix:/nowhere: No such file or directory"
    )


def test_no_daemon_at_all(box: Box) -> None:
    assert why_none(box) == f"there is no {box.folder}/.config/sot/hosts.toml to name a hub"
    hosts(box)
    box.env["SOT_SELF_HOST"] = "hub"
    assert why_none(box) == "hosts.toml says that this box is the hub"
    box.env["SOT_HOSTS"] = "/nowhere.toml"
    assert why_none(box) == "/nowhere.toml: there is no such file"
    done = box.relay("send", "@h", "hi")
    assert done.code == 1
    assert done.err.startswith("FAILED -> @h: no sotd daemon found; ")


def test_a_text_that_is_no_endpoint(box: Box) -> None:
    box.env["SOT_RELAY_ENDPOINT"] = "tcp:hub"
    with pytest.raises(UnusableEndpointError, match=r"^\$SOT_RELAY_ENDPOINT: not an endpoint: 'tcp:hub' \("):
        asked(box)
    with pytest.raises(UnusableEndpointError, match=r"^not an endpoint: 'hub.sock' .*; nothing was sent$"):
        asked(box, "hub.sock")
    with pytest.raises(
        UnusableEndpointError, match=r"^ssh:hub/boxb names the daemon of boxb behind hub, which"
    ):
        asked(box, "ssh:hub/boxb")


def test_a_folder_of_another_account_is_not_this_box_s(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    with box.daemon(answering()):
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert why_none(box)


def test_a_path_that_no_socket_can_have_is_passed_over(box: Box) -> None:
    box.env["XDG_RUNTIME_DIR"] = str(box.folder / ("x" * 100))
    (Path(box.env["XDG_RUNTIME_DIR"]) / "sot").mkdir(parents=True)
    url = str(box.folder / "url")
    hosts(box, f"unix:{url}")
    with box.daemon(path=url):
        assert asked(box) == f"unix:{url}"
    with pytest.raises(SilentError) as told:
        asked(box, f"unix:{'x' * 200}")
    assert told.value.words == "AF_UNIX path too long"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter everywhere")
def test_a_socket_that_may_not_be_entered_is_not_passed_over(box: Box) -> None:
    with box.daemon(path=box.link_socket):
        Path(box.link_socket).chmod(0)
        with pytest.raises(SilentError):
            asked(box)


def test_this_box_s_endpoints_are_the_daemons_own(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    assert own_endpoints(box.env) == (link_endpoint(box.env), hub_endpoint(box.env))
    monkeypatch.setattr(sys, "platform", "win32")
    assert own_endpoints({"USERNAME": "Lab"}) == ("pipe:sot-link-lab", "pipe:sot-hub-lab")


def test_on_windows_a_pipe_that_is_not_there_is_passed_over(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def dial(text: str, deadline: float) -> UnixChannel:
        tried.append(text)
        if text == "pipe:sot-link-lab":
            raise FileNotFoundError(2, "no such pipe")
        return UnixChannel(box.hub_socket, deadline)

    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr("verbs.remote.dial", dial)
    monkeypatch.setattr(unix, "sys", type("posix", (), {"platform": "linux"}))
    with box.daemon():
        endpoint, channel = reach(None, {"USERNAME": "lab"}, time.monotonic() + BOUND_S)
        channel.close()
    assert endpoint == "pipe:sot-hub-lab"
    assert tried == ["pipe:sot-link-lab", "pipe:sot-hub-lab"]


def test_a_unix_endpoint_on_windows_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SilentError) as told:
        endpoints.reach("unix:/x", {}, time.monotonic() + BOUND_S)
    assert told.value.words == "Python reaches no Unix socket on Windows; name a pipe:"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells that a backlog is full")
class TestFullBacklog:
    @pytest.fixture
    def full(self, box: Box) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(box.hub_socket)
        listener.listen(0)
        self.waiting = []
        while True:
            client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            client.setblocking(False)
            self.waiting.append(client)
            try:
                client.connect(box.hub_socket)
            except BlockingIOError:
                return listener

    def test_it_is_asked_again_until_there_is_room(
        self, box: Box, full: socket.socket, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pauses: list[float] = []

        def take_one(pause: float) -> None:
            pauses.append(pause)
            full.accept()[0].close()

        monkeypatch.setattr(time, "sleep", take_one)
        assert asked(box) == f"unix:{box.hub_socket}"
        assert pauses
        self.close(full)

    def test_the_window_bounds_it(self, box: Box, full: socket.socket) -> None:
        with pytest.raises(SilentError) as told:
            reach(None, box.env, time.monotonic() - 1)
        assert told.value.words == "its queue of connections stayed full"
        self.close(full)

    def test_a_hundred_senders_at_once_are_all_answered(self, box: Box) -> None:
        verdicts: list[str] = []
        with box.daemon(filing):

            def send() -> None:
                verdicts.append(asked(box))

            threads = [threading.Thread(target=send) for _ in range(100)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(BOUND_S)
        assert verdicts == [f"unix:{box.hub_socket}"] * 100

    def close(self, listener: socket.socket) -> None:
        for client in [listener, *self.waiting]:
            client.close()


def test_a_derived_ssh_endpoint(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts(box)
    dialled: list[str] = []

    def dial(text: str, deadline: float) -> UnixChannel:
        dialled.append(text)
        raise OSError(2, "no ssh here")

    monkeypatch.setattr("verbs.remote.dial", dial)
    with pytest.raises(SilentError, match="no ssh here"):
        asked(box)
    assert dialled == ["ssh:hub"]


def test_what_is_sent_goes_to_the_one_that_was_chosen(box: Box) -> None:
    with box.daemon(path=box.link_socket) as link, box.daemon(path=box.hub_socket) as hub:
        assert box.relay("send", "@h", "hi") == filed()
        assert (len(link.requests), len(hub.requests)) == (1, 0)


def test_no_second_route_is_tried(box: Box) -> None:
    with box.daemon(answering(stay=False), box.link_socket), box.daemon(path=box.hub_socket) as hub:
        assert box.relay("send", "@h", "hi") == failed(f"the daemon did not answer at unix:{box.link_socket}")
        assert hub.hellos == []
