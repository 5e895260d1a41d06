"""Fixtures of the tests of `milepost watch`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.watch.helpers import Watching


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[Watching]:
    """Return a folder with a store and a DAG file that watches for files; nothing it starts outlives the test."""
    made = Watching(tmp_path)
    made.write()
    yield made
    made.stop()
