import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology import names
from topology.names import HostNameError, declared_host, is_host_name, self_host

TABLE: dict[str, Any] = json.loads((Path(__file__).parents[1] / "vectors" / "names.json").read_text("utf-8"))


@pytest.mark.parametrize("case", TABLE["host"], ids=lambda case: repr(case["host"])[:40])
def test_a_host_name_is_plain(case: dict[str, Any]) -> None:
    assert is_host_name(case["host"]) is case["plain"]


@pytest.mark.parametrize("case", TABLE["declared_host"], ids=lambda case: case["name"])
def test_the_declared_host_is_the_override_or_the_first_label(case: dict[str, Any]) -> None:
    assert declared_host(case["override"], case["hostname"]) == case["declared"]


def test_no_override_is_like_an_empty_one() -> None:
    assert declared_host(None, "Box.example.org") == "box"


@given(st.text(max_size=8))
def test_no_text_that_is_not_ascii_is_a_host_name(text: str) -> None:
    assert not is_host_name(text) or text.isascii()


def test_the_environment_names_this_box_as_it_stands() -> None:
    assert self_host({"SOT_SELF_HOST": "MyBox.example.org"}) == "MyBox.example.org"


def test_without_the_variable_the_machine_names_this_box(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "_machine_name", lambda: "Bench.example.org")
    assert self_host({}) == "bench"
    assert self_host({"SOT_SELF_HOST": ""}) == "bench"


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOT_SELF_HOST", "atlas")
    assert self_host() == "atlas"


def test_this_machine_has_a_name() -> None:
    assert names._machine_name()


def test_a_box_without_a_name_is_told_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "_machine_name", lambda: ".example.org")
    with pytest.raises(HostNameError, match=r"'\.example\.org' gives this box no name: set SOT_SELF_HOST"):
        self_host({})
    assert issubclass(HostNameError, ValueError)


@pytest.mark.parametrize("module", ["topology.names", "topology.paths"])
def test_the_modules_that_verbs_start_with_stay_light(module: str) -> None:
    code = f"import sys; import {module}; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-S", "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": ""},
    )
    heavy = {
        "re",
        "typing",
        "dataclasses",
        "pathlib",
        "json",
        "asyncio",
        "socket",
        "tomli",
        "inspect",
        "enum",
    }
    assert not heavy & set(run.stdout.split())
