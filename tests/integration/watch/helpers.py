"""What the tests of `milepost watch` share: a folder with a DAG file, a store, and the command at work."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import milepost
from milepost import RunRecord
from tests.integration.runner.helpers import DEADLINE, Outcome, wait_until

__all__ = ["FILES", "Watching"]

CRASHING = Path(__file__).with_name("crashing.py")

FILES = """\
import asyncio, json, os, pathlib, signal, sys, time
from milepost.sdk import *

HERE = pathlib.Path(__file__).parent

def append(name, value):
    with open(HERE / name, "a") as file:
        file.write(json.dumps(value) + "\\n")

class Files(BaseEventTrigger):
    async def run(self):
        while True:
            for path in sorted((HERE / "in").iterdir()):
                if not await self.asset_store.aget(f"seen/{path.name}"):
                    yield TriggerEvent(path.name)
                    await self.asset_store.aset(f"seen/{path.name}", True)
            await asyncio.sleep(0.05)

files = Asset("files", uri="file:///in", watchers=[AssetWatcher("arrivals", Files())])

with DAG("load", schedule=[files]):
    @task
    def note(params=None, dag_run=None):
        append("done.txt", [params["event"]["payload"], dag_run.run_type, dag_run.conf == params])
    note()
"""
"""A DAG that notes each file that arrives in the folder ``in``."""


class Watching:
    """A folder with a DAG file and a store, and processes that watch it.

    Args:
        folder: The folder.
        url: The store.
    """

    def __init__(self, folder: Path, url: str | None = None) -> None:
        self.folder = folder
        self.url = url or f"sqlite:///{folder / 'store.db'}"
        (folder / "in").mkdir()
        (folder / "milepost.cfg").write_text("")
        self.environment = os.environ | {
            "MILEPOST__STATE_STORE__URL": self.url,
            "MILEPOST_CONFIG": str(folder / "milepost.cfg"),
            "PYTHONWARNINGS": "error",
        }
        self._started: list[subprocess.Popen[str]] = []

    def write(self, text: str = FILES) -> None:
        """Write the DAG file."""
        (self.folder / "pipeline.py").write_text(text)

    def arrive(self, *names: str) -> None:
        """Put files into the folder that is watched."""
        for name in names:
            (self.folder / "in" / name).touch()

    def start(self, *options: str, crash: str | None = None) -> subprocess.Popen[str]:
        """Start to watch; what it prints goes to files.

        Args:
            options: For `milepost watch`.
            crash: The point at which the process kills itself, once.
        """
        program = ["-m", "milepost"] if crash is None else [str(CRASHING), crash]
        number = len(self._started)
        with (self.folder / f"out{number}").open("w") as out, (self.folder / f"err{number}").open("w") as err:
            process = subprocess.Popen(
                [sys.executable, *program, "watch", "pipeline.py", *options],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                text=True,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def said(self, process: subprocess.Popen[str], stream: str = "err") -> str:
        """Return what a process has printed by now."""
        return (self.folder / f"{stream}{self._started.index(process)}").read_text()

    def wait(self, process: subprocess.Popen[str]) -> Outcome:
        """Wait for the end of a process."""
        code = process.wait(DEADLINE)
        return Outcome(code, self.said(process, "out"), self.said(process))

    def wait_said(self, process: subprocess.Popen[str], text: str) -> None:
        """Wait until a process has said something on its standard error."""
        wait_until(lambda: text in self.said(process) or process.poll() is not None, f"the watch says {text!r}")
        assert text in self.said(process)

    def terminate(self, process: subprocess.Popen[str]) -> Outcome:
        """Tell a process to stop, and wait for its end."""
        process.send_signal(signal.SIGTERM)
        return self.wait(process)

    def kill(self, process: subprocess.Popen[str]) -> None:
        """Kill a process, and nothing but it."""
        process.kill()
        assert process.wait(DEADLINE) == -signal.SIGKILL

    def command(self, *args: str) -> Outcome:
        """Run another command of the command line."""
        done = subprocess.run(
            [sys.executable, "-m", "milepost", *args],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def lines(self, name: str) -> list[Any]:
        """Return what tasks and triggers appended to a file, one JSON value a line."""
        path = self.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def wait_runs(self, true: Callable[[list[RunRecord]], bool], what: str) -> list[RunRecord]:
        """Wait until the recorded runs are as told, and return them in the order of their recording."""
        with milepost.connect(self.url) as store:

            def look() -> list[RunRecord] | None:
                runs = store.runs.list()[::-1]
                if true(runs):
                    return runs
                assert any(one.poll() is None for one in self._started), (
                    f"no watch is at work: {self.said(self._started[-1])}"
                )
                return None

            found: list[RunRecord] = wait_until(look, what)
            return found

    def wait_states(self, *states: str) -> list[RunRecord]:
        """Wait until as many runs are recorded, in these states in any order."""
        wanted = sorted(states)
        return self.wait_runs(lambda runs: sorted(run.state or "-" for run in runs) == wanted, f"runs are {wanted}")

    def stop(self) -> None:
        """Kill what still runs."""
        for process in self._started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(DEADLINE)
