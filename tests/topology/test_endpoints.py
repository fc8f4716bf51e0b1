import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology import endpoints
from topology.endpoints import (
    Endpoint,
    EndpointError,
    PipeEndpoint,
    SshEndpoint,
    UnixEndpoint,
    WebSocketEndpoint,
    parse_endpoint,
    relay_endpoint,
)
from topology.model import Host, Topology

VECTORS = Path(__file__).parents[1] / "vectors"
TABLE: dict[str, Any] = json.loads((VECTORS / "names.json").read_text("utf-8"))
ENV = {"XDG_RUNTIME_DIR": "/run/user/7"}
posix = pytest.mark.skipif(sys.platform == "win32", reason="a hub's own endpoint is a pipe on Windows")


@pytest.mark.parametrize("case", TABLE["endpoint"], ids=lambda case: case["value"] or "empty")
def test_which_spellings_are_endpoints(case: dict[str, Any]) -> None:
    if case["dialable"]:
        assert str(parse_endpoint(case["value"]))
    else:
        with pytest.raises(EndpointError):
            parse_endpoint(case["value"])


@pytest.mark.parametrize(
    ("text", "endpoint", "canonical"),
    [
        ("unix:/run/x.sock", UnixEndpoint("/run/x.sock"), None),
        ("unix:", UnixEndpoint(""), None),
        ("pipe:name", PipeEndpoint("name"), None),
        ("pipe:\\\\.\\pipe\\name", PipeEndpoint("name"), "pipe:name"),
        ("pipe:\\\\.\\PIPE\\Name", PipeEndpoint("Name"), "pipe:Name"),
        ("ssh:hub", SshEndpoint("hub"), None),
        ("ssh:hub.example.org/lab.box", SshEndpoint("hub.example.org", "lab.box"), None),
        ("ssh:hub/", SshEndpoint("hub"), "ssh:hub"),
        ("ws://localhost:0/", WebSocketEndpoint("localhost", 0), None),
        (
            "ws://Hub.Example.org:8080",
            WebSocketEndpoint("hub.example.org", 8080),
            "ws://hub.example.org:8080/",
        ),
        ("ws://hub", WebSocketEndpoint("hub", 80), "ws://hub:80/"),
        ("ws://[::1]:9/", WebSocketEndpoint("::1", 9), None),
        (
            "wss://[2001:DB8::0:1]/",
            WebSocketEndpoint("2001:db8::1", 443, secure=True),
            "wss://[2001:db8::1]/",
        ),
        (
            "wss://hub.example.org",
            WebSocketEndpoint("hub.example.org", 443, secure=True),
            "wss://hub.example.org/",
        ),
        ("wss://hub:443/", WebSocketEndpoint("hub", 443, secure=True), "wss://hub/"),
        ("wss://hub:65535/a/b", WebSocketEndpoint("hub", 65535, secure=True, path="/a/b"), None),
        ("ws://0.0.0.0:8080/", WebSocketEndpoint("0.0.0.0", 8080), None),
        ("ws://hub.example.org.:1/", WebSocketEndpoint("hub.example.org.", 1), None),
        (f"ws://{'a' * 63}.b:1/", WebSocketEndpoint(f"{'a' * 63}.b", 1), None),
        (f"ws://{'a.' * 126}b.:1/", WebSocketEndpoint(f"{'a.' * 126}b.", 1), None),
    ],
)
def test_an_endpoint_and_its_canonical_text(text: str, endpoint: Endpoint, canonical: str | None) -> None:
    assert parse_endpoint(text) == endpoint
    assert str(endpoint) == (canonical or text)
    assert parse_endpoint(str(endpoint)) == endpoint


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ws://", "the host is a name or an address"),
        ("ws://:80/", "the host is a name or an address"),
        ("ws:///x", "the host is a name or an address"),
        ("ws://a b/", "the host is a name or an address"),
        ("ws://bücher.example/", "the host is a name or an address"),
        ("ws://h:/", "the port is a number from 0 to 65535"),
        ("ws://h:65536/", "the port is a number from 0 to 65535"),
        ("ws://h:+1/", "the port is a number from 0 to 65535"),
        ("ws://h:²/", "the port is a number from 0 to 65535"),
        ("ws://h:1:2/", "the port is a number from 0 to 65535"),
        ("ws://::1/", "the host is a name or an address"),
        ("ws://[::1/", "what stands in brackets is an IPv6 address"),
        ("ws://[hub]/", "what stands in brackets is an IPv6 address"),
        ("ws://[127.0.0.1]/", "what stands in brackets is an IPv6 address"),
        ("ws://[fe80::1%eth0]/", "what stands in brackets is an IPv6 address"),
        ("ws://[::1]80/", "the port is a number from 0 to 65535"),
        ("ws://h:1/a b", "its path is printable ASCII"),
        ("ws://h:1/?a", "it has no query and no fragment"),
        ("ws://h:1?a", "it has no query and no fragment"),
        ("ws://h:1/#a", "it has no query and no fragment"),
        ("ws://ann@h:1/", "credentials do not belong in it"),
        ("ws://a..b:1/", "the host has a dot with no label before it"),
        ("ws://.a:1/", "the host has a dot with no label before it"),
        ("wss://./", "the host has a dot with no label before it"),
        ("wss://a../", "the host has a dot with no label before it"),
        (f"ws://{'a' * 64}:1/", "a label of the host is longer than 63 characters"),
        (f"ws://b.{'a' * 64}.:1/", "a label of the host is longer than 63 characters"),
        (f"ws://{'a.' * 126}bc:1/", "the host is longer than 253 characters"),
        ("unix:/a\nb", "it holds a control character"),
        ("pipe:", "a pipe is one name, and on this box"),
        ("pipe:\\\\other\\pipe\\name", "a pipe is one name, and on this box"),
        ("ssh:ann@hub", "an ssh target is a plain host name"),
        ("ssh:hub:22", "an ssh target is a plain host name"),
        ("http://h/", "accepted: unix:/path"),
        ("WS://h:1/", "accepted: unix:/path"),
        (" ws://h:1/", "accepted: unix:/path"),
    ],
)
def test_a_refusal_says_why_and_names_the_accepted_forms(text: str, why: str) -> None:
    with pytest.raises(EndpointError) as refusal:
        parse_endpoint(text)
    assert why in str(refusal.value)
    assert "(accepted: unix:/path, ws://host:port/, wss://host[:port]/, ssh:host, pipe:name)" in str(
        refusal.value
    )


@given(st.lists(st.sampled_from([".", "a", "-", "b" * 31, "c" * 62])).map("".join))
def test_a_host_that_is_taken_can_be_looked_up(host: str) -> None:
    try:
        endpoint = parse_endpoint(f"ws://{host}:1/")
    except EndpointError:
        return
    assert isinstance(endpoint, WebSocketEndpoint)
    assert endpoint.host.encode("idna")  # as socket.getaddrinfo does


def test_a_refusal_names_the_text() -> None:
    with pytest.raises(EndpointError, match="not an endpoint: 'tcp:h:5'"):
        parse_endpoint("tcp:h:5")


@pytest.mark.parametrize(
    "text",
    [
        "wss://ann:s3cret@h/",
        "wss://ann:s3c/s3cret@h/",
        "wss://h/?token=s3cret",
        "wss://h/#s3cret",
        "https://s3cret@h",
    ],
)
def test_a_refusal_repeats_no_secret(text: str) -> None:
    with pytest.raises(EndpointError) as refusal:
        parse_endpoint(text)
    assert "s3cret" not in str(refusal.value)


def test_a_refusal_of_a_long_text_stays_short() -> None:
    with pytest.raises(EndpointError) as refusal:
        parse_endpoint("x" * 100_000)
    assert len(str(refusal.value)) < 500


@given(
    st.text(max_size=30).flatmap(
        lambda rest: st.sampled_from(["", "unix:", "ws://", "wss://[", "ssh:", "pipe:"]).map(
            lambda form: form + rest
        )
    )
)
def test_any_text_is_an_endpoint_with_a_stable_text_or_refused(text: str) -> None:
    try:
        endpoint = parse_endpoint(text)
    except EndpointError:
        return
    assert parse_endpoint(str(endpoint)) == endpoint


HUB_URL = "wss://hub.example.org/"
PLAIN = Topology("hub", (Host("hub", daemon=True), Host("fe", frontend=True), Host("box", daemon=True)))
DIALED = Topology("hub", (Host("hub", daemon=True, url=HUB_URL), Host("fe", frontend=True)))


@posix
def test_the_hub_derives_its_own_socket_even_with_a_url() -> None:
    assert relay_endpoint(PLAIN, "hub", ENV) == "unix:/run/user/7/sot/hub.sock"
    assert relay_endpoint(DIALED, "hub", ENV) == "unix:/run/user/7/sot/hub.sock"
    assert endpoints.link_endpoint(ENV) == "unix:/run/user/7/sot/link.sock"


@pytest.mark.parametrize("box", ["fe", "box", "not-listed", ""])
def test_every_other_box_derives_the_hub_s_url_or_ssh(box: str) -> None:
    assert relay_endpoint(PLAIN, box, ENV) == "ssh:hub"
    assert relay_endpoint(DIALED, box, ENV) == HUB_URL


def test_without_a_topology_nothing_is_derived() -> None:
    assert relay_endpoint(None, "hub", ENV) is None


def test_on_windows_the_hub_has_a_pipe_for_its_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert relay_endpoint(PLAIN, "hub", {"USERNAME": "Ann B\\x"}) == "pipe:sot-hub-annbx"
    assert endpoints.link_endpoint({"USERNAME": "ann"}) == "pipe:sot-link-ann"
    assert endpoints.hub_endpoint({}) == "pipe:sot-hub"
    assert parse_endpoint("pipe:sot-hub-annbx") == PipeEndpoint("sot-hub-annbx")


@posix
def test_what_the_table_derives_where_this_house_does_too() -> None:
    """The table's `unix:<runtime dir>/sot-relay.sock` is a tunnel's end; WIRE section 7 has no such file."""
    from topology.hosts_file import parse

    table = json.loads((VECTORS / "hosts_toml.json").read_text("utf-8"))
    seen = set()
    for case in table["cases"]:
        if "topology" not in case or case["toml"] != "parses":
            continue
        topology = parse(case["text"].encode(), "hosts.toml")
        for box, expected in case["relay_endpoint"].items():
            seen.add(expected.partition(":")[0])
            ours = relay_endpoint(topology, box, ENV)
            match expected:
                case "<own local endpoint>":
                    assert ours == "unix:/run/user/7/sot/hub.sock"
                case "unix:<runtime dir>/sot-relay.sock":
                    assert ours == f"ssh:{topology.hub}"
                case _:
                    assert ours == expected
    assert seen == {"<own local endpoint>", "unix", "ssh"}
