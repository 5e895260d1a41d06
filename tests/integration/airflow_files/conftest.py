"""Airflow's own example files, and a folder to run them in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.runner.helpers import Project
from tests.support.airflow_examples import example_files
from tests.support.forked import Forked

__all__ = ["example_files", "project"]


@pytest.fixture
def project(tmp_path: Path, forked: Forked) -> Iterator[Project]:
    """Return a folder with a store, and the runner to use in it; nothing it starts outlives the test."""
    made = Project(tmp_path, forked)
    yield made
    made.stop()
