"""Do lists of the REST API stay fast at a million rows? The peer is the same list in a small store, at the same server.

One task instance with ``--rows`` keys, as many runs of other DAGs, as many assets; pages of 50, over one kept connection.
"""

from __future__ import annotations

import http.client
import json
import os
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.bench_http import running
from benchmarks.harness import Figure, folder, median
from milepost import TaskScope, connect

__all__ = ["figures"]

PORT = 8499
CALLS = int(os.environ.get("BENCH_REST_CALLS", "60"))
LARGE = "/dags/bench/dagRuns/large/taskInstances/task/state-store"
SMALL = "/dags/bench/dagRuns/small/taskInstances/task/state-store"


def fill(path: Path, rows: int) -> str:
    """Make the store and return a token."""
    with connect(f"sqlite:///{path}", synchronous="normal") as store:
        for run, count in (("large", 1), ("small", 100)):
            store.task_store(TaskScope("bench", run, "task")).set_many({f"k{n:07}": {"n": n} for n in range(count)})
        token = store.tokens.create("bench", role="admin").token
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            f"{numbers} INSERT INTO entries SELECT owner_id, printf('k%07d', i), encoding, version, created_at, updated_at,"
            " expires_at, default_day, writer, printf('{\"n\":%d}', i) FROM entries, n"
            " WHERE owner_id = (SELECT owner_id FROM entries ORDER BY owner_id LIMIT 1) AND key = 'k0000000'",
            (rows - 1,),
        )
        connection.execute(
            f"{numbers} INSERT INTO runs (hash, dag_id, run_id, created_at, updated_at)"
            " SELECT randomblob(16), printf('dag%d', i % 100), printf('run%07d', i), 0, 0 FROM n",
            (rows,),
        )
        connection.execute(
            f"{numbers} INSERT INTO assets (id, hash, name, uri, created_at, updated_at)"
            " SELECT 1000000 + i, randomblob(16), printf('asset%07d', i), printf('s3://bucket/%07d', i), 0, 0 FROM n",
            (rows,),
        )
        connection.execute("INSERT INTO asset_references SELECT id, 'dag7', 'outlet' FROM assets WHERE id % 1000 = 7")
    return token


class Client:
    """One kept connection."""

    def __init__(self, token: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
        self._headers = {"Authorization": f"Bearer {token}"}

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Make a request and return what is answered."""
        data = None if body is None else json.dumps(body).encode()
        self._connection.request(method, f"/api/v2{path}", data, self._headers)
        response = self._connection.getresponse()
        text = response.read()
        assert response.status < 300, text
        return json.loads(text) if text else None

    def time(self, method: str, path: str, body: Any = None) -> float:
        """Return the median time of a request in microseconds."""
        samples = []
        for _ in range(CALLS):
            start = time.perf_counter()
            self.ask(method, path, body)
            samples.append((time.perf_counter() - start) * 1e6)
        return median(samples)


def figures(rows: int) -> list[Figure]:
    """Measure."""
    with folder() as place:
        path = place / "store.db"
        token = fill(path, rows)
        environment = os.environ | {"MILEPOST_HOME": str(place)}
        command = [sys.executable, "-m", "milepost", "serve", "--port", str(PORT), "--url", f"sqlite:///{path}"]
        with running(command, environment, f"http://127.0.0.1:{PORT}/ready", place):
            client = Client(token)
            cursor = client.ask("GET", f"{LARGE}?limit=50&offset={rows - 100}")["next_cursor"]
            deep = client.ask("GET", "/dags/~/dagRuns?prefix=run0000&limit=900")["next_cursor"]
            first = client.time("GET", f"{SMALL}?limit=50")
            late = client.ask("GET", f"/assets?limit=50&offset={rows - 100}&count=false")["next_cursor"]
            middle = f"s3://bucket/{rows // 2:07}"
            assets = client.time("GET", "/assets?limit=2&count=false")
            runs = client.time("GET", "/dags/bench/dagRuns?limit=2")
            told = {
                "first page of keys, counted": ("GET", f"{LARGE}?limit=50", None, first),
                "first page of keys": ("GET", f"{LARGE}?limit=50&count=false", None, first),
                "page of keys by offset, at the end": ("GET", f"{LARGE}?limit=50&offset={rows - 60}", None, first),
                "page of keys by cursor, at the end": ("GET", f"{LARGE}?limit=50&cursor={cursor}", None, first),
                "page of keys by prefix": ("GET", f"{LARGE}?limit=50&prefix=k00005&count=false", None, first),
                "first page of runs": ("GET", "/dags/~/dagRuns?limit=50", None, runs),
                "page of runs by cursor, at the end": ("GET", f"/dags/~/dagRuns?limit=50&cursor={deep}", None, runs),
                "page of runs of one DAG": ("GET", "/dags/dag7/dagRuns?limit=50", None, runs),
                "first page of assets": ("GET", "/assets?limit=50&count=false", None, assets),
                "page of assets by cursor, at the end": ("GET", f"/assets?limit=50&cursor={late}", None, assets),
                "page of assets of one DAG": ("GET", "/assets?limit=50&dag_id=dag7&count=false", None, assets),
                "page of assets, counted": ("GET", "/assets?limit=50", None, assets),
                "one asset by its URI, in the middle": ("GET", f"/assets?count=false&prefix={middle}", None, assets),
                "GET of one key": ("GET", f"{LARGE}/k0000007", None, client.time("GET", f"{SMALL}/k0000007")),
                "PUT of one key": (
                    "PUT",
                    f"{LARGE}/k0000007",
                    {"value": 1},
                    client.time("PUT", f"{SMALL}/k0000007", {"value": 1}),
                ),
            }
            return [
                Figure(f"REST, {rows:,} rows: {name}", client.time(method, at, body), "us", peer, "a small list")
                for name, (method, at, body, peer) in told.items()
            ]
