"""Running examples as a person would: on the command line, in an empty folder, with a store of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import milepost

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


class Shell:
    """A folder with a store in it.

    Args:
        folder: The folder; programs run there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder / 'state.db'}"
        self.environment = os.environ | {"MILEPOST__STATE_STORE__URL": self.url}

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """Start Python with these arguments."""
        command = [sys.executable, *map(str, arguments)]
        return subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, text=True)

    def python(self, *arguments: str | Path) -> list[str]:
        """Run Python with these arguments to a good end and return the lines that it printed."""
        process = self.start(*arguments)
        printed, _ = process.communicate(timeout=100)
        assert process.returncode == 0
        return printed.splitlines()

    def run(self, name: str, run_id: str, *options: str) -> list[str]:
        """Run a DAG file of the examples and return the lines that it printed, without the names of tasks in front."""
        printed = self.python("-m", "milepost", "run", EXAMPLES / name, "--run-id", run_id, *options)
        return [re.sub(r"^\[\w+(\[\d+\])?\] ", "", line) for line in printed]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """An empty folder with an empty store."""
    return Shell(tmp_path)


@pytest.fixture
def store(shell: Shell) -> Iterator[milepost.Store]:
    """The store that the examples work with."""
    with milepost.connect(shell.url) as opened:
        yield opened
