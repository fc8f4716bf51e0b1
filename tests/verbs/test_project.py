"""Which project a folder belongs to."""

import os
import sys
from pathlib import Path

import pytest

from verbs.project import Project, project_here, project_of, raw_host


def test_the_nearest_checkout_at_or_above_is_the_project(tmp_path: Path) -> None:
    outer, inner = tmp_path / "outer", tmp_path / "outer" / "inner"
    (inner / "deep" / "er").mkdir(parents=True)
    (outer / ".git").mkdir()
    (inner / ".git").write_text("gitdir: elsewhere\n")  # a worktree's or a submodule's is a file
    assert project_of(str(outer)) == Project(str(outer), "outer")
    assert project_of(str(inner / "deep" / "er")) == Project(str(inner), "inner")


def test_a_folder_outside_any_checkout_is_its_own_project(tmp_path: Path) -> None:
    (tmp_path / "notes" / "deep").mkdir(parents=True)
    deep = tmp_path / "notes" / "deep"
    assert project_of(str(deep)) == Project(str(deep), "deep")
    top = str(Path(os.sep).resolve())
    assert project_of(top) == Project(top, top)


@pytest.mark.skipif(sys.platform == "win32", reason="a link needs rights there")
def test_a_root_holds_no_link_so_that_one_project_has_one_root(tmp_path: Path) -> None:
    (tmp_path / "real" / ".git").mkdir(parents=True)
    (tmp_path / "real" / "sub").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "sub")
    assert project_of(str(tmp_path / "link")) == Project(str(tmp_path / "real"), "real")


def test_the_working_folder_is_where_a_session_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    assert project_here() == Project(str(tmp_path.resolve()), tmp_path.name)


@pytest.mark.skipif(sys.platform == "win32", reason="the name comes from another call there")
def test_the_raw_host_is_the_first_label_with_its_case_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    class System:
        nodename = "MyBox.Lab.example\n"

    monkeypatch.setattr(os, "uname", System)
    assert raw_host() == "MyBox"
