"""Hello and the hub's ops, over both transports (WIRE sections 3, 4 and 5)."""

import asyncio
import hashlib
import sys
from typing import Any

import pytest

from deploy.fleet import Fleet
from tests.end_to_end.conftest import HUB, Hub, hub_in
from tests.support.peers import CAP, NOT_HERE, OK, OS_USER, Json, Peers, encode, hello, mail, open_peers

assert sys.platform != "win32"  # conftest.py leaves this folder out there


@pytest.fixture(params=["unix", "ws"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def at(patient: Hub, way: str) -> str:
    return patient.daemon.endpoint(way)


# Hello


async def test_the_answer_to_a_hello(at: str, peers: Peers) -> None:
    peer = await peers.knock(at)
    answer = await peer.ask("hello", hello(last_seen_revision=3, token="secret", future={}))
    session_id, app_version = answer.pop("session_id"), answer.pop("app_version")
    assert session_id
    assert app_version
    assert answer == {
        "revision": 0,
        "snapshot_pending": False,
        "host": HUB,
        "protocol": 3,
        "clients_connected": 1,
        "proxy": False,
    }
    assert (await (await peers.knock(at)).ask("hello", hello()))["clients_connected"] == 2


REFUSED: list[tuple[str, str, str, Any]] = [
    ("another op first", "unauthenticated", "ping", {}),
    ("an empty payload", "unauthenticated", "hello", {}),
    ("client_id is a number", "unauthenticated", "hello", {"client_id": 1}),
    ("host is a number", "unauthenticated", "hello", hello(protocol=2) | {"host": 5}),
    ("protocol is a string", "unauthenticated", "hello", hello(protocol="3")),
    ("protocol is true", "unauthenticated", "hello", hello(protocol=True)),
    ("a null role", "unauthenticated", "hello", hello() | {"role": None}),
    ("protocol absent", "protocol_mismatch", "hello", {"client_id": "x", "host": "h", "os_user": "u"}),
    ("protocol 2 and nobody named", "protocol_mismatch", "hello", {"client_id": "x", "protocol": 2}),
    ("host absent", "identity_missing", "hello", {"client_id": "x", "protocol": 3, "os_user": "u"}),
    ("os_user empty", "identity_missing", "hello", hello(os_user="")),
]


@pytest.mark.parametrize(
    ("code", "op", "payload"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
async def test_a_hello_that_is_refused(at: str, peers: Peers, code: str, op: str, payload: Json) -> None:
    """The refusal is the first frame's own answer, then the close; nothing behind it is served."""
    peer = await peers.knock(at)
    await peer.send_all(encode(op, payload, frame_id=41), encode("comm.file", mail("h"), frame_id=42))
    frame = await peer.next()
    assert (frame["kind"], frame["id"], frame["op"]) == ("res", 41, op)
    assert frame["payload"]["code"] == code
    assert frame["payload"]["error"]
    assert await peer.ended() in {None, 1008}


async def test_a_hello_as_an_event_is_no_hello(at: str, peers: Peers) -> None:
    peer = await peers.knock(at)
    await peer.send("hello", hello(), frame_id=0, kind="evt")
    assert (await peer.next())["payload"]["code"] == "unauthenticated"
    assert await peer.ended() in {None, 1008}


async def test_a_protocol_mismatch_tells_all_four_versions(at: str, peers: Peers) -> None:
    answer = await (await peers.knock(at)).ask("hello", hello(protocol=4, app_version="9.9"))
    assert answer.pop("error")
    assert answer.pop("backend_version")
    assert answer == {
        "code": "protocol_mismatch",
        "backend_protocol": 3,
        "frontend_protocol": 4,
        "frontend_version": "9.9",
    }


@pytest.mark.parametrize("role", ["cli", "agent", "fe", "bridge", "wizard", ""])
async def test_any_role_but_link_is_served_alike(at: str, peers: Peers, role: str) -> None:
    assert await (await peers.client(at, role=role)).ask("ping", {}) == OK


async def test_a_second_hello_is_not_answered_but_what_came_before_it_is(
    patient: Hub, at: str, peers: Peers
) -> None:
    link, peer = await peers.link(patient.unix, "box"), await peers.client(at)
    asked = await peer.send("comm.file", mail("h"))
    offer = await link.offer()
    await peer.send("hello", hello())
    await peer.send("ping", {})
    assert await (await peers.client(at)).ask("ping", {}) == OK
    await link.answer(offer, OK)
    frame = await peer.next()
    assert (frame["id"], frame["op"], frame["payload"]) == (asked, "comm.file", OK)
    assert await peer.ended() in {None, 1000}


async def test_two_accounts_on_one_host_are_refused_for_either_until_a_restart() -> None:
    with Fleet() as fleet:
        hub = hub_in(fleet)
        async with open_peers() as peers:
            first = await peers.client(hub.unix, "shared")
            for os_user in ("uid:99999", OS_USER, "uid:99999"):
                peer = await peers.knock(hub.ws)
                refused = await peer.ask("hello", hello("shared", os_user=os_user))
                assert refused["code"] == "os_user_conflict"
                assert "shared" in refused["error"]
                assert "99999" not in refused["error"]
                assert OS_USER not in refused["error"]
                assert await peer.ended() == 1008
            assert await first.ask("ping", {}) == OK, "open connections are left alone"
            await peers.client(hub.ws, "another", os_user="uid:99999")
        assert hub.daemon.stop() == 0
        hub = hub_in(fleet)
        async with open_peers() as peers:
            await peers.client(hub.unix, "shared", os_user="uid:99999")


# Ops


async def test_ping_and_unknown_ops(at: str, peers: Peers) -> None:
    peer = await peers.client(at)
    assert await peer.ask("ping", {"any": "thing"}) == OK
    for op in ("comm.filed", "hello2", "é" * 64, "link.superseded"):
        assert await peer.ask(op, {}) == {"error": f"unknown op: {op}", "code": "unknown_op"}


async def test_version_query(patient: Hub, at: str, peers: Peers) -> None:
    answer = await (await peers.client(at)).ask("version.query", {})
    facts = answer.pop("daemon")
    assert answer == facts
    assert facts["protocol"] == 3
    assert facts["host"] == HUB
    assert facts["hosts_toml_hash"] == ""
    assert 0 <= facts["uptime_s"]
    assert set(facts) == {"app_version", "protocol", "host", "hosts_toml_hash", "uptime_s"}


async def test_version_query_tells_the_hash_of_the_loaded_hosts_file(fleet: Fleet) -> None:
    hosts = fleet.hosts_file(HUB, ["a"])
    hub_in(fleet, hosts=hosts)
    told = await asyncio.to_thread(fleet.ask, HUB, "version.query", {})
    assert told["hosts_toml_hash"] == hashlib.sha256(hosts.read_bytes()).hexdigest()


WRONG: list[tuple[str, Json, str]] = [
    ("comm.file", {"to": "h", "text": "t"}, "from"),
    ("comm.file", {"from": "s", "text": "t"}, "to"),
    ("comm.file", {"from": "s", "to": "h"}, "text"),
    ("comm.file", {"from": 1, "to": "h", "text": "t"}, "from"),
    ("comm.file", {"from": "s", "to": None, "text": "t"}, "to"),
    ("comm.file", {"from": "s", "to": "h", "text": ["t"]}, "text"),
    ("comm.file", {"from": "s", "to": "h", "text": "t", "broadcast": 1}, "broadcast"),
    ("comm.file", {"from": "s", "to": "h", "text": "t", "forwarded": "true"}, "forwarded"),
    ("comm.file", {"from": "s", "to": "h", "text": "t", "forwarded": None}, "forwarded"),
    ("comm.file", {"from": "s" * 257, "to": "h", "text": "t"}, "from"),
    ("comm.file", {"from": "a\nb", "to": "h", "text": "t"}, "from"),
    ("comm.file", {"from": "a\u0085b", "to": "h", "text": "t"}, "from"),
    ("comm.file", {"from": "a\x7f", "to": "h", "text": "t"}, "from"),
    ("agent.send", {"to": "", "text": "t"}, "from"),
    ("agent.send", {"from": "s", "to": "", "text": 5}, "text"),
    ("agent.send", {"from": "s", "to": [], "text": "t"}, "to"),
]


@pytest.mark.parametrize(("op", "payload", "member"), WRONG)
async def test_a_payload_that_does_not_fit_is_refused_by_its_member_and_the_connection_stays(
    at: str, peers: Peers, op: str, payload: Json, member: str
) -> None:
    peer = await peers.client(at)
    answer = await peer.ask(op, payload)
    assert answer["code"] == "bad_request"
    assert f"'{member}'" in answer["error"]
    assert await peer.ask("ping", {}) == OK


@pytest.mark.parametrize("to", ["", "a b", "a/b", "é", "h" * 65, 'say "hi"\n', "..\x00", "@h"])
async def test_what_is_no_handle_is_quoted_as_in_json_and_never_offered(
    patient: Hub, at: str, peers: Peers, to: str
) -> None:
    import json

    link, peer = await peers.link(patient.unix, "box"), await peers.client(at)
    quoted = json.dumps(to, ensure_ascii=False)
    assert await peer.file(to) == {"error": f"not a handle: {quoted}", "code": "bad_handle"}
    assert await link.offers_so_far() == []


async def test_the_echo_of_a_long_non_handle_is_cut_inside_the_cap(at: str, peers: Peers) -> None:
    """Each control character of `to` takes one byte here and six in the answer's quotes."""
    peer = await peers.client(at)
    empty = len(encode("comm.file", mail("", "")))
    await peer.send("comm.file", mail('"' * ((CAP - empty) // 2), ""), frame_id=1)
    verdict = await peer.answer_to(1, "comm.file")
    assert verdict["code"] == "bad_handle"
    assert verdict["error"].startswith('not a handle: "\\"')
    assert verdict["error"].endswith("…")


async def test_a_from_of_256_characters_is_filed(patient: Hub, at: str, peers: Peers) -> None:
    patient.box.register("own")
    sender = "é" * 256
    assert await (await peers.client(at)).file("own", sender=sender) == OK
    assert patient.box.inbox("own")[-1]["from"] == sender


async def test_a_request_that_came_forwarded_is_answered_by_this_folder_alone(
    patient: Hub, at: str, peers: Peers
) -> None:
    patient.box.register("own")
    link, peer = await peers.link(patient.ws, "box"), await peers.client(at)
    assert await peer.file("far", forwarded=True) == {
        "error": "no box knows that handle: far", "code": "not_here",
    }  # fmt: skip
    assert await link.offers_so_far() == []
    assert await peer.file("own", forwarded=True) == OK


async def test_an_unreadable_registry_is_no_absent_handle_and_is_not_offered(fleet: Fleet) -> None:
    hub = hub_in(fleet)
    hub.box.comm_home.mkdir(mode=0o700, exist_ok=True)
    registry = hub.box.comm_home / "registry.json"
    async with open_peers() as peers:
        link, peer = await peers.link(hub.ws, "box"), await peers.client(hub.unix)
        for text in ("", "{", '{"agents":[]}', "{} {}"):
            registry.write_text(text)
            verdict = await peer.file("far")
            assert verdict["code"] == "file_failed"
            assert "the registry could not be read" in verdict["error"]
        assert await link.offers_so_far() == []
        registry.unlink()
        asked = await peer.send("comm.file", mail("far"))
        await link.answer(await link.offer(), OK)
        assert await peer.answer_to(asked, "comm.file") == OK, "a missing registry lists nobody"


# hub.status


async def test_hub_status_on_the_hubs_own_socket(patient: Hub, peers: Peers) -> None:
    link = await peers.link(patient.ws, "box")
    await peers.client(patient.ws, role="wizard")
    sender = await peers.client(patient.unix, role="agent")
    asked = await sender.send("comm.file", mail("h"))
    offer = await link.offer()
    status = await sender.ask("hub.status", {})
    assert status["hub"] == HUB
    assert status["in_flight"] == 1
    assert status["not_linked"] == []
    assert status["connections"] == {"link": 1, "cli": 1, "agent": 1}
    assert status["uptime_s"] >= 0
    (row,) = status["links"]
    assert row["peer"].startswith("127.0.0.1:")
    assert row["since"].endswith("Z")
    kept = {key: row[key] for key in ("host", "os_user", "transport", "offers", "filed", "last_answer_ms")}
    assert kept == {
        "host": "box", "os_user": OS_USER, "transport": "ws", "offers": 1, "filed": 0, "last_answer_ms": None,
    }  # fmt: skip
    assert set(row) - set(kept) == {"since", "instance", "peer", "app_version"}
    await link.answer(offer, OK)
    await sender.answer_to(asked, "comm.file")
    (row,) = (await sender.ask("hub.status", {}))["links"]
    assert row["filed"] == 1
    assert row["last_answer_ms"] >= 0


async def test_hub_status_is_forbidden_from_elsewhere(patient: Hub, peers: Peers) -> None:
    for role in ("cli", "link"):
        peer = await peers.client(patient.ws, role=role)
        assert (await peer.ask("hub.status", {}))["code"] == "forbidden"


async def test_hub_status_stays_small_whatever_links_call_themselves(patient: Hub, peers: Peers) -> None:
    huge = "h" * 500_000
    for _ in range(3):
        link = await peers.link(patient.ws, huge)
    await link.peer.close()
    patient.fleet.wait_linked(HUB, [])
    peer = await peers.client(patient.unix)
    status = await peer.ask("hub.status", {})
    assert len(status["closed"]) >= 3
    assert all(len(end["host"]) <= 257 for end in status["closed"])


# agent.send


async def test_a_notice_reaches_every_admitted_connection(patient: Hub, peers: Peers) -> None:
    sender = await peers.client(patient.unix, "sender")
    others = [await peers.client(patient.ws, "fe", name="fe@box"), await peers.client(patient.unix, "cli")]
    link = await peers.link(patient.ws, "linked")
    waiting = await peers.knock(patient.unix)
    for extra in ({}, {"id": "abc"}, {"id": 7}):
        asked = await sender.send("agent.send", {"from": "me", "to": "", "text": "é", **extra})
        answer = await sender.answer_to(asked, "agent.send")
        assert sorted(answer.pop("receivers")) == ["cli", "fe@box", "linked", "sender"]
        assert answer == {"ok": True, **extra}
        for peer in (sender, *others, link.peer):
            frame = await peer.next()
            assert (frame["kind"], frame["id"], frame["op"]) == ("evt", 0, "agent.message")
            assert frame["payload"].pop("ts").endswith("Z")
            assert frame["payload"] == {"from": "me", "to": "", "text": "é", **extra}
    assert "session_id" in await waiting.ask("hello", hello()), "it heard nothing before its hello"


async def test_a_notice_to_a_handle_is_refused_and_published_to_nobody(
    patient: Hub, at: str, peers: Peers
) -> None:
    sender, other = await peers.client(at), await peers.client(patient.unix)
    answer = await sender.ask("agent.send", {"from": "me", "to": "h", "text": "t"})
    assert answer["code"] == "mail_requires_comm_file"
    asked = await other.send("ping", {})
    assert (await other.next())["id"] == asked


async def test_a_notice_that_would_pass_the_cap_is_too_large(patient: Hub, at: str, peers: Peers) -> None:
    sender, other = await peers.client(at), await peers.client(patient.unix)
    empty = len(encode("agent.send", {"from": "me", "to": "", "text": ""}, frame_id=1))
    text = "x" * (CAP - empty)
    await sender.send("agent.send", {"from": "me", "to": "", "text": text}, frame_id=1)
    assert (await sender.answer_to(1, "agent.send"))["code"] == "too_large"
    asked = await other.send("ping", {})
    assert (await other.next())["id"] == asked
    assert (await sender.ask("agent.send", {"from": "me", "to": "", "text": text[:-100]}))["ok"] is True


async def test_receivers_never_make_an_answer_pass_the_cap(patient: Hub, peers: Peers) -> None:
    for _ in range(3):
        await peers.client(patient.unix, "box", name="n" * 400_000)
    sender = await peers.client(patient.ws)
    answer = await sender.ask("agent.send", {"from": "me", "to": "", "text": "t"})
    assert answer["ok"] is True
    assert len(answer["receivers"]) == 4


async def test_answers_come_as_they_are_ready(patient: Hub, at: str, peers: Peers) -> None:
    link, peer = await peers.link(patient.unix, "box"), await peers.client(at)
    slow = await peer.send("comm.file", mail("h"))
    offer = await link.offer()
    quick = await peer.send("ping", {})
    assert (await peer.next())["id"] == quick
    await link.answer(offer, NOT_HERE)
    assert (await peer.next())["id"] == slow


async def test_one_id_may_be_used_for_everything(patient: Hub, at: str, peers: Peers) -> None:
    """The shell client sends its hello and its request both with id 1, and waits for neither."""
    patient.box.register("own")
    peer = await peers.knock(at)
    await peer.send("hello", hello(), frame_id=1)
    await peer.send("comm.file", mail("own"), frame_id=1)
    assert "session_id" in await peer.answer_to(1, "hello")
    assert await peer.answer_to(1, "comm.file") == OK
