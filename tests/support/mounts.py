"""File systems that a test mounts, and what FAT needs to be made and mounted without the kernel's own."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(folder: Path, *arguments: str) -> Iterator[Path]:
    if sys.platform == "linux" and os.geteuid() != 0:
        pytest.skip("only root mounts")
    folder.mkdir()
    made = subprocess.run(["mount", *arguments, str(folder)], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"this kernel or container mounts none: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def fat(folder: Path, image: Path) -> Iterator[Path]:
    """A new FAT in the file `image`: by the kernel where it knows FAT, else by FUSE."""
    if sys.platform != "linux":
        pytest.skip("Linux's mount command")
    image.write_bytes(bytes(16 * 1024 * 1024))
    subprocess.run([found("mkfs.vfat", "dosfstools"), str(image)], check=True, capture_output=True)
    if "\tvfat\n" in Path("/proc/filesystems").read_text():
        with mounted(folder, "-t", "vfat", "-o", "loop", str(image)) as made:
            yield made
        return
    fusefat = found("fusefat", "fusefat, as this kernel knows no vfat")
    folder.mkdir()
    made_by_fuse = subprocess.run(
        [fusefat, "-o", "rw+", str(image), str(folder)], capture_output=True, text=True
    )
    if made_by_fuse.returncode != 0:
        pytest.skip(f"FUSE mounts none here: {made_by_fuse.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def found(tool: str, package: str) -> str:
    path = shutil.which(tool) or shutil.which(tool, path="/sbin:/usr/sbin")
    if path is None:
        pytest.skip(f"{tool} ({package}) is not installed")
    return path
