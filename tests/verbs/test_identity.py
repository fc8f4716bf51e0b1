"""Who is sending."""

import os
import sys
from pathlib import Path

import pytest

from filing import self_file
from filing.self_file import parse_self
from tests.verbs.support import ROOT, Box, failed, filed
from verbs import comm_relay
from verbs.identity import (
    NoIdentityError,
    SelfFile,
    carried_row,
    held_by_another,
    identify,
    not_its_own,
    not_this_rows,
    self_file_path,
)
from verbs.project import Project

REST = "; join first (comm-join), or give --from NAME, or set SOT_COMM_NAME; nothing was sent"


@pytest.fixture
def env(box: Box) -> dict[str, str]:
    box.env.pop("SOT_COMM_NAME")
    return box.env


def pin(path: str | Path, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8", newline="")


def why_nobody(env: dict[str, str]) -> str:
    with pytest.raises(NoIdentityError) as told:
        identify(None, env)
    return str(told.value).removeprefix("no sender: ").removesuffix(REST)


def test_a_name_given_comes_first(env: dict[str, str]) -> None:
    pin(self_file_path(env), "pinned\n")
    env["SOT_COMM_NAME"] = "named"
    assert identify("given", env).handle == "given"
    assert identify(None, env).handle == "named"
    env["SOT_COMM_NAME"] = ""
    identity = identify(None, env)
    assert (identity.handle, identity.self_file) == ("pinned", self_file_path(env))


def test_the_self_file_is_this_slot_s(env: dict[str, str]) -> None:
    home = env["HOME"]
    assert self_file_path(env) == f"{home}/.sot-comm/self/boxa__nopane.txt"
    assert self_file_path({**env, "SOT_WORKSPACE_ID": "ws-7"}) == f"{home}/.sot-comm/self/boxa__ws-7.txt"
    assert self_file_path({**env, "SOT_COMM_HOME": "/c"}) == "/c/self/boxa__nopane.txt"
    assert self_file_path({**env, "SOT_COMM_SELF_FILE": "/mine", "SOT_WORKSPACE_ID": "ws-7"}) == "/mine"


@pytest.mark.parametrize(
    ("text", "handle", "repo", "root"),
    [
        ("MyRepo-lab\nrepo=MyRepo\nroot=/src/MyRepo\n", "MyRepo-lab", "MyRepo", "/src/MyRepo"),
        ("MyRepo-lab\r\nrepo=MyRepo\r\nroot=C:\\src=x\r\n", "MyRepo-lab", "MyRepo", "C:\\src=x"),
        ("MyRepo-lab", "MyRepo-lab", "", ""),
        (" MyRepo-lab \n\nnew=1\nnoise\n", "MyRepo-lab", "", ""),
        ("", "", "", ""),
        ("\0\0\0", "", "", ""),
        ("zz\nroot=/x\nrepo=nope", "zz", "nope", "/x"),
    ],
)
def test_a_self_file_says_the_same_to_every_reader(text: str, handle: str, repo: str, root: str) -> None:
    told = SelfFile(text.encode())
    assert (told.handle, told.repo, told.root) == (handle, repo, root)
    filed_as = parse_self(text.encode())
    assert filed_as == (self_file.SelfFile(handle, repo, root) if handle else None)


def test_a_fifo_for_a_self_file_is_told_apart_at_once(box: Box, env: dict[str, str]) -> None:
    if sys.platform == "win32":
        pytest.skip("there are no FIFOs")
    path = str(box.folder / "fifo")
    os.mkfifo(path)
    env["SOT_COMM_SELF_FILE"] = path
    why = f"{path} could not be read: it is not a regular file"
    assert why_nobody(env) == why
    assert box.relay("send", "@h", "hi") == failed(f"no sender: {why}{REST}")


@pytest.mark.skipif(sys.platform == "win32", reason="making a link needs a privilege")
def test_a_link_to_a_self_file_is_followed(env: dict[str, str], tmp_path: Path) -> None:
    pin(tmp_path / "there", "me\n")
    link = tmp_path / "link"
    link.symlink_to("there")
    assert identify(None, {**env, "SOT_COMM_SELF_FILE": str(link)}).handle == "me"


def test_the_at_of_a_name_is_no_part_of_it(env: dict[str, str]) -> None:
    assert identify(None, {**env, "SOT_COMM_NAME": "@x"}).handle == "x"
    assert why_nobody({**env, "SOT_COMM_NAME": "@"}) == "the name given is '@', which is no handle"


def test_without_a_sender_the_reason_says_how_to_give_one(env: dict[str, str], tmp_path: Path) -> None:
    path = self_file_path(env)
    assert why_nobody(env) == f"there is no {path}"
    pin(path, "\nrepo=x\n")
    assert why_nobody(env) == f"line 1 of {path} is empty"
    Path(path).write_bytes(b"\xff\n")
    assert why_nobody(env) == f"{path} could not be read: it is not UTF-8"
    env["SOT_COMM_SELF_FILE"] = str(tmp_path)
    assert why_nobody(env) == f"{tmp_path} could not be read: Is a directory"


def test_a_box_without_a_name_has_no_self_file(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    del env["SOT_SELF_HOST"]
    monkeypatch.setattr("topology.names._machine_name", lambda: "")
    assert why_nobody(env) == "the host name '' gives this box no name: set SOT_SELF_HOST to its name"


def test_who_sent_it_reaches_the_daemon(box: Box, env: dict[str, str]) -> None:
    path = str(box.folder / "mine.txt")
    pin(path, f"MyRepo-lab\nrepo={ROOT.name}\n")
    with box.daemon() as daemon:
        assert box.relay("send", "@h", "hi", SOT_COMM_SELF_FILE=path) == filed()
        assert box.relay("send", "@h", "hi", "--from", "other", SOT_COMM_SELF_FILE=path) == filed()
        assert [hello["payload"]["name"] for hello in daemon.hellos] == ["MyRepo-lab", "other"]
        assert [request["payload"]["from"] for request in daemon.requests] == ["MyRepo-lab", "other"]


def test_nobody_sends_nothing(box: Box, env: dict[str, str]) -> None:
    with box.daemon() as daemon:
        why = f"no sender: there is no {box.folder}/.sot-comm/self/boxa__nopane.txt{REST}"
        assert box.relay("send", "@h", "hi") == failed(why)
        assert daemon.hellos == []


def test_a_box_without_a_name_sends_nothing(
    box: Box, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SOT_SELF_HOST", raising=False)
    monkeypatch.setattr("topology.names._machine_name", lambda: "")
    assert comm_relay.main(["send", "@h", "hi", "--from", "me", "--endpoint", "unix:/nowhere"]) == 1
    assert capsys.readouterr().err == (
        "FAILED -> @h: the host name '' gives this box no name: set SOT_SELF_HOST to its name; "
        "nothing was sent\n"
    )


@pytest.mark.parametrize(
    ("env", "row"),
    [
        ({}, None),
        ({"SOT_WORKSPACE_ID": ""}, None),
        ({"SOT_WORKSPACE_ID": "ws-a-1"}, "ws-a-1"),
        ({"SOT_COMM_SELF_FILE": "/c/self/boxa__ws-b-2.txt"}, "ws-b-2"),
        ({"SOT_COMM_SELF_FILE": "/c/self/boxa__ws-b-2.txt", "SOT_WORKSPACE_ID": "ws-a-1"}, "ws-b-2"),
        ({"SOT_COMM_SELF_FILE": "/c/self/boxa__nopane.txt", "SOT_WORKSPACE_ID": "ws-a-1"}, None),
        ({"SOT_COMM_SELF_FILE": "/mine/me.txt", "SOT_WORKSPACE_ID": "ws-a-1"}, None),
    ],
)
def test_a_pinned_self_file_names_the_row_and_an_id_exported_over_it_none(
    env: dict[str, str], row: str | None
) -> None:
    assert carried_row({"SOT_SELF_HOST": "boxa", **env}) == row


@pytest.mark.parametrize(
    ("entry", "carried", "holder"),
    [
        ({"workspace_id": "ws-a-1"}, None, "ws-a-1"),
        ({"workspace_id": "ws-a-1"}, "ws-b-2", "ws-a-1"),
        ({"workspace_id": "ws-a-1"}, "ws-a-1", None),
        ({"workspace_id": ""}, None, None),
        ({"workspace_id": 7}, None, None),
        ({}, "ws-a-1", None),
        (None, None, None),
        ("text", None, None),
    ],
)
def test_an_entry_bound_to_another_row_is_that_rows(
    entry: object, carried: str | None, holder: str | None
) -> None:
    assert held_by_another(entry, carried) == holder


def test_who_may_not_read_is_told_both_rows() -> None:
    told = "@h belongs to row ws-a-1; this process carries no row id, so it is not this row's inbox"
    assert not_this_rows("h", "ws-a-1", None) == told
    assert "this process carries ws-b-2," in not_this_rows("h", "ws-a-1", "ws-b-2")


@pytest.mark.parametrize(
    ("facts", "claim"),
    [
        ("", None),
        ("repo=other\nroot={root}\n", None),
        ("repo=app\nroot=/elsewhere\n", "claimed for root=/elsewhere, and this is {root}"),
        ("repo=app\n", None),
        ("repo=other\n", "claimed for repo=other, and this is app"),
        ("root=\nrepo=\n", None),
    ],
)
def test_a_self_file_is_judged_by_its_root_and_an_older_one_by_its_repo(
    env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, facts: str, claim: str | None
) -> None:
    root = tmp_path.resolve() / "app"
    (root / ".git").mkdir(parents=True)
    (root / "deep").mkdir()
    monkeypatch.chdir(root / "deep")
    path = self_file_path(env)
    pin(path, "me\n" + facts.format(root=root))
    if claim is None:
        assert identify(None, env).handle == "me"
    else:
        assert why_nobody(env) == f"{path} names @me, {claim.format(root=root)}"
    assert identify("given", env).handle == "given"


HERE = Project("/src/app", "app")
OTHER_PROJECT = (
    "your identity @me is registered for another project (/src/x), and this is /src/app; "
    "reclaim it with comm-join --name me"
)


@pytest.mark.parametrize(
    ("agents", "carried", "why"),
    [
        ({}, None, "your identity @me has no registry row; reclaim it with comm-join --name me"),
        ({"me": {"root": "/src/app"}}, None, None),
        ({"me": {"root": ""}}, None, None),
        ({"me": {}}, "ws-a-1", None),
        ({"me": "no object"}, None, None),
        ({"me": {"root": "/src/x"}}, None, OTHER_PROJECT),
        ({"me": {"root": "/src/x", "workspace_id": "ws-a-1"}}, "ws-a-1", OTHER_PROJECT),
        ({"me": {"root": "/src/app", "workspace_id": "ws-a-1"}}, "ws-a-1", None),
        (
            {"me": {"root": "/src/app", "workspace_id": "ws-a-1"}},
            None,
            "@me belongs to row ws-a-1; this process carries no row id, so it is not this row's inbox",
        ),
    ],
)
def test_who_may_act_as_a_handle(agents: dict[str, object], carried: str | None, why: str | None) -> None:
    assert not_its_own("me", agents, HERE, carried) == why
