"""Fixtures of the fault tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fault.helpers import Child, children


@pytest.fixture
def start() -> Iterator[Callable[..., Child]]:
    """Return a function that starts child programs; those that still run after the test are killed."""
    with children() as function:
        yield function


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the name of a store that is not there yet, in a folder that is."""
    return tmp_path / "store.db"
