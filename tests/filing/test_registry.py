"""Unreadable is never absent, and never retried when it merely does not parse."""

import errno
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from filing.fresh_read import ReadCalls, ReadFailed, read_fresh
from filing.registry import Listing, RegistryMissing, RegistryReader, RegistryUnreadable, read_registry
from filing.strict_json import NotStrictJsonError, parse_strict
from tests.filing.support import case_name, from_base64, on_posix, table


class NoPause(ReadCalls):
    def pause(self, seconds: float) -> None:
        pass


@pytest.mark.parametrize("case", table("registry_read", "cases"), ids=case_name)
def test_what_the_filer_goes_on_to(case: dict[str, Any], tmp_path: Path) -> None:
    registry = tmp_path / "registry.json"
    if case["exists"] == "dir":
        registry.mkdir()
    elif case["exists"]:
        registry.write_bytes(from_base64(case["bytes_b64"]) or b"")
    answer = read_registry(str(tmp_path), NoPause())
    if isinstance(answer, RegistryUnreadable):
        goes_on_to = "file_failed"
    elif isinstance(answer, Listing) and answer.entry(case["handle"]) is not None:
        goes_on_to = "listed"
    else:
        goes_on_to = "not_here"
    assert goes_on_to == case["filer"]


@pytest.mark.parametrize("case", table("wire", "link_listing"))
def test_a_link_lists_what_its_folder_has_under_its_own_box(case: dict[str, Any]) -> None:
    listing = Listing({"h": {"host": case["entry_host"]}})
    assert listing.listed_under("h", case["own_box"]) is (case["answers"] != "not_here")


REGISTRY = b'{"agents":{"h":{"host":"b"}}}'


class ScriptedReads(ReadCalls):
    """Each step is one open and read of the file: bytes, or an errno of the open or of a later read."""

    def __init__(self, *steps: bytes | tuple[str, int]) -> None:
        self.steps = list(steps)
        self.blocks: list[bytes | int] = []
        self.done: list[str] = []

    def open(self, path: str) -> int:
        self.done.append("open")
        match self.steps.pop(0):
            case ("open", number):
                raise OSError(number, os.strerror(number))
            case ("read", number):
                self.blocks = [number]
            case ("read after some bytes", number):
                self.blocks = [REGISTRY[:9], number]
            case bytes() as data:
                self.blocks = [data, b""]
        return 1000

    def read(self, fd: int, size: int) -> bytes:
        block = self.blocks.pop(0)
        if isinstance(block, int):
            raise OSError(block, os.strerror(block))
        return block

    def close(self, fd: int) -> None:
        pass

    def revalidate(self, folder: str) -> None:
        self.done.append("revalidate")

    def pause(self, seconds: float) -> None:
        self.done.append(f"pause {seconds:g}")


@pytest.mark.parametrize(
    "first",
    [
        ("open", errno.ESTALE),
        ("open", errno.EACCES),
        ("read", errno.ESTALE),
        ("read after some bytes", errno.EIO),
        b"",
    ],
)
def test_a_failed_or_empty_read_revalidates_the_folder_and_opens_again(
    first: bytes | tuple[str, int],
) -> None:
    calls = ScriptedReads(first, REGISTRY)
    assert read_fresh("/c/registry.json", calls) == REGISTRY
    assert calls.done == ["open", "revalidate", "open"]


def test_after_four_tries_in_200_ms_it_is_unreadable() -> None:
    calls = ScriptedReads(*[("read", errno.ESTALE)] * 4)
    assert isinstance(read_fresh("/c/registry.json", calls), ReadFailed)
    again = ["revalidate", "open"]
    assert calls.done == ["open", *again, "pause 0.1", *again, "pause 0.1", *again]


def test_four_empty_reads_are_unreadable_too() -> None:
    assert isinstance(read_registry("/c", ScriptedReads(b"", b"", b"", b"")), RegistryUnreadable)


def test_a_missing_file_is_told_at_any_open() -> None:
    missing = ("open", errno.ENOENT)
    assert isinstance(read_registry("/c", ScriptedReads(missing)), RegistryMissing)
    assert isinstance(read_registry("/c", ScriptedReads(b"", missing)), RegistryMissing)


def test_bytes_that_do_not_parse_are_not_read_again() -> None:
    calls = ScriptedReads(b"{")
    assert isinstance(read_registry("/c", calls), RegistryUnreadable)
    assert calls.done == ["open"]


def test_a_reader_parses_again_only_what_changed() -> None:
    reader = RegistryReader("/c", ScriptedReads(REGISTRY, REGISTRY, b'{"agents":{}}'))
    first, second, third = reader.read(), reader.read(), reader.read()
    assert first is second
    assert isinstance(third, Listing)
    assert third.agents == {}


@on_posix
def test_a_fifo_in_its_place_does_not_hold_the_reader_up(tmp_path: Path) -> None:
    if sys.platform != "win32":
        os.mkfifo(tmp_path / "registry.json")
    assert isinstance(read_registry(str(tmp_path), NoPause()), RegistryUnreadable)


def test_a_home_that_does_not_exist_lists_nobody(tmp_path: Path) -> None:
    assert isinstance(read_registry(str(tmp_path / "none")), RegistryMissing)


@pytest.mark.parametrize(
    "text",
    [
        b"1e999",
        b"-1e999",
        b"1" + b"0" * 400,
        b"[NaN]",
        b"Infinity",
        b"-Infinity",
        b'{"a":"\\ud800"}',
        b'{"a":["\\udc00"]}',
        b'{"\\ud800":1}',
        b'{"a":"\\ud800","a":1}',
        b"[" * 128 + b"]" * 128,
        b'{"a":' * 128 + b"1" + b"}" * 128,
        b"[" * 100000,
        b"1 2",
        b"",
        b"\xc3",
        b"\xed\xa0\x80",
        b"\xef\xbb\xbf{}",
        b"01",
        b"'a'",
        b'"\t"',
        b"\x0b1",
        "\u00a01".encode(),
    ],
)
def test_json_that_is_not_strict_is_refused(text: bytes) -> None:
    with pytest.raises(NotStrictJsonError):
        parse_strict(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'"\\ud83d\\ude00 \\\\ud800"', "\U0001f600 \\ud800"),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b'{"a":"\\ud83d\\ude00"}', {"a": "\U0001f600"}),
        (b" \r\n\t[1.5e3]\n", [1500.0]),
        (b"[" + b'"[[[[",' * 200 + b"1]", ["[[[["] * 200 + [1]),
        (b"1e-999", 0.0),
    ],
)
def test_strict_json_is_read(text: bytes, value: Any) -> None:
    assert parse_strict(text) == value


def test_nesting_of_127_is_read() -> None:
    parse_strict(b"[" * 127 + b"]" * 127)
