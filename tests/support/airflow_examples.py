"""Airflow's own example files for its stores, taken from its wheel: no copy of them is kept here."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

__all__ = ["example_files"]

VERSION = "3.3.2"


@pytest.fixture(scope="session")
def example_files(request, require, tmp_path_factory) -> dict[str, bytes]:
    """Return the example files for Airflow's stores by name; the wheel is kept in pytest's cache."""
    folder = request.config.cache.mkdir("airflow-core")
    wheel = folder / f"apache_airflow_core-{VERSION}-py3-none-any.whl"
    if not wheel.exists():
        require(f"apache-airflow-core {VERSION} from the package index", _download(tmp_path_factory.mktemp("wheel"), wheel))
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith("airflow/example_dags/") and "state_store" in name]
        return {Path(name).name: archive.read(name) for name in names}


def _download(folder: Path, wheel: Path) -> bool:
    """Fetch the wheel alone, without what it needs; tell whether that worked."""
    options = ["--no-deps", "--only-binary=:all:", "--ignore-requires-python", "--retries=1", "--timeout=20", "--quiet"]
    command = [sys.executable, "-m", "pip", "download", *options, f"apache-airflow-core=={VERSION}", "--dest", str(folder)]
    try:
        subprocess.run(command, capture_output=True, timeout=90)
    except subprocess.TimeoutExpired:
        return False
    found = folder / wheel.name
    if not found.exists():
        return False
    # At once, since other test processes may be about to do the same.
    staged = wheel.with_name(f"{wheel.name}.{os.getpid()}")
    staged.write_bytes(found.read_bytes())
    staged.replace(wheel)
    return True
