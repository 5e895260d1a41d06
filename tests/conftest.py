"""What every test shares: a clean environment, the rule for missing tools, Hypothesis profiles."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import settings

from tests.support.forked import forked
from tests.support.servers import databases, many_connections
from tests.support.serving import served

__all__ = ["Require", "databases", "forked", "many_connections", "require", "served"]

# Files of tests live in memory where there is room: what a sync costs on somebody's disk is no rule that a test checks.
_MEMORY, _ROOM = Path("/dev/shm"), 4 << 30
if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM:
    os.environ.setdefault("TMPDIR", str(_MEMORY))
    tempfile.tempdir = None  # pytest has asked for it already

IN_CI = os.environ.get("CI", "").lower() == "true"

# "ci" draws the same examples in every run. No deadline in either: a busy machine is no failure.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("laptop", deadline=None)
settings.load_profile("ci" if IN_CI else "laptop")


# Where tests run in the background (`nohup … &`), these are ignored, and so they would be by the programs under test.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


class Require(Protocol):
    """The type of the `require` fixture."""

    def __call__(self, what: str, present: bool | None = None) -> None:
        """Stop the test unless `what` is there.

        Args:
            what: A program's name, or what a person should install or start.
            present: Whether it is there; `None` looks for a program of that name on PATH.
        """


def _require(what: str, present: bool | None = None) -> None:
    if present is None:
        present = shutil.which(what) is not None
    if present:
        return
    reason = f"{what} is missing"
    if IN_CI:
        pytest.fail(f"{reason}, and CI must have it", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def require() -> Require:
    """Return the check for a tool or service: a missing one skips the test on a laptop and fails it in CI."""
    return _require


@pytest.fixture(autouse=True)
def _no_milepost_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the variables of the person who runs the tests: MILEPOST*, and those with options inside Airflow."""
    for name in list(os.environ):
        if name.startswith(("MILEPOST", "AIRFLOW__MILEPOST")):
            monkeypatch.delenv(name)
