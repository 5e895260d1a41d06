"""A small service that runs jobs, to try out what happens when requests and answers get lost.

It listens on the loopback address and keeps its jobs in an SQLite file of its own, so that it can be stopped and
started again. A job is a number of rows that take a moment each; the time that has passed says how many are done.

    python examples/job_server.py jobs.db --port 8123

    POST /jobs {"token": …, "rows": n}     {"id": …}; a token that is known leads to its job, unless --forgetful
    GET /jobs?token=…                      the jobs with that token
    GET /jobs/ID                           {"state": "running", "finished" or "failed", "rows": n, "done": m}, or 404
    POST /jobs/ID/STATE                    make it finished, failed or removed
    POST /faults {"lose": …, "times": n}   lose the next submissions ("request") or the answers to them ("answer")

It prints the port once it listens, and one line for each job.
"""

import argparse
import json
import sqlite3
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

ROWS_PER_SECOND = 20_000


class Jobs:
    """The jobs of the service."""

    def __init__(self, path: str, forgetful: bool) -> None:
        self.forgetful = forgetful
        self.lock = threading.Lock()
        self.lose: list[str] = []
        self.database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self.database.execute(
            "CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY, token TEXT, rows INTEGER, started REAL, state TEXT)"
        )

    def submit(self, token: str | None, rows: int) -> int:
        """Run a job; its number, counted from 0."""
        with self.lock:
            if token is not None and not self.forgetful:
                known = self.database.execute("SELECT id FROM jobs WHERE token = ?", (token,)).fetchone()
                if known:
                    return known[0]
            (number,) = self.database.execute("SELECT count(*) FROM jobs").fetchone()
            row = (number, token, rows, time.time(), "running")
            self.database.execute("INSERT INTO jobs VALUES (?, ?, ?, ?, ?)", row)
        print(f"job {number}: {rows:,} rows", flush=True)
        return number

    def _job(self, row: tuple) -> dict:
        number, token, rows, started, state = row
        done = min(rows, int((time.time() - started) * ROWS_PER_SECOND))
        if state == "running" and done == rows:
            state = "finished"
        return {"id": number, "token": token, "state": state, "rows": rows, "done": rows if state == "finished" else done}

    def search(self, token: str | None) -> list[dict]:
        """Return all jobs, or those with a token."""
        with self.lock:
            rows = self.database.execute(
                "SELECT * FROM jobs WHERE ?1 IS NULL OR token = ?1 ORDER BY id", (token,)
            ).fetchall()
        return [self._job(row) for row in rows]

    def get(self, number: int) -> dict | None:
        """Return one job."""
        return next((job for job in self.search(None) if job["id"] == number and job["state"] != "removed"), None)

    def end(self, number: int, state: str) -> None:
        """Decide how a job stands."""
        with self.lock:
            self.database.execute("UPDATE jobs SET state = ? WHERE id = ?", (state, number))


class Handler(BaseHTTPRequestHandler):
    """Answers requests with JSON."""

    server: "Service"

    def do_GET(self) -> None:
        """Answer a look."""
        path = urlsplit(self.path)
        parts = path.path.strip("/").split("/")
        if parts == ["jobs"]:
            self._answer(200, self.server.jobs.search(parse_qs(path.query).get("token", [None])[0]))
        elif len(parts) == 2 and parts[0] == "jobs" and parts[1].isdigit():
            job = self.server.jobs.get(int(parts[1]))
            self._answer(404 if job is None else 200, job)
        else:
            self._answer(404, None)

    def do_POST(self) -> None:
        """Answer a request that changes something."""
        jobs = self.server.jobs
        parts = self.path.strip("/").split("/")
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        if parts == ["faults"]:
            jobs.lose = [body["lose"]] * body.get("times", 1)
            self._answer(200, {})
        elif parts == ["jobs"]:
            fault = jobs.lose.pop(0) if jobs.lose else None
            if fault == "request":
                self.close_connection = True
                return
            number = jobs.submit(body.get("token"), body.get("rows", 0))
            if fault == "answer":
                self.close_connection = True
                return
            self._answer(200, {"id": number})
        elif len(parts) == 3 and parts[0] == "jobs" and parts[2] in ("finished", "failed", "removed"):
            jobs.end(int(parts[1]), parts[2])
            self._answer(200, {})
        else:
            self._answer(404, None)

    def _answer(self, status: int, body: object) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Write no line for each request."""


class Service(ThreadingHTTPServer):
    """The service."""

    daemon_threads = True

    def __init__(self, port: int, jobs: Jobs) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.jobs = jobs


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run jobs that are submitted over HTTP.")
    parser.add_argument("database")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--forgetful", action="store_true", help="make a job for every request, whatever its token")
    options = parser.parse_args()
    with Service(options.port, Jobs(options.database, options.forgetful)) as service:
        print(f"listening on port {service.server_port}", flush=True)
        service.serve_forever()
