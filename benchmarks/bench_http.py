"""What does a call cost over HTTP, and how many fit into a second, beside Airflow 3.3.2's execution API?

Needs PostgreSQL (BENCH_POSTGRES_URL, by default the local one) and wrk. The peer needs an environment with
``apache-airflow==3.3.2 psycopg2-binary asyncpg`` in BENCH_AIRFLOW_PYTHON; without it only our side is measured. Both servers
have one worker process and a database of their own on the same PostgreSQL, and take turns.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import milepost
from benchmarks.bench_collect import database
from benchmarks.harness import KEYS, VALUE, Figure, folder, median
from milepost import TaskScope, calls
from milepost.remote.wire import dump_call, dumps

__all__ = ["figures"]

PORT, PEER_PORT = 8497, 8498
SECONDS = float(os.environ.get("BENCH_SECONDS", "4"))
SECRET = "benchmark-secret-of-32-characters"  # noqa: S105  (of a server on loopback, for a minute)
JWT_SECRET = "0123456789abcdef" * 4
PEER = "Airflow 3.3.2"


class Request(NamedTuple):
    """One request for wrk."""

    method: str
    url: str
    token: str
    body: str = ""


class Load(NamedTuple):
    """What wrk saw."""

    rate: float
    p50: float


def wrk(request: Request, connections: int, place: Path) -> Load:
    """Make the same request again and again; requests per second, and the median in microseconds."""
    script = place / "request.lua"
    script.write_text(
        f'wrk.method = "{request.method}"; wrk.headers["authorization"] = "Bearer {request.token}"\n'
        + (f'wrk.headers["content-type"] = "application/json"; wrk.body = [==[{request.body}]==]\n' if request.body else "")
    )
    command = ["wrk", "-t1", f"-c{connections}", f"-d{SECONDS:g}s", "--latency", "-s", str(script), request.url]
    text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS + 60).stdout
    assert "Non-2xx" not in text, text
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    middle = re.search(r"50%\s+([\d.]+)(us|ms|s)", text)
    assert rate, text
    assert middle, text
    return Load(float(rate[1]), float(middle[1]) * {"us": 1, "ms": 1e3, "s": 1e6}[middle[2]])


def once(request: Request) -> None:
    """Make a request, however long it takes: the first one of a server may load a lot."""
    headers = {"Authorization": f"Bearer {request.token}", "Content-Type": "application/json"}
    asked = urllib.request.Request(request.url, request.body.encode() or None, headers, method=request.method)
    with urllib.request.urlopen(asked, timeout=60) as answer:
        answer.read()


@contextmanager
def running(command: list[str], environment: dict[str, str], health: str, place: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server, from when it answers."""
    with (place / "server.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True, cwd=place)
    try:
        deadline = time.monotonic() + 120
        while True:
            with suppress(OSError), urllib.request.urlopen(health, timeout=5):
                break
            assert process.poll() is None, (place / "server.log").read_text()[-2000:]
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.2)
        yield process
    finally:
        process.terminate()
        process.wait(60)


def megabytes(process: subprocess.Popen[bytes]) -> float:
    """Return the memory of a process, where the system tells it."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def loads(get: Request, put: Request, place: Path) -> dict[str, float]:
    """Measure one server: microseconds per request at 16 connections, and the median at one."""
    found = {}
    for name, request in (("GET", get), ("PUT", put)):
        once(put)
        once(request)
        wrk(request, 4, place)
        found[f"{name}, 16 connections"] = 1e6 / wrk(request, 16, place).rate
        found[f"{name}, one connection, p50"] = wrk(request, 1, place).p50
    return found


def ours(url: str, place: Path) -> tuple[dict[str, float], float]:
    """Measure our side; also the memory of the process."""
    environment = os.environ | {"MILEPOST__SERVER__SECRET": SECRET, "MILEPOST_HOME": str(place)}
    command = [sys.executable, "-m", "milepost", "serve", "--port", str(PORT), "--url", url]
    at = f"http://127.0.0.1:{PORT}"
    scope = TaskScope("bench", "run", "task")
    with running(command, environment, f"{at}/health", place) as process, milepost.connect(at, secret=SECRET) as launcher:
        token = launcher.metastore.token(scope, 1).token
        with milepost.connect(at, token=token) as store:
            task = store.instances.open(scope, 1)["task_store"]
            for key in KEYS:
                task.set(key, VALUE)
            found = {}
            for name, call in (("get", lambda n: task.get(KEYS[n % 20])), ("set", lambda n: task.set(KEYS[n % 20], VALUE))):
                samples = []
                for number in range(500):
                    start = time.perf_counter()
                    call(number)
                    samples.append((time.perf_counter() - start) * 1e6)
                found[f"accessor {name}, end to end, p50"] = median(samples)
            handle, token = task._handle, store.metastore._credential.decode()
            item = calls.Item(KEYS[0], json.dumps(VALUE), 0, calls.new_version())
            post = [
                Request("POST", f"{at}/execution/v1/call", token, dumps(dump_call(call)).decode())
                for call in (calls.Get(handle, KEYS[0]), calls.Put(handle, [item]))
            ]
            found |= loads(*post, place)
            return found, megabytes(process)


def airflow(python: str, url: str, place: Path) -> dict[str, float]:
    """Measure Airflow's side."""
    home = place / "airflow"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    environment = os.environ | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__API_AUTH__JWT_SECRET": JWT_SECRET,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": url.replace("postgresql://", "postgresql+psycopg2://"),
    }
    script = str(Path(__file__).with_name("airflow_serve.py"))

    def ask(*arguments: str) -> dict[str, Any]:
        done = subprocess.run(
            [python, script, *arguments], env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        assert lines, done.stderr[-2000:]
        return dict(json.loads(lines[-1]))

    asked = ask()
    found = {f"accessor {name}, end to end, p50": value for name, value in ask("accessor").items()}
    at = f"http://127.0.0.1:{PEER_PORT}"
    command = [str(Path(python).parent / "airflow"), "api-server", "-w", "1", "-p", str(PEER_PORT), "--host", "127.0.0.1"]
    with running(command, environment, f"{at}/api/v2/version", home):
        key = f"{at}/execution/store/ti/{asked['id']}/k1"
        put = Request("PUT", key, asked["token"], json.dumps({"value": VALUE, "expires_at": None}))
        return found | loads(Request("GET", key, asked["token"]), put, home)


def figures() -> list[Figure]:
    """Measure."""
    python = os.environ.get("BENCH_AIRFLOW_PYTHON")
    with folder() as place, database("milepost_bench_http") as url:
        found, memory = ours(url, place)
    peer: dict[str, float] = {}
    note = "Airflow was not measured: BENCH_AIRFLOW_PYTHON is not set"
    if python:
        with folder() as place, database("milepost_bench_http") as url:
            peer, note = airflow(python, url, place), ""
    measured = []
    for name, value in found.items():
        must = 1 / 15 if "16" in name else 1 / 6
        theirs = peer.get(name)
        said = f"{1e6 / value:,.0f} /s" if "16" in name else ""
        said += f" beside {1e6 / theirs:,.0f} /s" if theirs and said else ""
        measured.append(Figure(name, value, "us", theirs, PEER, must if theirs else None, note=said or note))
    measured.append(Figure("memory of the worker process, MB", memory, "MB", must=150, judged="alone"))
    return measured
