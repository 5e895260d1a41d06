"""A service that stands in for Livy and for Databricks, a process of its own: jobs, their states, how many were submitted.

Usage: python job_service.py; prints its port. POST /script sets which states the jobs go through, by their number, and
begins to count anew; GET /script tells the counts.
"""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

DATABRICKS = {
    "running": {"life_cycle_state": "RUNNING", "state_message": ""},
    "success": {"life_cycle_state": "TERMINATED", "result_state": "SUCCESS", "state_message": ""},
    "dead": {"life_cycle_state": "TERMINATED", "result_state": "FAILED", "state_message": "dead"},
}
"""Livy's words in those of Databricks."""


class Service(ThreadingHTTPServer):
    """Counts submissions; `script` says what each poll of each job answers."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.gate = threading.Lock()
        self.begin({})

    def begin(self, script: dict[str, list[Any]]) -> None:
        """Count anew."""
        self.submitted = 0
        self.polls = 0
        self.script = script

    def state(self, number: str) -> str:
        """Return the next state of a job, of which the last one stays."""
        with self.gate:
            self.polls += 1
            states = self.script.get(number, ["success"])
            state: str = states.pop(0) if len(states) > 1 else states[0]
            return state


class Handler(BaseHTTPRequestHandler):
    """The routes that the operators use, and `/script`, which tells it what to answer and what it counted."""

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

    def do_POST(self) -> None:
        """Submit a job, or set the script."""
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
        with self.server.gate:
            if self.path == "/script":
                self.server.begin(body)
                self.answer({})
                return
            self.server.submitted += 1
            number = self.server.submitted
        if self.path.endswith("/jobs/runs/submit"):
            self.answer({"run_id": number})
        else:
            self.answer({"id": number, "state": "running", "appId": f"app-{number}"})

    def do_GET(self) -> None:
        """Say how a job stands; 500 for `lost`."""
        if self.path == "/script":
            self.answer({"submitted": self.server.submitted, "polls": self.server.polls})
            return
        url = urlsplit(self.path)
        parts = url.path.strip("/").split("/")
        if url.path.endswith("/jobs/runs/get"):
            number = parse_qs(url.query)["run_id"][0]
            state = self.server.state(number)
            page = f"http://{self.headers['Host']}/runs/{number}"
            body = {"run_id": int(number), "job_id": 1, "run_page_url": page, "state": DATABRICKS.get(state)}
            self.answer({"error": "lost"} if state == "lost" else body, 500 if state == "lost" else 200)
        elif parts[-1] == "log":
            self.answer({"id": int(parts[1]), "from": 0, "total": 0, "log": []})
        elif parts[-1] == "state":
            state = self.server.state(parts[1])
            body = {"error": "lost"} if state == "lost" else {"id": int(parts[1]), "state": state}
            self.answer(body, 500 if state == "lost" else 200)
        else:
            with self.server.gate:
                state = self.server.script.get(parts[1], ["success"])[0]
            self.answer({"id": int(parts[1]), "state": state, "appId": f"app-{parts[1]}"})


if __name__ == "__main__":
    service = Service()
    print(service.server_address[1], flush=True)
    sys.stdin.close()
    service.serve_forever()
