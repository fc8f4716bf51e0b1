"""The arrows between the rooms point one way (ARCHITECTURE.md)."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
MAY_IMPORT = {
    "topology": set(),
    "wire": set(),
    "filing": {"topology"},
    "hub": {"topology", "wire", "filing"},
    "link": {"topology", "wire", "filing"},
    "verbs": {"topology", "wire", "filing"},
    "deploy": {"topology", "wire", "filing", "hub", "link", "verbs"},
}
FILES = [(room, path) for room in MAY_IMPORT for path in sorted((ROOT / room).rglob("*.py"))]


def imported_rooms(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            names = [node.module or ""]
        else:
            continue
        for name in names:
            if (top := name.partition(".")[0]) in MAY_IMPORT or top == "tests":
                yield node.lineno, top


def test_every_room_is_looked_at() -> None:
    rooms = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    assert rooms == set(MAY_IMPORT)
    assert len(FILES) > len(MAY_IMPORT)


@pytest.mark.parametrize(
    ("room", "path"), FILES, ids=lambda value: value if isinstance(value, str) else value.stem
)
def test_a_room_imports_only_what_its_arrows_allow(room: str, path: Path) -> None:
    for line, imported in imported_rooms(path):
        assert imported == room or imported in MAY_IMPORT[room], (
            f"{path.relative_to(ROOT)}:{line}: {room} may not import {imported}"
        )
