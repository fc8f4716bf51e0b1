"""A session's project and its box's raw name: what a handle is derived of (PROTOCOL Naming)."""

import os
import sys

_GIT = ".git"  # a folder, or in a worktree a file


class Project:
    """`root` is canonical: absolute, with no link in it. `repo` is its folder's name.

    By hand, since every send by a self file makes one, and `filing.value` costs start-up time.
    """

    __slots__ = ("repo", "root")
    __hash__ = None  # type: ignore[assignment]  # compared, never a key

    def __init__(self, root: str, repo: str) -> None:
        self.root = root
        self.repo = repo

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Project) and (self.root, self.repo) == (other.root, other.repo)


def project_here() -> Project:
    """Return the project of the working folder. Raises OSError where that folder is gone."""
    return project_of(os.getcwd())  # noqa: PTH109  # pathlib costs start-up time


def project_of(folder: str) -> Project:
    """Return the nearest checkout at or above `folder`; where there is none, `folder` is its own project."""
    start = os.path.realpath(folder)
    root = start
    while not os.path.lexists(os.path.join(root, _GIT)):  # noqa: PTH118  # as above
        above = os.path.dirname(root)  # noqa: PTH120
        if above == root:
            root = start
            break
        root = above
    return Project(root, os.path.basename(root) or root)  # noqa: PTH119


def raw_host() -> str:
    """Return the first label of the machine's host name with its case kept, "" where it has none.

    The part of a derived handle only; the registry's host is the declared one (`topology.names.self_host`).
    """
    if sys.platform == "win32":
        import socket

        name = socket.gethostname()
    else:
        name = os.uname().nodename
    return name.strip().partition(".")[0]
