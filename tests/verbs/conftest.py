import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.verbs.book import Book
from tests.verbs.mail import Mail
from tests.verbs.support import Box


@pytest.fixture
def box() -> Iterator[Box]:
    # Not tmp_path: a socket's path has room for some hundred bytes.
    folder = Path(tempfile.mkdtemp(prefix="sot-"))
    yield Box(folder)
    shutil.rmtree(folder)


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book(tmp_path)


@pytest.fixture
def mail() -> Iterator[Mail]:
    folder = Path(tempfile.mkdtemp(prefix="sot-")).resolve()  # short, as above
    yield Mail(folder)
    shutil.rmtree(folder)
