"""A service that stands in for Livy, a process of its own: batches, their states, and how many were submitted.

Usage: python livy_service.py; prints its port. POST /script sets which states the batches go through, by their number.
"""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Service(ThreadingHTTPServer):
    """Counts submissions; `script` says what each poll of each batch answers."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.gate = threading.Lock()
        self.batches: list[int] = []
        self.polls = 0
        self.script: dict[str, list[Any]] = {}


class Handler(BaseHTTPRequestHandler):
    """The routes of Livy that the operator uses, and `/script`, which tells it what to answer and what it counted."""

    server: Service

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def answer(self, body: Any, status: int = 200) -> None:
        """Send JSON."""
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def body(self) -> Any:
        """Read JSON."""
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")

    def do_POST(self) -> None:
        """Submit a batch, or set the script."""
        body = self.body()
        with self.server.gate:
            if self.path == "/script":
                self.server.batches, self.server.polls, self.server.script = [], 0, body
                self.answer({})
                return
            number = len(self.server.batches) + 1
            self.server.batches.append(number)
            self.answer({"id": number, "state": "running", "appId": f"app-{number}"})

    def do_GET(self) -> None:
        """Say how a batch stands: its next state, of which the last one stays; 500 for `lost`."""
        if self.path == "/script":
            self.answer({"submitted": len(self.server.batches), "polls": self.server.polls})
            return
        parts = self.path.strip("/").split("/")
        if parts[-1] == "log":
            self.answer({"id": int(parts[1]), "from": 0, "total": 0, "log": []})
            return
        with self.server.gate:
            self.server.polls += 1
            states = self.server.script.get(parts[1], ["success"])
            state = states.pop(0) if len(states) > 1 and parts[-1] == "state" else states[0]
        if state == "lost":
            self.answer({"error": "lost"}, 500)
        else:
            self.answer({"id": int(parts[1]), "state": state, "appId": f"app-{parts[1]}"})


if __name__ == "__main__":
    service = Service()
    print(service.server_address[1], flush=True)
    sys.stdin.close()
    service.serve_forever()
