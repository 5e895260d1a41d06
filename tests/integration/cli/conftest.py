"""The command line as people use it: the real program in a process of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from milepost import Store, TaskScope, connect
from tests.support.forked import PROGRAM as MILEPOST
from tests.support.forked import Forked

PROGRAM = [MILEPOST]
ONE = ("d", "r", "t")
"""The task instance that most tests work on, as arguments."""


class Result(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as JSON: nothing else may be there."""
        return json.loads(self.out)


class Cli:
    """Runs commands on one store and insists on the exit code and on a clean standard error.

    Args:
        home: ``MILEPOST_HOME``; it is the current folder of the commands, too.
        forked: Where their processes come from.
    """

    def __init__(self, home: Path, forked: Forked) -> None:
        self.home = home
        self._forked = forked
        self.file = home / "milepost.db"
        self.url = f"sqlite:///{self.file}"
        hidden = ("MILEPOST", "PYTHON", "XDG_", "COV_", "AIRFLOW")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        self.environment |= {
            "MILEPOST_HOME": str(home),
            "AIRFLOW_HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
            "PYTHONWARNINGS": "error",
            "TZ": "UTC",
        }

    def raw(self, *args: str | bytes, given: bytes = b"", env: dict[str, str] | None = None) -> tuple[int, bytes, bytes]:
        """Run a command and return what it left, as bytes."""
        code, out, err = self._forked.run(
            args, given=given, environment={**self.environment, **(env or {})}, folder=self.home, timeout=60
        )
        assert b"Traceback" not in err + out, err.decode(errors="replace")
        return code, out, err

    def __call__(
        self, *args: str | bytes, code: int = 0, given: str | bytes = b"", env: dict[str, str] | None = None
    ) -> Result:
        """Run a command.

        Args:
            *args: Its arguments.
            code: The exit code that it must have. With 0 it says nothing on standard error; with another, one line.
            given: Its standard input.
            env: Further environment variables.
        """
        got, out, err = self.raw(*args, given=given.encode() if isinstance(given, str) else given, env=env)
        result = Result(got, out.decode(), err.decode())
        assert result.code == code, f"exit {got}, expected {code}: {result.err}{result.out}"
        if code == 0:
            assert result.err == ""
        else:
            assert result.err.startswith("milepost: ")
            assert result.err.count("\n") == 1
        return result


@pytest.fixture
def cli(tmp_path: Path, forked: Forked) -> Cli:
    """The command line on a store of its own."""
    home = tmp_path / "home"
    home.mkdir()
    return Cli(home, forked)


@pytest.fixture
def store(cli: Cli) -> Iterator[Store]:
    """The same store, opened in this process."""
    with connect(cli.url) as opened:
        yield opened


@pytest.fixture
def task(store: Store) -> Any:
    """The unfenced accessor of `ONE`, which is recorded."""
    accessor = store.task_store(TaskScope(*ONE))
    accessor.set("seed", 0)
    accessor.delete("seed")
    return accessor
