"""One connection's conversation over a Unix socket: WIRE sections 1 to 4."""

import asyncio
import os
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.wire.support import HELLO, LineClient, Served, hello_line, line, serving
from wire.closing import CloseReason
from wire.limits import MAX_FRAME_BYTES, MAX_IN_FLIGHT

if sys.platform == "win32":
    pytest.skip("Unix sockets", allow_module_level=True)

OVER_THE_CAP = b"y" * (MAX_FRAME_BYTES + 1)


# The hello


async def test_a_hello_is_answered_with_the_contract_s_members(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.line_client()
        await client.send(line("hello", HELLO, frame_id=9))
        frame = await client.receive()
        assert (frame["v"], frame["id"], frame["kind"], frame["op"]) == (1, 9, "res", "hello")
        assert frame["payload"]["host"] == "hub"
        assert frame["payload"]["clients_connected"] == 1
        assert (await (await served.line_client()).greet())["clients_connected"] == 2


async def test_a_hello_and_a_request_in_one_write_are_both_answered(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.line_client()
        await client.send(hello_line(), line("ping"), line("echo", {"n": 2}, frame_id=2))
        assert [(frame["op"], frame["id"]) for frame in [await client.receive() for _ in range(3)]] == [
            ("hello", 1),
            ("ping", 1),
            ("echo", 2),
        ]


async def test_a_request_before_the_hello_is_refused_and_nothing_behind_it_is_served(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.line_client()
        await client.send(line("ping", frame_id=5), hello_line(), line("ping"))
        frame = await client.receive()
        assert (frame["op"], frame["id"], frame["payload"]["code"]) == ("ping", 5, "unauthenticated")
        await client.wait_closed()
        assert served.service.refusals == ["unauthenticated"]
        assert await served.service.wait_ended() is CloseReason.HELLO_REFUSED


@pytest.mark.parametrize("members", [{"protocol": 2}, {"host": ""}, {"client_id": 1}])
async def test_a_refused_hello_is_answered_and_then_closed(folder: Path, members: dict[str, Any]) -> None:
    async with serving(folder) as served:
        client = await served.line_client()
        assert (await client.greet(**members))["code"]
        await client.wait_closed()
        assert served.server.admitted_count == 0


async def test_a_hello_past_the_connection_limit_is_refused_until_somebody_leaves(folder: Path) -> None:
    async with serving(folder, connections=1) as served:
        first = await served.greeted_line()
        second = await served.line_client()
        assert (await second.greet())["code"] == "too_many_connections"
        await second.wait_closed()
        first.hang_up()
        await served.service.wait_ended(2)
        await served.greeted_line()


async def test_far_past_the_connection_limit_a_connection_is_dropped_unheard(folder: Path) -> None:
    async with serving(folder, connections=1, sockets=2) as served:
        waiting = [await served.line_client() for _ in range(2)]
        await (await served.line_client()).wait_closed()
        assert await served.service.wait_ended() is CloseReason.CROWDED
        assert "error" not in await waiting[0].greet()


async def test_a_connection_that_says_no_hello_is_closed_with_nothing_sent(folder: Path) -> None:
    async with serving(folder, hello_s=0.05) as served:
        await (await served.line_client()).wait_closed()
        assert await served.service.wait_ended() is CloseReason.HELLO_TIMEOUT


async def test_half_a_hello_is_none_however_steadily_its_bytes_come(folder: Path) -> None:
    async with serving(folder, hello_s=0.1) as served:
        client = await served.line_client()
        await client.send(hello_line()[:-1])
        await client.wait_closed()
        assert await served.service.wait_ended() is CloseReason.HELLO_TIMEOUT


async def test_the_hello_s_deadline_ends_with_the_hello(folder: Path) -> None:
    async with serving(folder, hello_s=0.05) as served:
        admitted = await served.greeted_line()
        await (await served.line_client()).wait_closed()  # as long as the deadline lasts
        await admitted.send(line("ping"))
        assert await admitted.answer() == {"ok": True}


async def test_a_second_hello_is_not_answered_but_what_was_asked_before_it_is(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.greeted_line()
        await client.send(line("slow", {"n": 1}), hello_line(), line("ping", frame_id=9))
        await served.service.wait_begun(1)
        served.service.release.set()
        assert await client.answer() == {"ok": True, "n": 1}
        await client.wait_closed()
        assert await served.service.wait_ended() is CloseReason.SECOND_HELLO


# Bad frames


@pytest.mark.parametrize("bad", [b"x\n", b"\r\n", b" \n", b"{}\n", b"[" * 100_000 + b"\n", OVER_THE_CAP])
@pytest.mark.parametrize("greeted", [False, True])
async def test_a_bad_frame_is_answered_once_and_the_line_closed(
    folder: Path, bad: bytes, greeted: bool
) -> None:
    async with serving(folder) as served:
        client = await (served.greeted_line() if greeted else served.line_client())
        await client.send(bad)
        frame = await client.receive()
        assert (frame["id"], frame["kind"], frame["op"]) == (0, "res", "bad_frame")
        assert frame["payload"]["code"] == "bad_frame"
        assert frame["payload"]["error"]
        await client.wait_closed()
        assert await served.service.wait_ended() is CloseReason.BAD_FRAME


async def test_nothing_behind_a_bad_frame_is_served_or_answered(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.greeted_line()
        await client.send(line("ping"), b"x\n", b"y\n", line("slow"), line("ping"))
        assert [(await client.receive())["op"] for _ in range(2)] == ["ping", "bad_frame"]
        await client.wait_closed()
        assert served.service.begun == []


async def test_what_was_asked_before_the_bad_frame_is_still_answered(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.greeted_line()
        await client.send(line("slow", {"n": 1}), b"x\n")
        assert (await client.receive())["op"] == "bad_frame"
        served.service.release.set()
        assert await client.answer() == {"ok": True, "n": 1}
        await client.wait_closed()


async def test_empty_lines_are_skipped(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.line_client()
        await client.send(b"\n\n", hello_line(), b"\n", line("ping"), b"\n\n")
        assert [(await client.receive())["op"] for _ in range(2)] == ["hello", "ping"]


async def test_a_request_of_the_very_cap_is_served(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.greeted_line()
        room = MAX_FRAME_BYTES + 1 - len(line("ping", {"t": ""}))
        await client.send(line("ping", {"t": "y" * room}))
        assert await client.answer() == {"ok": True}


# What nobody asked for


async def test_events_and_answers_that_nobody_asked_for_are_ignored(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.greeted_line()
        await client.send(
            line("ping", frame_id=0, kind="evt"),
            line("ping", frame_id=5, kind="evt"),
            line("hello", frame_id=0, kind="evt"),
            line("comm.file", {"ok": True}, frame_id=77, kind="res"),
            line("echo", {"n": 1}, frame_id=3),
        )
        assert (await client.receive())["id"] == 3
        assert [frame.id for frame in served.service.answers] == [77]


# payload.blob


@pytest.mark.parametrize("blob", [None, 5, {"len": 3}, False])
async def test_a_blob_in_the_first_frame_is_unauthenticated_and_closed(folder: Path, blob: Any) -> None:
    async with serving(folder) as served:
        client = await served.line_client()
        await client.send(hello_line(blob=blob), line("ping"))
        frame = await client.receive()
        assert (frame["op"], frame["payload"]["code"]) == ("hello", "unauthenticated")
        await client.wait_closed()


@pytest.mark.parametrize("op", ["ping", "no.such.op", "hello"])
async def test_a_blob_later_is_a_bad_request_and_no_byte_behind_it_is_heard(folder: Path, op: str) -> None:
    async with serving(folder) as served:
        client = await served.greeted_line()
        await client.send(
            line("slow", {"n": 1}), line(op, {"blob": None}, frame_id=4), line("slow"), b"raw bytes\n"
        )
        frame = await client.receive()
        assert (frame["id"], frame["op"], frame["payload"]["code"]) == (4, op, "bad_request")
        # What is sent from here on stays in the socket: a peer that goes on is held back, not read.
        server_side = next(iter(served.server.sessions)).connection
        heard = server_side.last_received
        client.writer.write(b"more raw bytes" * 100_000)
        served.service.release.set()
        assert await client.answer() == {"ok": True, "n": 1}
        assert await served.service.wait_ended() is CloseReason.BLOB
        assert server_side.last_received == heard
        assert served.service.begun == [1]


# Requests


async def test_an_unknown_op_is_refused_in_words_and_the_connection_stays(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.greeted_line()
        await client.send(line("foo.bar"))
        assert await client.answer() == {"error": "unknown op: foo.bar", "code": "unknown_op"}
        await client.send(line("ping"))
        assert await client.answer() == {"ok": True}


@pytest.mark.parametrize("op", ["file", "file_later"])
async def test_a_payload_that_does_not_fit_is_refused_by_member_and_the_connection_stays(
    folder: Path, op: str
) -> None:
    async with serving(folder) as served:
        client = await served.greeted_line()
        await client.send(line(op, {"from": "me", "to": 5, "text": "x"}))
        assert await client.answer() == {"error": f"{op}: 'to' must be a string", "code": "bad_request"}
        await client.send(line(op, {"from": "me", "to": "h", "text": "x"}))
        assert await client.answer() == {"ok": True}


@pytest.mark.parametrize("op", ["fails", "fails_later", "no_json", "no_json_later"])
async def test_a_handler_that_fails_is_answered_logged_and_touches_nothing_else(
    folder: Path, op: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(folder) as served:
        client, other = await served.greeted_line(), await served.greeted_line()
        await other.send(line("slow", {"n": 1}))
        await client.send(line("slow", {"n": 2}, frame_id=2), line(op, frame_id=3))
        frame = await client.receive()
        assert (frame["id"], frame["payload"]["code"]) == (3, "internal_error")
        assert "secret" not in str(frame)
        served.service.release.set()
        assert [await client.answer(), await other.answer()] == [{"ok": True, "n": 2}, {"ok": True, "n": 1}]
        assert [record.exc_info is not None for record in caplog.records if record.levelname == "ERROR"] == [
            True
        ]


async def test_a_success_over_the_cap_is_too_large_and_a_refusal_is_cut(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.greeted_line()
        await client.send(line("too_long"), line("too_long_refusal", frame_id=2), line("no" * 32, frame_id=3))
        assert (await client.answer())["code"] == "too_large"
        cut = await client.answer()
        assert cut["code"] == "a_code"
        assert cut["error"].endswith("é…")
        assert (await client.answer())["code"] == "unknown_op"


async def test_one_slow_request_holds_up_no_other_and_each_is_answered_as_it_finishes(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.greeted_line()
        await client.send(*(line("slow", {"n": n}, frame_id=n) for n in (1, 2, 3)), line("ping", frame_id=4))
        assert (await client.receive())["id"] == 4
        for n in (3, 1, 2):
            await served.service.release_one(n)
            assert (await client.receive())["id"] == n


async def test_the_sixty_fifth_request_waits_in_order_until_one_is_answered(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.greeted_line()
        slow = [line("slow", {"n": n}, frame_id=n) for n in range(1, 71)]
        await client.send(*slow, line("ping", frame_id=99))
        await served.service.wait_begun(MAX_IN_FLIGHT)
        # Another connection is served meanwhile; whatever could still come from the first has come by then.
        other = await served.greeted_line()
        await other.send(line("ping"))
        await other.answer()
        assert served.service.begun == list(range(1, 65))
        for n in range(1, 7):
            await served.service.release_one(n)
            assert (await client.receive())["id"] == n
            await served.service.wait_begun(MAX_IN_FLIGHT + n)
            assert served.service.begun == list(range(1, 65 + n))
        served.service.release.set()
        rest = [(await client.receive())["id"] for _ in range(65)]
        assert sorted(rest) == [*range(7, 71), 99]


async def test_a_thousand_requests_in_one_write_are_all_answered_a_few_at_a_time(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.greeted_line()
        most = 0

        def watch() -> bool:
            nonlocal most
            most = max(most, len(served.service.begun) - len(served.service.finished))
            return len(served.service.finished) == 1000

        served.service.release.set()
        await client.send(*(line("slow", {"n": n}, frame_id=n) for n in range(1000)))
        await served.service.until(watch)
        assert sorted([(await client.receive())["id"] for _ in range(1000)]) == list(range(1000))
        assert most <= MAX_IN_FLIGHT


# The ends of a connection


async def test_the_end_of_input_still_gets_the_answers_of_what_is_in_flight(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.line_client()
        await client.send(hello_line(), line("slow", {"n": 1}, frame_id=2), line("ping", frame_id=3)[:-1])
        client.half_close()
        assert [(await client.receive())["id"] for _ in range(2)] == [1, 3]
        served.service.release.set()
        assert (await client.receive())["id"] == 2
        await client.wait_closed()
        assert await served.service.wait_ended() is CloseReason.PEER_LEFT


async def test_the_end_of_input_behind_more_requests_than_may_be_in_flight_still_gets_every_answer(
    folder: Path,
) -> None:
    async with serving(folder) as served:
        client = await served.line_client()
        await client.send(hello_line(), *(line("slow", {"n": n}, frame_id=n) for n in range(200)))
        client.half_close()
        await served.service.wait_begun(MAX_IN_FLIGHT)
        served.service.release.set()
        await client.answer()
        assert sorted([(await client.receive())["id"] for _ in range(200)]) == list(range(200))
        await client.wait_closed()


@pytest.mark.parametrize("sent", [b"", b"\n", hello_line()[:20]])
async def test_the_end_of_input_before_a_hello_ends_the_connection(folder: Path, sent: bytes) -> None:
    async with serving(folder) as served:
        client = await served.line_client()
        await client.send(sent)
        client.half_close()
        assert (b"bad_frame" in await client.rest()) is (len(sent) > 1)
        await served.service.wait_ended()


async def test_a_client_that_hangs_up_in_the_middle_of_a_request_leaves_nothing_behind(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(folder) as served:
        client = await served.greeted_line()
        await client.send(line("slow", {"n": 1}), line("slow", {"n": 2}, frame_id=2))
        await served.service.wait_begun(2)
        client.hang_up()
        served.service.release.set()
        await served.service.wait_ended()
        await served.service.until(lambda: len(served.service.finished) == 2)
        assert (dict(served.server.sessions), served.server.admitted_count) == ({}, 0)
        assert [record for record in caplog.records if record.levelname in {"WARNING", "ERROR"}] == []


async def test_one_connection_s_end_is_told_once(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.greeted_line()
        session = served.service.sessions[0]
        session.close(CloseReason.SUPERSEDED, "first")
        session.close(CloseReason.SHUTDOWN, "second")
        session.connection.abort(CloseReason.SLOW_PEER, "third")
        await client.wait_closed()
        await served.service.wait_ended()
        assert served.service.ends == [(CloseReason.SUPERSEDED, "first")]


async def test_what_was_queued_is_still_written_by_a_close_and_nothing_after_it(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.greeted_line()
        session = served.service.sessions[0]
        session.event("one", {"t": "y" * 1_000_000})
        session.close(CloseReason.SUPERSEDED)
        session.event("two", {})
        assert (await client.receive())["op"] == "one"
        await client.wait_closed()


# Requests of ours


async def test_a_request_of_ours_is_answered_by_id_and_op(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.greeted_line()
        asking = asyncio.ensure_future(served.service.sessions[0].request("ask", {"a": 1}))
        frame = await client.receive()
        assert (frame["kind"], frame["op"], frame["payload"]) == ("req", "ask", {"a": 1})
        number = frame["id"]
        await client.send(
            line("other", {"wrong": 1}, frame_id=number, kind="res"),
            line("ask", {"wrong": 2}, frame_id=number + 1, kind="res"),
            line("ask", {"right": 1}, frame_id=number, kind="res"),
            line("ask", {"wrong": 3}, frame_id=number, kind="res"),  # only the first answer counts
        )
        assert await asking == {"right": 1}
        await served.service.until(lambda: len(served.service.answers) == 2)


async def test_a_request_of_ours_over_the_cap_is_not_sent_and_answered_too_large(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.greeted_line()
        answer = await served.service.sessions[0].request("ask", {"a": "y" * MAX_FRAME_BYTES})
        assert answer["code"] == "too_large"
        await client.send(line("ping"))
        assert (await client.receive())["op"] == "ping"


async def test_a_request_of_ours_ends_with_the_connection(folder: Path) -> None:
    async with serving(folder) as served:
        client = await served.greeted_line()
        session = served.service.sessions[0]
        asking = asyncio.ensure_future(session.request("ask", {}))
        await client.receive()
        client.hang_up()
        with pytest.raises(ConnectionError):
            await asking
        with pytest.raises(ConnectionError):
            await session.request("ask", {})


# Peers that do not read


async def _never_reads(served: Served) -> socket.socket:
    """Return the raw socket of an admitted client that reads no more, with more sent to it than it takes."""
    raw = socket.socket(socket.AF_UNIX)
    raw.setblocking(False)
    raw.connect(os.fspath(served.path))
    raw.send(hello_line())
    await served.service.until(lambda: len(served.service.greeted_sessions) > 0)
    served.service.sessions[-1].event("much", {"t": "y" * 5_000_000})
    assert served.service.sessions[-1].connection.queued_bytes() > 0
    return raw


async def test_a_peer_that_takes_nothing_is_dropped_by_the_sweep_and_others_are_served(folder: Path) -> None:
    async with serving(folder, write_s=0.05, write_s_per_mib=0, sweep_s=0.01) as served:
        with await _never_reads(served):
            other = await served.greeted_line()
            assert await served.service.wait_ended() is CloseReason.SLOW_PEER
            await other.send(line("ping"))
            assert await other.answer() == {"ok": True}


async def test_a_closed_peer_that_takes_nothing_is_dropped_though_nothing_sweeps(folder: Path) -> None:
    async with serving(folder, write_s=0.05, write_s_per_mib=0, sweep_s=1000) as served:
        with await _never_reads(served):
            served.service.sessions[0].close(CloseReason.SUPERSEDED)
            assert await served.service.wait_ended() is CloseReason.SUPERSEDED


async def test_a_peer_with_more_queued_than_is_kept_for_one_is_dropped(folder: Path) -> None:
    async with serving(folder) as served:
        with await _never_reads(served):
            session = served.service.sessions[0]
            for _ in range(100):
                session.event("much", {"t": "y" * 1_000_000})
            assert session.connection.queued_bytes() <= 65 * 1024 * 1024
            assert await served.service.wait_ended() is CloseReason.QUEUE_FULL


# The keepalive of a line


async def test_a_link_that_falls_silent_is_asked_and_then_given_up(folder: Path) -> None:
    async with serving(folder, ping_s=0.05, pong_s=0.1, sweep_s=0.01) as served:
        client = await served.greeted_line(role="link")
        frame = await client.receive()
        assert (frame["kind"], frame["op"]) == ("req", "ping")
        await client.wait_closed()
        assert await served.service.wait_ended() is CloseReason.KEEPALIVE


async def test_any_frame_is_a_sign_of_life_and_each_silence_is_asked_about_anew(folder: Path) -> None:
    async with serving(folder, ping_s=0.05, pong_s=20, sweep_s=0.01) as served:
        client = await served.greeted_line(role="link")
        for _ in range(3):
            assert (await client.receive())["op"] == "ping"
            await client.send(line("anything", frame_id=0, kind="evt"))
        assert served.service.ends == []


async def test_a_client_that_is_no_link_may_be_silent(folder: Path) -> None:
    async with serving(folder, ping_s=0.02, pong_s=0.02, sweep_s=0.01) as served:
        client, link = await served.greeted_line(), await served.greeted_line(role="link")
        await link.rest()
        await client.send(line("ping"))
        assert await client.answer() == {"ok": True}


# A real nc


NC = shutil.which("nc")
NC_MISSING = "no nc on the PATH"


async def _nc(served: Served, *flags: str, feed: bytes) -> asyncio.subprocess.Process:
    if NC is None:
        if os.environ.get("CI") == "true":
            pytest.fail(NC_MISSING)
        pytest.skip(NC_MISSING)
    process = await asyncio.create_subprocess_exec(
        NC,
        *flags,
        "-U",
        os.fspath(served.path),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(feed)
    return process


async def test_printf_into_nc_that_closes_its_side_at_once_gets_every_answer(folder: Path) -> None:
    async with serving(folder) as served:
        process = await _nc(served, "-N", feed=hello_line() + line("slow", {"n": 1}))
        assert process.stdin is not None
        process.stdin.close()
        await served.service.wait_begun(1)
        served.service.release.set()
        output, _ = await process.communicate()
        assert [b'"op":"hello"' in output, b'"op":"slow"' in output] == [True, True]
        assert output.count(b"\n") == 2
        assert process.returncode == 0


async def test_nc_that_keeps_its_side_open_converses_until_it_is_closed(folder: Path) -> None:
    async with serving(folder) as served:
        process = await _nc(served, feed=hello_line())
        assert process.stdin is not None
        assert process.stdout is not None
        client = LineClient(process.stdout, process.stdin)
        assert (await client.receive())["op"] == "hello"
        await client.send(line("ping"))
        assert await client.answer() == {"ok": True}
        served.service.sessions[0].close(CloseReason.SHUTDOWN)
        assert await client.rest() == b""
        process.stdin.close()
        await process.wait()
