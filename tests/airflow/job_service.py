"""A service that stands in for those to which providers submit jobs, a process of its own: Livy, Databricks, Glue, Spark.

Usage: python job_service.py; prints its port. POST /script sets which states the jobs go through, by service and number
(``glue/1``), and begins to count anew; GET /script tells the counts. The words for states are Livy's. A poll of a job that
is ``lost`` fails.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

DATABRICKS = {
    "running": {"life_cycle_state": "RUNNING", "state_message": ""},
    "success": {"life_cycle_state": "TERMINATED", "result_state": "SUCCESS", "state_message": ""},
    "dead": {"life_cycle_state": "TERMINATED", "result_state": "FAILED", "state_message": "dead"},
}
GLUE = {"running": "RUNNING", "success": "SUCCEEDED", "dead": "FAILED"}
SPARK = {"running": "RUNNING", "success": "FINISHED", "dead": "FAILED", "lost": "UNKNOWN"}

RUN_NOW = 1000
"""Added to the numbers of Databricks's runs of jobs that exist, which are a service of their own here."""


class Service(ThreadingHTTPServer):
    """Counts submissions; `script` says what each poll of each job answers."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.gate = threading.Lock()
        self.begin({})

    def begin(self, script: dict[str, list[Any]]) -> None:
        """Count anew."""
        self.submitted: Counter[str] = Counter()
        self.polls: Counter[str] = Counter()
        self.script = script

    def submit(self, service: str) -> int:
        """Return the number of a new job."""
        with self.gate:
            self.submitted[service] += 1
            return self.submitted[service]

    def state(self, service: str, number: str) -> str:
        """Return the next state of a job, of which the last one stays."""
        with self.gate:
            self.polls[service] += 1
            states = self.script.get(f"{service}/{number}", ["success"])
            state: str = states.pop(0) if len(states) > 1 else states[0]
            return state


class Handler(BaseHTTPRequestHandler):
    """The routes that the operators use, and `/script`, which tells it what to answer and what it counted."""

    server: Service

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def answer(self, body: Any, status: int = 200, *, indent: int | None = None) -> None:
        """Send JSON."""
        data = json.dumps(body, indent=indent, separators=(",", " : ") if indent else None).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self) -> None:
        """Submit a job, or set the script."""
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
        if self.path == "/script":
            with self.server.gate:
                self.server.begin(body)
            self.answer({})
        elif target := self.headers.get("X-Amz-Target"):
            self.glue(target.partition(".")[2], body)
        elif self.path.endswith("/jobs/runs/submit"):
            self.answer({"run_id": self.server.submit("databricks")})
        elif self.path.endswith("/jobs/run-now"):
            self.answer({"run_id": RUN_NOW + self.server.submit("databricks_now")})
        elif self.path == "/v1/submissions/create":
            self.answer({"submissionId": f"driver-{self.server.submit('spark')}"})
        else:
            number = self.server.submit("livy")
            self.answer({"id": number, "state": "running", "appId": f"app-{number}"})

    def do_GET(self) -> None:
        """Say how a job stands; 500 for `lost`."""
        if self.path == "/script":
            self.answer({"submitted": self.server.submitted, "polls": self.server.polls})
            return
        url = urlsplit(self.path)
        parts = url.path.strip("/").split("/")
        if url.path.endswith("/jobs/runs/get"):
            self.databricks(int(parse_qs(url.query)["run_id"][0]))
        elif url.path.startswith("/v1/submissions/status/"):
            state = self.server.state("spark", parts[-1].removeprefix("driver-"))
            body = {"driverState": SPARK[state], "submissionId": parts[-1], "success": True}
            self.answer(body, indent=2)  # by lines, of which the provider reads one
        elif parts[-1] == "log":
            self.answer({"id": int(parts[1]), "from": 0, "total": 0, "log": []})
        elif parts[-1] == "state":
            state = self.server.state("livy", parts[1])
            body = {"error": "lost"} if state == "lost" else {"id": int(parts[1]), "state": state}
            self.answer(body, 500 if state == "lost" else 200)
        else:
            with self.server.gate:
                state = self.server.script.get(f"livy/{parts[1]}", ["success"])[0]
            self.answer({"id": int(parts[1]), "state": state, "appId": f"app-{parts[1]}"})

    def databricks(self, run: int) -> None:
        """Answer as Databricks does."""
        service, number = ("databricks_now", run - RUN_NOW) if run > RUN_NOW else ("databricks", run)
        state = self.server.state(service, str(number))
        page = f"http://{self.headers['Host']}/runs/{run}"
        body = {"run_id": run, "job_id": 1, "run_page_url": page, "state": DATABRICKS.get(state)}
        self.answer({"error": "lost"} if state == "lost" else body, 500 if state == "lost" else 200)

    def glue(self, action: str, body: Any) -> None:
        """Answer as Glue does; its client asks again by itself, but for errors of the one who asks."""
        if action == "StartJobRun":
            self.answer({"JobRunId": f"jr_{self.server.submit('glue')}"})
        elif action == "GetJobRun":
            state = self.server.state("glue", body["RunId"].removeprefix("jr_"))
            run = {"JobRun": {"Id": body["RunId"], "JobRunState": GLUE.get(state)}}
            self.answer({"__type": "InvalidInputException"} if state == "lost" else run, 400 if state == "lost" else 200)
        else:
            self.answer({"Job": {"Name": "job"}, "JobRuns": []})


if __name__ == "__main__":
    service = Service()
    print(service.server_address[1], flush=True)
    sys.stdin.close()
    service.serve_forever()
