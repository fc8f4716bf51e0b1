"""Many senders at once, senders that leave early, and people at `nc` (WIRE sections 2, 4 and 5)."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from deploy.fleet import Fleet
from tests.end_to_end.conftest import HUB, Hub, hub_in
from tests.support.parts import need
from tests.support.peers import OK, Json, Peers, encode, hello, mail, until

assert sys.platform != "win32"  # conftest.py leaves this folder out there


SENDERS = 200
BOXES = ("alpha", "beta", "gamma")


@pytest.fixture(scope="module")
def busy_hub() -> Iterator[Hub]:
    """A hub with handles of its own and three linked boxes with two handles each."""
    with Fleet() as fleet:
        hub = hub_in(fleet)
        for number in range(4):
            hub.box.register(f"own{number}")
        hub.box.register("stale", age_s=3600)
        for number, name in enumerate(BOXES):
            for handle in (f"{name}0", f"{name}1"):
                fleet.box(name).register(handle)
            fleet.start_link(name, hub.both[number % 2])
        fleet.wait_linked(HUB, BOXES)
        yield hub


HANDLES = {HUB: ["own0", "own1", "own2", "own3"], **{name: [f"{name}0", f"{name}1"] for name in BOXES}}
REFUSED: dict[str, Json] = {
    "stale": {"error": "no live session holds @stale", "code": "no_live_session"},
    "nobody": {"error": "no box knows that handle: nobody", "code": "unknown_handle"},
    "a b": {"error": 'not a handle: "a b"', "code": "bad_handle"},
}


async def test_200_senders_at_once_each_get_the_right_verdict_and_each_line_is_there_once(
    busy_hub: Hub, peers: Peers
) -> None:
    everybody = [handle for handles in HANDLES.values() for handle in handles]
    targets = [*everybody, *everybody, *REFUSED]
    before = {handle: len(_texts(busy_hub, handle)) for handle in everybody}
    ready = asyncio.Event()

    async def send(number: int) -> tuple[str, str, Json]:
        peer = await peers.client(busy_hub.both[number % 2])
        connected.append(number)
        if len(connected) == SENDERS:
            ready.set()
        await ready.wait()
        to, text = targets[number % len(targets)], f"line {number}"
        return to, text, await peer.file(to, text)

    connected: list[int] = []
    sent = await asyncio.gather(*(send(number) for number in range(SENDERS)))
    wanted: dict[str, Counter[str]] = {handle: Counter() for handle in everybody}
    for to, text, verdict in sent:
        assert verdict == REFUSED.get(to, OK)
        if to not in REFUSED:
            wanted[to][text] += 1
    for handle, texts in wanted.items():
        assert Counter(_texts(busy_hub, handle)[before[handle] :]) == texts
    assert busy_hub.status()["in_flight"] == 0


def _texts(hub: Hub, handle: str) -> list[str]:
    name = next(name for name, handles in HANDLES.items() if handle in handles)
    return [line["msg"] for line in hub.fleet.box(name).inbox(handle)]


async def test_one_connection_may_ask_many_things_at_once(busy_hub: Hub, peers: Peers) -> None:
    sender = await peers.client(busy_hub.unix)
    asked = [await sender.send("comm.file", mail("own0", f"burst {number}")) for number in range(300)]
    for frame_id in asked:
        assert await sender.answer_to(frame_id, "comm.file") == OK
    texts = [text for text in _texts(busy_hub, "own0") if text.startswith("burst")]
    assert sorted(texts) == sorted(f"burst {number}" for number in range(300))


@pytest.mark.parametrize("way", ["unix", "ws"])
async def test_a_sender_that_hangs_up_after_its_request_has_it_filed(
    busy_hub: Hub, peers: Peers, way: str
) -> None:
    for handle in ("own1", "beta1"):
        sender = await peers.client(busy_hub.daemon.endpoint(way))
        text = f"{way} gone"
        await sender.send("comm.file", mail(handle, text))
        if way == "unix":
            sender.writer.transport.abort()
        else:
            sender.connection.transport.abort()
        await until(lambda h=handle, t=text: t in _texts(busy_hub, h), "the mail is filed")  # type: ignore[misc]
    assert busy_hub.fleet.ask(HUB, "ping", {}) == OK
    await until(lambda: busy_hub.status()["in_flight"] == 0, "nothing is in flight")


async def test_a_half_close_is_not_the_end(busy_hub: Hub, peers: Peers) -> None:
    """Also when the last line has no LF and its answer takes an offer's round trip."""
    peer = await peers.knock(busy_hub.unix)
    request = encode("comm.file", mail("alpha1", "last words"), frame_id=9)
    await peer.send_bytes(encode("hello", hello()) + b"\n" + request)
    await peer.half_close()
    assert "session_id" in await peer.answer_to(1, "hello")
    assert await peer.answer_to(9, "comm.file") == OK
    assert await peer.ended() is None


def _lines(*frames: bytes) -> bytes:
    return b"".join(frame + b"\n" for frame in frames)


def test_printf_into_nc_gets_every_answer(busy_hub: Hub) -> None:
    need("nc")
    typed = _lines(encode("hello", hello()), encode("comm.file", mail("gamma0", "from nc")))
    done = subprocess.run(
        ["nc", "-N", "-U", str(busy_hub.box.socket)],
        input=typed,
        capture_output=True,
        timeout=30,
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(frame["id"], frame["op"]) for frame in answers] == [(1, "hello"), (1, "comm.file")]
    assert answers[1]["payload"] == OK
    assert done.returncode == 0


def test_lines_typed_into_nc_are_answered_one_by_one(busy_hub: Hub) -> None:
    need("nc")
    with subprocess.Popen(
        ["nc", "-U", str(busy_hub.box.socket)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as nc:
        assert nc.stdin is not None
        assert nc.stdout is not None
        for frame_id, (op, payload) in enumerate(
            [("hello", hello()), ("ping", {}), ("comm.file", mail("own2", "typed")), ("nonsense", {})]
        ):
            nc.stdin.write(b"\n" + encode(op, payload, frame_id=frame_id) + b"\n")
            nc.stdin.flush()
            answer = json.loads(nc.stdout.readline())
            assert (answer["id"], answer["op"]) == (frame_id, op)
        assert answer["payload"] == {"error": "unknown op: nonsense", "code": "unknown_op"}
        nc.terminate()
