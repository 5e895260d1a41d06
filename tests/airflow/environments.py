"""Make environments with Airflow for the tests. Usage: python -m tests.airflow.environments VERSION [VERSION ...].

Each gets the dependencies of the month in which that version was current: later ones break it. Milepost itself is installed
editable, so an environment stays good while Milepost changes.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

__all__ = ["DEPLOYED", "FOLDER", "RELEASES", "python_of"]

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("MILEPOST_AIRFLOW_ENVIRONMENTS") or ROOT / ".airflow")

RELEASES = {
    "2.9.3": "2024-07-31",
    "2.10.5": "2025-02-28",
    "2.11.2": "2026-03-31",
    "3.0.6": "2025-08-31",
    "3.1.8": "2026-03-31",
    "3.2.2": "2026-06-30",
    "3.3.2": "2026-09-30",
}
"""The versions that are tested, and until when their dependencies may have been released."""

DEPLOYED = ("2.11.2", "3.2.2")
"""The versions of which there are deployments: with Celery over Redis, and PostgreSQL."""

_PROVIDERS = (
    "apache-airflow-providers-apache-livy==4.6.4",
    "apache-airflow-providers-common-sql>=2.4",
    "boto3==1.43.123",
    "mergedeep==1.3.4",
)
_BARE = (
    "apache-airflow-providers-amazon==9.39.0",
    "apache-airflow-providers-apache-spark==6.3.4",
    "apache-airflow-providers-databricks==7.23.0",
)
"""Providers of today, whose operators ask for `ResumableJobMixin`. They need Airflow 2.11. Of some, only what submits jobs
is installed, without what the rest of them depends on."""
_PROVIDERS_UNTIL = "2026-11-01"


def python_of(version: str) -> Path:
    """Return the Python of the environment of a version."""
    return FOLDER / version / "bin" / "python"


def _wanted(version: str) -> list[list[str]]:
    standard = [] if version.startswith("2.") else ["apache-airflow-providers-standard"]
    extras = "[celery,postgres,redis]" if version in DEPLOYED else ""
    steps = [["--exclude-newer", RELEASES[version], f"apache-airflow{extras}=={version}", *standard]]
    if tuple(map(int, version.split(".")[:2])) >= (2, 11):
        steps.append(["--exclude-newer", _PROVIDERS_UNTIL, f"apache-airflow=={version}", *_PROVIDERS])
        steps.append(["--exclude-newer", _PROVIDERS_UNTIL, "--no-deps", *_BARE])
    steps.append(["--editable", f"{ROOT}[postgres]" if version in DEPLOYED else str(ROOT)])
    return steps


def make(version: str) -> None:
    """Make the environment of a version, unless it is there."""
    steps = _wanted(version)
    metadata = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    state = hashlib.sha256(repr((steps, metadata)).encode()).hexdigest()
    mark = FOLDER / version / "made"
    if mark.is_file() and mark.read_text(encoding="utf-8") == state:
        return
    print(f"making an environment with Airflow {version}", flush=True)
    subprocess.run(["uv", "venv", "--quiet", "--clear", "--python", ">=3.10,<3.13", FOLDER / version], check=True)
    for step in steps:
        subprocess.run(["uv", "pip", "install", "--quiet", "--python", python_of(version), *step], check=True)
    mark.write_text(state, encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        make(name)
