"""What the runner's tests share: a folder with DAG files and a store, the command line, waits with a deadline."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import milepost
from milepost import InstanceRecord, Store, TaskScope
from milepost.runner import results
from tests.support.forked import Forked

__all__ = ["DEADLINE", "Outcome", "Project", "alive", "wait_until"]

DEADLINE = 60.0
"""Seconds after which a wait counts as a hang; no test depends on how soon it ends."""

SHORT_HOLD = "import milepost.runner.holder as holder; holder.HOLD_SECONDS = {}; from milepost.cli.app import main; main()"

HEAD = "import json, os, signal, sys, time\nfrom milepost.sdk import *\n"


def wait_until(true: Callable[[], Any], what: str) -> Any:
    """Poll until a condition holds and return what it returned; fail, naming it, when it does not come true."""
    deadline = time.monotonic() + DEADLINE
    while not (found := true()):
        assert time.monotonic() < deadline, f"waited {DEADLINE:.0f} s in vain: {what}"
        time.sleep(0.005)
    return found


def alive(pid: int) -> bool:
    """Tell whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str


class Project:
    """A folder with DAG files and a store.

    Args:
        folder: The folder.
        forked: Where the processes of commands come from that are only waited for.
    """

    def __init__(self, folder: Path, forked: Forked) -> None:
        self.folder = folder
        self._forked = forked
        self.url = f"sqlite:///{folder / 'store.db'}"
        self.environment = os.environ | {
            "MILEPOST__STATE_STORE__URL": self.url,
            "MILEPOST_CONFIG": str(folder / "milepost.cfg"),
            # In attempts too: a warning that nobody sees is no failure.
            "PYTHONWARNINGS": "error",
        }
        (folder / "milepost.cfg").write_text("")
        self._started: list[subprocess.Popen[str]] = []

    def write(self, text: str, name: str = "pipeline.py") -> Path:
        """Write a DAG file; the usual imports are put in front."""
        path = self.folder / name
        path.write_text(HEAD + text)
        return path

    def start(
        self, *args: str, name: str = "pipeline.py", run_id: str | None = "r1", hold: float | None = None
    ) -> subprocess.Popen[str]:
        """Start ``milepost run``; ``hold``: with a hold on its run that lasts so many seconds."""
        named = [] if run_id is None else ["--run-id", run_id]
        program = ["-m", "milepost"] if hold is None else ["-c", SHORT_HOLD.format(hold)]
        process = subprocess.Popen(
            [sys.executable, *program, "run", name, *named, *args],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def finish(self, process: subprocess.Popen[str]) -> Outcome:
        """Wait for the end of a command."""
        out, err = process.communicate(timeout=DEADLINE)
        return Outcome(process.returncode, out, err)

    def run(self, *args: str, name: str = "pipeline.py", run_id: str | None = "r1") -> Outcome:
        """Run ``milepost run`` to its end."""
        named = [] if run_id is None else ["--run-id", run_id]
        return self.command("run", name, *named, *args)

    def command(self, *args: str) -> Outcome:
        """Run a command to its end."""
        code, out, err = self._forked.run(args, environment=self.environment, folder=self.folder, timeout=DEADLINE)
        return Outcome(code, out.decode(), err.decode())

    def stop(self) -> None:
        """Kill what still runs."""
        for process in self._started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=DEADLINE)

    def store(self) -> Store:
        """Open the store; close it."""
        return milepost.connect(self.url)

    def scope(self, task_id: str, map_index: int = -1, run_id: str = "r1") -> TaskScope:
        """Name a task instance of the DAG ``d``."""
        return TaskScope("d", run_id, task_id, map_index)

    def record(self, task_id: str, map_index: int = -1, run_id: str = "r1") -> InstanceRecord | None:
        """Return what is recorded of a task instance."""
        with self.store() as store:
            return store.instances.get(self.scope(task_id, map_index, run_id))

    def state(self, task_id: str, map_index: int = -1, run_id: str = "r1") -> tuple[str, int] | None:
        """Return state and attempt of a task instance, `None` if it is not recorded."""
        record = self.record(task_id, map_index, run_id)
        return None if record is None else (record.state, record.attempt)

    def keys(self, task_id: str, map_index: int = -1, run_id: str = "r1") -> dict[str, Any]:
        """Return the keys of a task instance with their values."""
        with self.store() as store:
            return dict(store.task_store(self.scope(task_id, map_index, run_id)).items())

    def result(self, task_id: str, map_index: int = -1, run_id: str = "r1") -> Any:
        """Return what a task instance returned."""
        with self.store() as store:
            text = store.runs.get_result(self.scope(task_id, map_index, run_id))
        return None if text is None else results.decode(text)

    def wait_for_key(self, key: str, task_id: str, map_index: int = -1) -> Any:
        """Wait until a task has set a key, and return its value."""
        with self.store() as store:
            accessor = store.task_store(self.scope(task_id, map_index))
            return wait_until(lambda: accessor.get(key), f"{task_id} sets {key}")

    def lines(self, name: str) -> list[Any]:
        """Return what tasks appended to a file, one JSON value a line."""
        path = self.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
