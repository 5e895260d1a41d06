"""``milepost serve`` as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.support.private import free_port
from tests.support.servers import wait_until
from tests.support.serving import SECRET

__all__ = ["ServeProcess"]


class ServeProcess:
    """A server on a port that stays the same when it is started again.

    Args:
        store: The URL of the store.
        folder: Its home.
        *arguments: More arguments of ``milepost serve``.
    """

    def __init__(self, store: str, folder: Path, *arguments: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._command = [sys.executable, "-m", "milepost", "serve", "--port", str(self.port), "--url", store, *arguments]
        self._environment = os.environ | {
            "MILEPOST_HOME": str(folder),
            "MILEPOST__SERVER__SECRET": SECRET,
            "PYTHONWARNINGS": "error",
        }
        self.lines: list[str] = []
        self.process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.process = subprocess.Popen(
            self._command,
            env=self._environment,
            cwd=self._environment["MILEPOST_HOME"],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        threading.Thread(target=self._read, args=(self.process,), daemon=True).start()
        wait_until(self._answers, "the server does not answer")

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        with process.stderr as stream:
            self.lines.extend(stream)

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, "".join(self.lines[-20:])
        try:
            return self.get("/health")[0] == 200
        except OSError:
            return False

    def get(self, path: str) -> tuple[int, str]:
        """Make a request without a credential."""
        import http.client

        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def logs(self) -> list[dict[str, Any]]:
        """Return its log."""
        return [json.loads(line) for line in self.lines]

    def end(self, number: int = signal.SIGTERM) -> int:
        """End it, and all of its processes where it is killed; return the exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            if number == signal.SIGKILL:
                os.killpg(self.process.pid, number)
            else:
                self.process.send_signal(number)
        return self.process.wait(60)
