"""`comm-relay send` as a real process, against a scripted daemon on a Unix socket."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.verbs.support import (
    BOUND_S,
    COMMAND,
    FILED,
    ROOT,
    VECTORS,
    WELCOME,
    Box,
    Peer,
    Result,
    answering,
    event,
    failed,
    filed,
    filing,
    res,
)
from verbs.comm_relay import RETIRED
from verbs.frames import comm_file_frame
from verbs.sending import FailedError, read_message
from wire.env import SettingError, lock_wait
from wire.limits import MAX_FRAME_BYTES

if sys.platform == "win32":
    pytest.skip("the scripted daemon serves a Unix socket", allow_module_level=True)

MISMATCH = res("hello", {"error": "speaks 4", "code": "protocol_mismatch"})
CONFLICT = res("hello", {"error": "two accounts", "code": "os_user_conflict"})
ROOM = MAX_FRAME_BYTES - len(comm_file_frame("me", "h", ""))


@pytest.mark.parametrize(
    "case", VECTORS["client_verdict"], ids=lambda case: f"{case['hello']} {case['answer']}"
)
def test_the_contract_s_table(box: Box, case: dict[str, Any]) -> None:
    pieces = [WELCOME if case["hello"] is None else res("hello", json.loads(case["hello"]))]
    if not case["answer"].startswith("("):
        pieces.append(res("comm.file", json.loads(case["answer"])))
    with box.daemon(answering(*pieces, stay=case["answer"] in {"(silent)", "(none)"})) as daemon:
        done = box.relay("send", "@h", "hi", SOT_INBOX_LOCK_WAIT_SECS="0")
    prints = case["prints"].removeprefix("(spec) ").replace("<endpoint>", daemon.endpoint) + "\n"
    assert done == (Result(0, prints, "") if case["exit"] == 0 else Result(1, "", prints))


def test_one_hello_and_one_request_are_written(box: Box) -> None:
    with box.daemon() as daemon:
        assert box.relay("send", "@h", "é — ", "@you", '"quoted"\n') == filed()
    ((hello,), (request,)) = daemon.hellos, daemon.requests
    assert (hello["payload"]["host"], hello["payload"]["name"], hello["payload"]["role"]) == (
        "boxa",
        "me",
        "cli",
    )
    assert request == {
        "v": 1,
        "id": 2,
        "kind": "req",
        "op": "comm.file",
        "payload": {
            "from": "me",
            "to": "h",
            "text": 'é —  @you "quoted"\n',
            "broadcast": False,
            "forwarded": False,
        },
    }


def test_the_request_does_not_wait_for_the_hello_s_answer(box: Box) -> None:
    def script(peer: Peer) -> None:
        peer.requests()
        peer.say(FILED)
        peer.wait_until_left()

    with box.daemon(script):
        assert box.relay("send", "@h", "hi") == filed()


def test_an_answer_cut_anywhere_with_events_and_noise_between(box: Box) -> None:
    stream = event("x" * 100_000) + WELCOME + b"\nnoise\n" + res("ping", {"ok": True}) + FILED
    with box.daemon(answering(*(stream[at : at + 7] for at in range(0, len(stream), 7)))):
        assert box.relay("send", "@h", "hi") == filed()


def test_a_daemon_that_closes_before_it_reads(box: Box) -> None:
    with box.daemon(lambda peer: None) as daemon:
        assert box.relay("send", "@h", "hi") == failed(f"the daemon did not answer at {daemon.endpoint}")


def test_a_daemon_that_refuses_before_it_reads_a_long_message(box: Box) -> None:
    def script(peer: Peer) -> None:
        peer.say(CONFLICT)

    (box.folder / "long").write_bytes(b"x" * ROOM)
    with box.daemon(script):
        done = box.relay("send", "@h", "--file", str(box.folder / "long"))
        assert done == failed("hello refused: two accounts")


def test_a_daemon_that_refuses_and_never_reads_a_long_message(box: Box) -> None:
    client_has_ended = threading.Event()

    def script(peer: Peer) -> None:
        peer.say(MISMATCH)
        client_has_ended.wait(BOUND_S)

    (box.folder / "long").write_bytes(b"x" * ROOM)
    with box.daemon(script):
        done = box.relay("send", "@h", "--file", str(box.folder / "long"), SOT_INBOX_LOCK_WAIT_SECS="0")
        client_has_ended.set()
    assert done == failed("hello refused: speaks 4")


def test_a_line_that_never_ends_is_no_answer(box: Box) -> None:
    with box.daemon(answering(WELCOME, b"x" * (MAX_FRAME_BYTES + 1))) as daemon:
        assert box.relay("send", "@h", "hi") == failed(f"the daemon did not answer at {daemon.endpoint}")


def test_endless_junk_costs_no_more_than_the_window(box: Box) -> None:
    def script(peer: Peer) -> None:
        peer.requests()
        while True:
            peer.say(b"{\n" * 100_000)

    with box.daemon(script) as daemon:
        began = time.monotonic()
        done = box.relay("send", "@h", "hi", SOT_INBOX_LOCK_WAIT_SECS="0")
        took = time.monotonic() - began
    assert done == failed(f"the daemon did not answer at {daemon.endpoint}")
    assert 3 <= took < 3.7  # of which the start of a process is the most


def test_a_reason_stays_on_its_line(box: Box) -> None:
    refusal = res("comm.file", {"error": "two\nlines \x1b[31mred\u2028 — é\xa0!", "code": "x"})
    with box.daemon(answering(WELCOME, refusal)):
        assert box.relay("send", "@h", "hi") == failed("two lines  [31mred  — é\xa0!")


class TestAll:
    def test_everybody_connected_is_counted(self, box: Box) -> None:
        answer = res("agent.send", {"ok": True, "receivers": ["me", "sotd-boxb", "fe@laptop"]})
        with box.daemon(answering(WELCOME, event("noon"), answer)) as daemon:
            assert box.relay("send", "--all", "@you", "noon") == Result(0, "relayed -> 3 connections\n", "")
        assert daemon.requests[0]["op"] == "agent.send"
        assert daemon.requests[0]["payload"] == {"from": "me", "to": "", "text": "@you noon"}

    def test_a_refusal(self, box: Box) -> None:
        refusal = res("agent.send", {"error": "too long", "code": "too_large"})
        with box.daemon(answering(WELCOME, refusal)):
            assert box.relay("send", "--all", "noon") == failed("too long", "all")


class TestFile:
    @pytest.mark.parametrize("data", [b"", b"one\ntwo\r\n", "\ufeffé \u2028\0".encode(), b"x" * ROOM])
    def test_bytes_are_sent_whole(self, box: Box, data: bytes) -> None:
        (box.folder / "notes").write_bytes(data)
        with box.daemon() as daemon:
            assert box.relay("send", "@h", "--file", str(box.folder / "notes")) == filed()
            assert box.relay("send", "@h", "--file=-", stdin=data) == filed()
        assert [request["payload"]["text"].encode() for request in daemon.requests] == [data, data]

    def test_what_cannot_be_sent_is_told_and_nothing_is_sent(self, box: Box) -> None:
        folder = box.folder
        (folder / "latin").write_bytes(b"caf\xe9")
        (folder / "long").write_bytes(b"x" * (ROOM + 1))
        (folder / "longer").write_bytes(b"x" * 3_000_000)
        most = f"and {MAX_FRAME_BYTES} is the most; nothing was sent"
        with box.daemon() as daemon:
            for name, why in {
                "nowhere": f"{folder}/nowhere could not be read: No such file or directory; nothing was sent",
                "run": f"{folder}/run could not be read: Is a directory; nothing was sent",
                "latin": f"{folder}/latin is not UTF-8 at byte 3; nothing was sent",
                "long": f"the message makes a request of {MAX_FRAME_BYTES + 1} bytes, {most}",
                "longer": f"the message is 3000000 bytes, {most}",
            }.items():
                assert box.relay("send", "@h", "--file", str(folder / name)) == failed(why)
            done = box.relay("send", "@h", "--file", "-", stdin=b"\xff")
            assert done == failed("standard input is not UTF-8 at byte 0; nothing was sent")
            done = box.relay("send", "@h", "--file", "-", stdin=b"x" * 3_000_000)
            assert done == failed(f"the message is more than {MAX_FRAME_BYTES} bytes, {most}")
            assert daemon.hellos == []

    def test_input_without_end_is_not_read_to_its_end(self, box: Box) -> None:
        for name in ("-", "/dev/stdin"):
            with Path("/dev/zero").open("rb") as zero:
                done = subprocess.run(
                    [*COMMAND, "send", "@h", "--file", name],
                    cwd=ROOT,
                    env=box.env,
                    stdin=zero,
                    capture_output=True,
                    timeout=BOUND_S,
                )
            assert b"is more than" in done.stderr

    def test_a_fifo_without_a_writer_and_a_device_are_refused_by_kind(self, box: Box) -> None:
        fifo = box.folder / "fifo"
        os.mkfifo(fifo)
        link = box.folder / "link"
        link.symlink_to(fifo)
        for name in (fifo, link):
            assert box.relay("send", "@h", "--file", str(name)) == failed(
                f"{name} could not be read: it is a FIFO, which may have no writer; "
                "pipe the text in, with --file -; nothing was sent"
            )
        assert box.relay("send", "@h", "--file", "/dev/zero") == failed(
            "/dev/zero could not be read: it is no file; pipe the text in, with --file -; nothing was sent"
        )

    def test_a_fifo_that_has_taken_the_place_of_a_file_holds_nobody_up(
        self, box: Box, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        os.mkfifo(box.folder / "fifo")
        (box.folder / "file").touch()
        was = (box.folder / "file").stat()
        monkeypatch.setattr(os, "stat", lambda _path: was)
        with pytest.raises(FailedError, match="it is a FIFO"):
            read_message(str(box.folder / "fifo"))

    @pytest.mark.parametrize("name", ["/dev/stdin", "/dev/fd/0"])
    def test_pipes_that_were_handed_down_are_read_to_their_end(self, box: Box, name: str) -> None:
        with box.daemon() as daemon:
            assert box.relay("send", "@h", "--file", name, stdin=b"hi" * 100_000) == filed()
        assert daemon.requests[0]["payload"]["text"] == "hi" * 100_000

    def test_a_process_substitution_is_read(self, box: Box) -> None:
        bash = shutil.which("bash")
        if bash is None:
            pytest.skip("there is no bash")
        script = '"$@" <(sleep 0.3; echo late)'
        with box.daemon() as daemon:
            done = subprocess.run(
                [bash, "-c", script, "bash", *COMMAND, "send", "@h", "--file"],
                cwd=ROOT,
                env=box.env,
                capture_output=True,
                timeout=BOUND_S,
            )
            assert (done.stdout, done.stderr) == (b"filed -> @h\n", b"")
        assert daemon.requests[0]["payload"]["text"] == "late\n"


@pytest.mark.skipif(sys.platform == "darwin", reason="argv of other bytes cannot be made there")
def test_words_that_are_not_utf_8(box: Box) -> None:
    with box.daemon() as daemon:
        done = box.relay("send", "@h", os.fsdecode(b"caf\xe9"))
        assert done == failed("the message is not UTF-8 at character 3; nothing was sent")
        done = box.relay("send", os.fsdecode(b"@\xe9"), "hi")
        assert done == failed("the recipient is not UTF-8 at character 0; nothing was sent", "@\\udce9")
        assert daemon.hellos == []


@pytest.mark.parametrize("value", ["x", "-1", "3601", "nan", "inf"])
def test_a_lock_wait_that_is_none_is_told_in_the_daemons_words(box: Box, value: str) -> None:
    with pytest.raises(SettingError) as told:
        lock_wait({"SOT_INBOX_LOCK_WAIT_SECS": value})
    with box.daemon() as daemon:
        done = box.relay("send", "@h", "hi", SOT_INBOX_LOCK_WAIT_SECS=value)
        assert done == failed(f"{told.value}; nothing was sent")
        assert daemon.hellos == []


class TestStandardOutput:
    def test_a_reader_that_left_costs_no_traceback(self, box: Box) -> None:
        reading, writing = os.pipe()
        os.close(reading)
        with box.daemon():
            done = subprocess.run(
                [*COMMAND, "send", "@h", "hi"], cwd=ROOT, env=box.env, stdout=writing, stderr=subprocess.PIPE
            )
        os.close(writing)
        assert (done.returncode, done.stderr) == (0, b"")

    @pytest.mark.parametrize("closed", ["1", "2", "0"])
    def test_a_closed_descriptor_costs_no_traceback(self, box: Box, closed: str) -> None:
        with box.daemon():
            done = subprocess.run(
                ["sh", "-c", f'exec "$@" {closed}>&-', "sh", *COMMAND, "send", "@h", "hi"],
                cwd=ROOT,
                env=box.env,
                capture_output=True,
            )
        assert (done.returncode, done.stderr) == (0, b"")

    def test_a_terminal_that_has_not_all_characters_shows_escapes(self, box: Box) -> None:
        with box.daemon(answering(WELCOME, res("comm.file", {"error": "held — é"}))):
            done = box.relay("send", "@h", "hi", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
            assert done.err == "FAILED -> @h: held \\u2014 \\xe9\n"
        with box.daemon(filing, box.link_socket):
            assert box.relay("send", "@é", "hi", PYTHONIOENCODING="ascii").out == "filed -> @\\xe9\n"


class TestInterrupt:
    def test_after_the_request_was_sent_nothing_is_known(self, box: Box) -> None:
        with box.daemon(answering(WELCOME)) as daemon:
            process = box.start("send", "@h", "hi", SOT_INBOX_LOCK_WAIT_SECS="60")
            assert daemon.asked.wait(BOUND_S)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=BOUND_S)
        assert process.returncode == 130
        assert out == b""
        assert err == (
            b"FAILED -> @h: interrupted before an answer came; the request was sent, "
            b"so nothing is known of its end\n"
        )

    def test_before_it_nothing_was_sent(self, box: Box) -> None:
        reading, writing = os.pipe()
        process = subprocess.Popen(
            [*COMMAND, "send", "@h", "--file", "-"],
            cwd=ROOT,
            env=box.env,
            stdin=reading,
            stderr=subprocess.PIPE,
        )
        os.write(writing, b"x" * 300_000)  # more than a pipe holds: the command has begun to read
        time.sleep(0.5)  # Python hears a signal when it waits in a read, not between two of them
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=BOUND_S)
        os.close(reading)
        os.close(writing)
        assert process.returncode == 130
        # Python itself may warn before it of the file that the interrupt found half open.
        assert err.endswith(b"comm-relay: interrupted; nothing was sent\n")


class TestBridge:
    def start(self, box: Box) -> "subprocess.Popen[bytes]":
        process = box.start("bridge", "--host", "whatever an old loop gave")
        assert process.stderr is not None
        assert process.stderr.readline().decode() == RETIRED + "\n"
        assert process.poll() is None
        return process

    def test_it_says_one_line_and_sleeps_until_it_is_interrupted(self, box: Box) -> None:
        process = self.start(box)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=BOUND_S) == (b"", b"")
        assert process.returncode == 130

    def test_it_ends_with_its_session(self, box: Box) -> None:
        process = self.start(box)
        process.send_signal(signal.SIGHUP)
        assert process.communicate(timeout=BOUND_S) == (b"", b"")
        assert process.returncode == -signal.SIGHUP

    def test_a_signal_that_ends_nothing_does_not_wake_it(self, box: Box) -> None:
        process = self.start(box)
        process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGWINCH)
        assert process.poll() is None
        process.terminate()
        assert process.communicate(timeout=BOUND_S) == (b"", b"")


NEVER = {
    "argparse", "asyncio", "contextlib", "dataclasses", "enum", "importlib.metadata", "json", "logging",
    "pathlib", "pydantic", "re", "signal", "socket", "subprocess", "threading", "tomli", "typing",
    "websockets",
}  # fmt: skip


def test_a_send_on_a_unix_socket_imports_next_to_nothing(box: Box) -> None:
    program = (
        "import sys\nbefore = set(sys.modules)\nfrom verbs.comm_relay import main\ncode = main()\n"
        "print('\\n'.join(set(sys.modules) - before))\nsys.exit(code)"
    )
    self_file = box.folder / ".sot-comm" / "self" / "boxa__nopane.txt"
    self_file.parent.mkdir(parents=True)
    self_file.write_text("me\n")
    with box.daemon():
        done = subprocess.run(
            [sys.executable, "-c", program, "send", "@h", "hi"],
            cwd=ROOT,
            env={**box.env, "SOT_COMM_NAME": ""},
            capture_output=True,
            text=True,
            check=True,
        )
    said, *imported = done.stdout.splitlines()
    assert said == "filed -> @h"
    assert NEVER.isdisjoint(imported)
    ours = {name for name in imported if name.partition(".")[0] in {"verbs", "wire", "topology", "filing"}}
    assert ours == {
        "topology",
        "topology.names",
        "topology.paths",
        "verbs",
        "verbs.client",
        "verbs.comm_relay",
        "verbs.endpoints",
        "verbs.fast_json",
        "verbs.frames",
        "verbs.identity",
        "verbs.sending",
        "verbs.terminal",
        "verbs.unix",
        "verbs.words",
        "wire",
        "wire.account",
        "wire.env",
        "wire.limits",
        "wire.version",
    }


def test_the_window_is_one_deadline_for_everything(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    from verbs import comm_relay, sending
    from verbs.client import Channel, NoAnswer, Verdict

    deadlines: list[float] = []

    def reach(named: str | None, env: Any, deadline: float) -> tuple[str, Channel]:
        deadlines.append(deadline)
        return "unix:/x", Channel()

    def ask(channel: Channel, frames: Any, op: str, deadline: float) -> Verdict:
        deadlines.append(deadline)
        return NoAnswer()

    monkeypatch.setattr(comm_relay, "reach", reach)
    monkeypatch.setattr(sending, "ask", ask)
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    monkeypatch.setenv("SOT_SELF_HOST", "boxa")
    for value, window_s in {"": 5.0, "0": 3.0, "0.5": 3.5, "10": 13.0}.items():
        monkeypatch.setenv("SOT_INBOX_LOCK_WAIT_SECS", value)
        assert comm_relay.main(["send", "@h", "hi", "--from", "me"]) == 1
        assert deadlines == [1000 + window_s] * 2
        deadlines.clear()
