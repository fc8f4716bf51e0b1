"""A command's own append: the daemon's append behind a command's way to the lock."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from filing import outcome
from filing.comm_folder import FileCalls
from filing.inbox import inbox_line
from filing.local_append import NotOurs, append_locally
from filing.outcome import FILED, Filed, Refused
from tests.filing.support import FakeMachine, Home, case_name, from_base64, held_elsewhere, on_posix, table


def line(text: str = "hi") -> bytes:
    return inbox_line(sender="s", to="h", text=text, broadcast=False, stamp="2026-01-01T00:00:00Z")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    (home.path / "inbox-lock-manager").write_text("local m1\nm1\n")
    return home


def append(home: Home, data: bytes, *, wait_s: float = 30.0, **seams: Any) -> Filed | Refused | NotOurs:
    all_seams: dict[str, Any] = {"machine": FakeMachine(), "system": "linux"} | seams
    return append_locally(str(home.path), "h", data, wait_s, **all_seams)


def test_the_line_goes_in(home: Home) -> None:
    assert append(home, line("one")) == FILED
    assert append(home, line("two")) == FILED
    assert home.texts("h") == ["one", "two"]


@pytest.mark.parametrize("case", table("append", "cases"), ids=case_name)
def test_the_table_of_appends(case: dict[str, Any], home: Home) -> None:
    before = from_base64(case["before_b64"])
    if before is not None:
        home.inbox("h").parent.mkdir()
        home.inbox("h").write_bytes(before)
    assert append(home, case["line"].encode() + b"\n") == FILED
    assert home.inbox("h").read_bytes() == from_base64(case["after_b64"])


@pytest.mark.parametrize(
    "seams",
    [
        {"system": "darwin"},
        {"system": "win32"},
        {"machine": FakeMachine("nfs4 server:/export")},
        {"machine": FakeMachine("none@m2", "m2")},
        {"machine": FakeMachine("none", None)},
    ],
    ids=str,
)
def test_what_this_box_may_not_lock_is_the_daemons(home: Home, seams: dict[str, Any]) -> None:
    assert append(home, line(), **seams) == NotOurs()
    assert not home.inbox("h").exists()
    assert not home.lock("h").exists()


def test_without_a_record_it_is_the_daemons(home: Home) -> None:
    (home.path / "inbox-lock-manager").unlink()
    assert append(home, line()) == NotOurs()


@pytest.mark.parametrize("kind", ["local m1", "none@m1", "nfs4 server:/export"])
def test_nothing_is_appended_past_the_bound(home: Home, kind: str) -> None:
    (home.path / "inbox-lock-manager").write_text(f"{kind}\nm1\n")
    with held_elsewhere(home.lock("h")):
        refused = append(home, line(), wait_s=0.25, machine=FakeMachine(kind))
    sentence = "the inbox lock for @h was held for 0.25s — nothing was appended"
    assert refused == Refused(outcome.FILE_FAILED, sentence)
    assert not home.inbox("h").exists()
    assert append(home, line(), machine=FakeMachine(kind)) == FILED


def test_the_contracts_sentence_for_its_own_bound() -> None:
    told = outcome.lock_held("h", 2.0).sentence
    assert told == "the inbox lock for @h was held for 2s — nothing was appended"


@on_posix
def test_a_lock_that_fails_refuses_in_its_own_words(home: Home) -> None:
    home.lock("h").mkdir(parents=True)
    refused = append(home, line())
    assert refused == Refused(outcome.FILE_FAILED, "the append failed: inbox/h.lock is a folder")


def test_a_failed_flush_adds_nothing(home: Home) -> None:
    class BadDisk(FileCalls):
        def flush(self, fd: int) -> None:
            if os.fstat(fd).st_size > len(line("one")):
                raise OSError(5, "Input/output error")

    assert append(home, line("one")) == FILED
    refused = append(home, line("two"), files=BadDisk())
    assert refused == Refused(outcome.FILE_FAILED, "the append failed: Input/output error (EIO)")
    assert home.texts("h") == ["one"]
    assert append(home, line("three")) == FILED


def test_a_name_that_is_no_handle_is_refused(home: Home) -> None:
    refused = append_locally(str(home.path), "../h", line(), 0, machine=FakeMachine(), system="linux")
    assert refused == outcome.bad_handle("../h")


@pytest.mark.parametrize("data", [b"", b"{}", b"{}\n{}\n", b"\n{}\n", b"{}\n\n"])
def test_one_line_at_a_time(home: Home, data: bytes) -> None:
    with pytest.raises(ValueError, match="one line"):
        append(home, data)


def test_many_commands_at_once_lose_no_line(home: Home) -> None:
    """Real processes, real locks."""
    code = (
        "import sys\n"
        "from filing.inbox import inbox_line\n"
        "from filing.local_append import append_locally\n"
        "from tests.filing.support import FakeMachine\n"
        "for n in range(20):\n"
        "    text = f'{sys.argv[2]}-{n}'\n"
        "    data = inbox_line(sender='s', to='h', text=text, broadcast=False, stamp='t')\n"
        "    print(append_locally(sys.argv[1], 'h', data, 30, machine=FakeMachine(), system='linux'))\n"
    )
    root = Path(__file__).parents[2]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(home.path), f"w{n}"], cwd=root, stdout=subprocess.PIPE, text=True
        )
        for n in range(4)
    ]
    answers = [answer for writer in writers for answer in writer.communicate(timeout=60)[0].splitlines()]
    assert answers == ["Filed()"] * 80
    assert sorted(home.texts("h")) == sorted(f"w{writer}-{n}" for writer in range(4) for n in range(20))


def test_the_verbs_pay_for_no_event_loop() -> None:
    modules = "cursor unread reader local_append script_lock work_state naming self_file private_file".split()
    imports = "; ".join(f"import filing.{module}" for module in modules)
    code = f"import sys, json; {imports}; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-S", "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": ""},
    )
    heavy = {"asyncio", "pydantic", "tomli", "websockets", "hashlib", "argparse", "random", "socket"}
    assert not heavy & set(json.loads(run.stdout))
