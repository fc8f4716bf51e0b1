"""What must never be committed: download addresses in requirements, addresses other than loopback."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
IPV4 = re.compile(r"(?<![\w.])(\d{1,3}(?:\.\d{1,3}){3})(?![\w.])")


def committed_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    return [ROOT / name for name in listed.decode().split("\0") if name and (ROOT / name).is_file()]


def test_pinned_versions_carry_no_addresses() -> None:
    for path in (ROOT / "requirements").iterdir():
        for line in path.read_text().splitlines():
            assert line.startswith("-r ") or re.fullmatch(
                r'[\w.-]+==[\w.]+(; sys_platform [!=]= "win32")?', line
            ), line


def test_every_address_is_loopback() -> None:
    for path in committed_files():
        if path.suffix not in {".py", ".md", ".toml", ".sh", ".txt", ""}:
            continue
        for found in IPV4.findall(path.read_text(errors="replace")):
            if all(int(part) < 256 for part in found.split(".")):
                assert found.startswith("127.") or found == "0.0.0.0", f"{path.relative_to(ROOT)}: {found}"
