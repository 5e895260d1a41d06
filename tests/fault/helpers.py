"""What the fault tests share: child programs, waits with a deadline, and the scopes that both sides name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from milepost import TaskScope

__all__ = ["PROGRAMS", "SCOPE", "Child", "children", "results", "url", "wait_until"]

PROGRAMS = Path(__file__).parent / "programs"
SCOPE = TaskScope("d", "r", "t", -1)
DEADLINE = 60.0
"""Seconds after which a wait counts as a hang; no test depends on how soon it ends."""


def url(path: Path) -> str:
    """Return the URL of a SQLite file."""
    return f"sqlite:///{path}"


def wait_until(true: Callable[[], bool], what: str, seconds: float = DEADLINE) -> None:
    """Poll until a condition holds; fail, naming it, when it does not come true in time."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s in vain: {what}"
        time.sleep(0.002)


class Child:
    """A program of ours in a process of its own, with pipes for lines of text.

    Args:
        program: Its name in the folder ``programs``.
        *args: Its arguments.
        prefix: What to put before the command, such as a tracer.
    """

    def __init__(self, program: str, *args: object, prefix: tuple[str, ...] = ()) -> None:
        command = [*prefix, sys.executable, "-W", "error", str(PROGRAMS / f"{program}.py"), *map(str, args)]
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  (closed by `_reap`)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            bufsize=1,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self.process.pid

    def line(self) -> str:
        """Return the next line that the program prints."""
        line = self.process.stdout.readline()
        if not line.endswith("\n"):
            self._reap()
            raise AssertionError(f"{self.process.args} ended early, exit {self.process.returncode}: {self.errors}")
        return line.rstrip("\n")

    def expect(self, said: str) -> None:
        """Read a line and insist on it."""
        assert (line := self.line()) == said, f"expected {said!r}, got {line!r}"

    def say(self, line: str) -> None:
        """Send a line to the program."""
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def kill(self) -> list[str]:
        """Kill it and its own children with SIGKILL and return the whole lines that it had printed and nobody read."""
        if self.process.returncode is None:
            os.killpg(self.pid, signal.SIGKILL)
        return self._reap()

    def finish(self) -> list[str]:
        """Wait for its end, insist on success without a word on stderr, and return the lines nobody read."""
        self.process.stdin.close()
        lines = self._reap()
        assert (self.process.returncode, self.errors) == (0, ""), f"exit {self.process.returncode}: {self.errors}"
        return lines

    def _reap(self) -> list[str]:
        if self.process.stdout.closed:
            return []
        rest = self.process.stdout.read()  # ends when the program does; pytest's time-out bounds it
        self.process.wait(timeout=DEADLINE)
        self.process.stdout.close()
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        self._errors.seek(0)
        self.errors = self._errors.read()
        self._errors.close()
        return [line[:-1] for line in rest.splitlines(keepends=True) if line.endswith("\n")]


@contextmanager
def children() -> Iterator[Callable[..., Child]]:
    """Give a function that starts children; those that still run at the end are killed."""
    started: list[Child] = []

    def start(program: str, *args: object, prefix: tuple[str, ...] = ()) -> Child:
        started.append(Child(program, *args, prefix=prefix))
        return started[-1]

    try:
        yield start
    finally:
        for child in started:
            child.kill()


def results(program: str, *args: object) -> list[str]:
    """Run a program to its end and return the lines that it printed."""
    with children() as start:
        return start(program, *args).finish()
