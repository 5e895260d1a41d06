"""What does a call cost over HTTP, and how many fit into a second, beside Airflow 3.3.2's execution API?

Needs PostgreSQL (BENCH_POSTGRES_URL, by default the local one) and wrk. The peer needs an environment with
``apache-airflow==3.3.2 psycopg2-binary asyncpg`` in BENCH_AIRFLOW_PYTHON; without it only our side is measured. Both servers
have one worker process and a database of their own on the same PostgreSQL. They are both up all the time and take turns, so
that whatever else the machine does meets both; a figure is the median of its rounds.
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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import milepost
from benchmarks.bench_collect import database
from benchmarks.harness import KEYS, VALUE, Figure, folder, median
from milepost import TaskScope, calls
from milepost.remote.wire import dump_call, dumps

__all__ = ["figures"]

PORT, PEER_PORT = 8497, 8498
SECONDS = float(os.environ.get("BENCH_SECONDS", "3"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
SECRET = "benchmark-secret-of-32-characters"  # noqa: S105  (of a server on loopback, for a minute)
JWT_SECRET = "0123456789abcdef" * 4
PEER = "Airflow 3.3.2"
SCOPES = [TaskScope("bench", "run", "task", number) for number in range(16)]


class Request(NamedTuple):
    """What wrk asks for: the same again and again, or one after the other.

    Args:
        method: GET, PUT or POST.
        asked: URLs, bearer tokens and bodies.
    """

    method: str
    asked: list[tuple[str, str, str]]


class Load(NamedTuple):
    """What wrk saw, and the processor time of the server."""

    rate: float
    p50: float
    busy: float


class Side(NamedTuple):
    """A server under load.

    Args:
        process: The server.
        requests: What to ask for, by name.
        accessor: Measures calls of the accessor: microseconds by their names.
    """

    process: subprocess.Popen[bytes]
    requests: dict[str, Request]
    accessor: Callable[[], dict[str, float]]


def wrk(side: Side, request: Request, connections: int, place: Path) -> Load:
    """Ask for some seconds: requests per second, the median in microseconds, and the server's time for a request."""
    script = place / "request.lua"
    asked = ", ".join(f'{{"/{url.split("/", 3)[3]}", "{token}", [==[{body}]==]}}' for url, token, body in request.asked)
    script.write_text(f"""
        wrk.headers["content-type"] = "application/json"
        local made, n = {{}}, 0
        init = function()
            for i, one in ipairs({{ {asked} }}) do
                wrk.headers["authorization"] = "Bearer " .. one[2]
                made[i] = wrk.format("{request.method}", one[1], nil, one[3])
            end
        end
        request = function() n = n % #made + 1; return made[n] end
    """)
    command = ["wrk", "-t1", f"-c{connections}", f"-d{SECONDS:g}s", "--latency", "-s", str(script), request.asked[0][0]]
    before = ticks(side.process)
    text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS + 60).stdout
    spent = ticks(side.process) - before
    assert "Non-2xx" not in text, text
    count = re.search(r"(\d+) requests in", text)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    middle = re.search(r"50%\s+([\d.]+)(us|ms|s)", text)
    assert count, text
    assert rate, text
    assert middle, text
    busy = spent * 1e6 / os.sysconf("SC_CLK_TCK") / max(1, int(count[1]))
    return Load(float(rate[1]), float(middle[1]) * {"us": 1, "ms": 1e3, "s": 1e6}[middle[2]], busy)


def ticks(process: subprocess.Popen[bytes]) -> int:
    """Return the processor time of a server, all of its processes together: they are one session."""
    spent = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name in parentheses may hold anything.
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[3]) == process.pid:
                spent += int(fields[11]) + int(fields[12])
    return spent


def once(request: Request) -> None:
    """Make a request, however long it takes: the first one of a server may load a lot."""
    for url, token, body in request.asked:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        asked = urllib.request.Request(url, body.encode() or None, headers, method=request.method)
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


@contextmanager
def ours(url: str, place: Path) -> Iterator[Side]:
    """Start our side."""
    environment = os.environ | {"MILEPOST__SERVER__SECRET": SECRET, "MILEPOST_HOME": str(place)}
    command = [sys.executable, "-m", "milepost", "serve", "--port", str(PORT), "--url", url]
    at = f"http://127.0.0.1:{PORT}"
    with running(command, environment, f"{at}/health", place) as process, milepost.connect(at, secret=SECRET) as launcher:

        def attempt(scope: TaskScope) -> milepost.Store:
            return milepost.connect(at, token=launcher.metastore.token(scope, 1).token)

        def asks(call: calls.Call[Any], store: milepost.Store) -> tuple[str, str, str]:
            return f"{at}/execution/v1/call", store.metastore._credential.decode(), dumps(dump_call(call)).decode()

        def put(task: milepost.TaskStoreAccessor, key: str) -> calls.Put:
            return calls.Put(task._handle, [calls.Item(key, json.dumps(VALUE), 0, calls.new_version())])

        with ExitStack() as stack:
            stores = [stack.enter_context(attempt(scope)) for scope in SCOPES]
            tasks = [store.instances.open(scope, 1)["task_store"] for scope, store in zip(SCOPES, stores, strict=True)]
            for task in tasks:
                task.set_many(dict.fromkeys(KEYS, VALUE))
            task, store = tasks[0], stores[0]
            requests = {
                "GET": [asks(calls.Get(task._handle, KEYS[0]), store)],
                "PUT": [asks(put(task, KEYS[0]), store)],
                "PUT of 16 keys": [asks(put(task, key), store) for key in KEYS[:16]],
                "PUT by 16 attempts": [asks(put(one, KEYS[0]), of) for one, of in zip(tasks, stores, strict=True)],
            }

            direct = stack.enter_context(milepost.connect(url)).task_store(SCOPES[0])

            def accessor() -> dict[str, float]:
                return {
                    "get": timed(lambda number: task.get(KEYS[number % 20])),
                    "set": timed(lambda number: task.set(KEYS[number % 20], VALUE)),
                    "set past the server": timed(lambda number: direct.set(KEYS[number % 20], VALUE)),
                }

            yield Side(process, {name: Request("POST", asked) for name, asked in requests.items()}, accessor)


def timed(call: Callable[[int], object]) -> float:
    """Return the median of 200 calls in microseconds."""
    samples = []
    for number in range(200):
        start = time.perf_counter()
        call(number)
        samples.append((time.perf_counter() - start) * 1e6)
    return median(samples)


@contextmanager
def airflow(python: str, url: str, place: Path) -> Iterator[Side]:
    """Start Airflow's side."""
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
    at = f"http://127.0.0.1:{PEER_PORT}"
    command = [str(Path(python).parent / "airflow"), "api-server", "-w", "1", "-p", str(PEER_PORT), "--host", "127.0.0.1"]
    with running(command, environment, f"{at}/api/v2/version", home) as process:
        body = json.dumps({"value": VALUE, "expires_at": None})
        keys = [f"{at}/execution/store/ti/{asked['id']}/{key}" for key in KEYS[:16]]
        token = asked["token"]
        requests = {
            "GET": Request("GET", [(keys[0], token, "")]),
            "PUT": Request("PUT", [(keys[0], token, body)]),
            "PUT of 16 keys": Request("PUT", [(key, token, body) for key in keys]),
        }
        requests["PUT by 16 attempts"] = requests["PUT of 16 keys"]  # one attempt is as good as another there
        yield Side(process, requests, lambda: ask("accessor"))


class Samples(dict[str, list[Load]]):
    """What the rounds of one side found, by what was measured."""

    def add(self, side: Side, place: Path) -> None:
        """Measure one round."""
        for name, cost in side.accessor().items():
            self.setdefault(f"accessor {name}, end to end, p50", []).append(Load(0, cost, 0))
        for name, request in side.requests.items():
            self.setdefault(f"{name}, 16 connections", []).append(wrk(side, request, 16, place))
            if len(request.asked) == 1:
                self.setdefault(f"{name}, one connection, p50", []).append(wrk(side, request, 1, place))

    def found(self, name: str) -> tuple[float, float]:
        """Return the median cost and the median processor time for a request, in microseconds."""
        costs = [1e6 / load.rate if "16" in name else load.p50 for load in self[name]]
        return median(costs), median([load.busy for load in self[name]])


def measure(sides: dict[str, Side], place: Path) -> dict[str, Samples]:
    """Measure the servers by turns."""
    for side in sides.values():
        for request in reversed(side.requests.values()):
            once(request)
            wrk(side, request, 4, place)
    samples = {name: Samples() for name in sides}
    for turn in range(ROUNDS):
        for name in sorted(sides, reverse=bool(turn % 2)):
            samples[name].add(sides[name], place)
    return samples


def figures() -> list[Figure]:
    """Measure."""
    python = os.environ.get("BENCH_AIRFLOW_PYTHON")
    with folder() as place, database("milepost_bench_http") as url, ours(url, place) as side:
        if python:
            with database("milepost_bench_http_peer") as theirs, airflow(python, theirs, place) as peer:
                samples = measure({"ours": side, PEER: peer}, place)
        else:
            samples = measure({"ours": side}, place)
        memory = megabytes(side.process)
    return [
        *(_figure(name, samples["ours"], samples.get(PEER)) for name in samples["ours"]),
        Figure("memory of the worker process, MB", memory, "MB", must=150, judged="alone"),
    ]


def _figure(name: str, ours: Samples, theirs: Samples | None) -> Figure:
    cost, busy = ours.found(name)
    if theirs is None:
        return Figure(name, cost, "us", note="Airflow was not measured: BENCH_AIRFLOW_PYTHON is not set")
    if name not in theirs:
        return Figure(name, cost, "us", note="what PostgreSQL and its disk take; a server cannot be faster")
    peer, peer_busy = theirs.found(name)
    rate = f"{1e6 / cost:,.0f} /s beside {1e6 / peer:,.0f} /s, " if "16" in name else ""
    note = f"{rate}{busy:,.0f} us of the server's processor time beside {peer_busy:,.0f}" if busy else ""
    must = None if "of 16" in name or "by 16" in name else 1 / 15 if "16" in name else 1 / 6
    return Figure(name, cost, "us", peer, PEER, must, note=note)
