"""The job server of the examples in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

__all__ = ["JobServer"]

PROGRAM = Path(__file__).parents[2] / "examples" / "job_server.py"


class JobServer:
    """A service that runs jobs, keeps them in a database of its own and can be killed and started again.

    Args:
        folder: Where its database is.
        forgetful: Whether every request makes a job, whatever its token.
    """

    def __init__(self, folder: Path, *, forgetful: bool = False) -> None:
        self._command = [sys.executable, "-W", "error", str(PROGRAM), str(folder / "jobs.db")]
        self._command += ["--forgetful"] if forgetful else []
        self.port = 0
        self.start()

    def start(self) -> None:
        """Start it, on the port that it had before."""
        self.process = subprocess.Popen([*self._command, "--port", str(self.port)], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().split()[-1])

    def kill(self) -> None:
        """Kill it."""
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str, body: Any = None) -> Any:
        """Ask it."""
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{self.url}{path}", data), timeout=30) as answer:
            return json.load(answer)

    def jobs(self) -> list[dict[str, Any]]:
        """Return all jobs that were ever submitted."""
        return self.ask("/jobs")  # type: ignore[no-any-return]
