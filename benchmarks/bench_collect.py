"""How fast does a collection remove expired rows, beside Airflow 3.3.2's own, and does it disturb anybody?

Needs PostgreSQL (BENCH_POSTGRES_URL, by default the local one) and, for the peer, the Python of an environment with
``apache-airflow==3.3.2 psycopg2-binary`` in BENCH_AIRFLOW_PYTHON. What is missing is left out and said so.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import milepost
from benchmarks.harness import VALUE, Figure, folder
from milepost import TaskScope

__all__ = ["figures"]

ROWS = 500_000
MANY = 5_000_000
SERVER = os.environ.get("BENCH_POSTGRES_URL", "postgresql://postgres@127.0.0.1:5432")
DATABASE = "milepost_bench"

_COLUMNS = "owner_id, key, encoding, version, created_at, updated_at, expires_at, writer, value"


@contextmanager
def database(name: str = DATABASE) -> Iterator[str]:
    """Make a database and drop it afterwards."""
    import psycopg

    with psycopg.connect(f"{SERVER}/postgres", autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name}")
        try:
            yield f"{SERVER}/{name}"
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def fill(store: milepost.Store, url: str, rows: int) -> None:
    """Write expired rows with raw SQL, past the library, 100 keys to an instance as far as that goes."""
    scopes = [TaskScope("bench", "run", "task", number) for number in range(100)]
    owners = []
    for scope in scopes:
        accessor = store.task_store(scope, attempt=1)
        accessor.set("kept", 1)
        owners.append(accessor._handle.owner_id)
    values = f"(SELECT {owners[0]} + n % 100), 'k' || n, 0, 'v' || n, 0, 0, 1, 'task:1', '{{}}'"
    assert owners == list(range(owners[0], owners[0] + 100))
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
            connection.execute(
                f"WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {rows}) "
                f"INSERT INTO entries ({_COLUMNS}) SELECT {values} FROM c"
            )
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    else:
        import psycopg

        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                f"INSERT INTO milepost.entries ({_COLUMNS}) SELECT {values} FROM generate_series(1, {rows}) AS n"
            )
            connection.execute("VACUUM ANALYZE milepost.entries")


def memory() -> float:
    """Return the most memory this process ever had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def collect(url: str, rows: int) -> tuple[float, float]:
    """Fill and collect; seconds, and MB by which the memory grew."""
    with milepost.connect(url) as store:
        fill(store, url, rows)
        store.clean(dry_run=True)
        before, start = memory(), time.perf_counter()
        report = store.clean()
        seconds = time.perf_counter() - start
        assert report.expired == rows, report
        return seconds, memory() - before


def airflow(url: str, place: Path, batch: int) -> dict[str, object] | None:
    """Have Airflow do the same on a database of its own."""
    python = os.environ.get("BENCH_AIRFLOW_PYTHON")
    if not python:
        return None
    home = place / "airflow"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    environment = os.environ | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": url,
        "AIRFLOW__STATE_STORE__STATE_CLEANUP_BATCH_SIZE": str(batch),
    }
    script = Path(__file__).with_name("airflow_collect.py")
    done = subprocess.run(
        [python, str(script), str(ROWS)], env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        print(done.stderr[-2000:], file=sys.stderr)
        return None
    return dict(json.loads(lines[-1]))


def writer_waits(url: str) -> list[float]:
    """Return how long each ``set`` of a concurrent writer took during a collection, in milliseconds."""
    waits: list[float] = []
    with milepost.connect(url) as store:
        fill(store, url, ROWS)
        busy = threading.Event()
        accessor = store.task_store(TaskScope("bench", "other", "task"), attempt=1)

        def write() -> None:
            number = 0
            while not busy.is_set():
                start = time.perf_counter()
                accessor.set(f"k{number % 50}", VALUE)
                waits.append((time.perf_counter() - start) * 1e3)
                number += 1

        thread = threading.Thread(target=write)
        thread.start()
        store.clean()
        busy.set()
        thread.join()
    return waits


def _beside(name: str, ours: float, theirs: dict[str, object] | None, must: float, note: str) -> Figure:
    peer = None if theirs is None or theirs["error"] else float(str(theirs["seconds"])) * 1e3
    if theirs is None:
        note += "; Airflow was not measured: BENCH_AIRFLOW_PYTHON is not set"
    return Figure(name, ours * 1e3, "ms", peer, "Airflow 3.3.2", 1 / must if peer else None, note=note)


def figures() -> list[Figure]:
    """Measure."""
    found = []
    with folder() as place:
        seconds, _ = collect(f"sqlite:///{place / 'a.db'}", ROWS)
        theirs = airflow(f"sqlite:///{place / 'airflow' / 'a.db'}", place, 5_000)
        note = f"{ROWS / seconds:,.0f} rows/s; Airflow in batches of 5,000, as its default fails"
        found.append(_beside(f"delete {ROWS:,} expired rows, SQLite", seconds, theirs, 3, note))
        seconds, grown = collect(f"sqlite:///{place / 'b.db'}", MANY)
        found.append(Figure(f"delete {MANY:,} expired rows, SQLite", seconds * 1e3, "ms", judged="alone"))
        found.append(Figure("memory growth meanwhile, in MB", grown, "MB", must=20, judged="alone"))
        try:
            with database() as url:
                seconds, _ = collect(url, ROWS)
            with database() as url:
                theirs = airflow(url.replace("postgresql://", "postgresql+psycopg2://"), place, 0)
        except (ImportError, OSError) as error:
            found.append(Figure("delete expired rows, PostgreSQL", 0, "ms", note=f"not measured: {error}"))
            return found
        note = f"{ROWS / seconds:,.0f} rows/s"
        found.append(_beside(f"delete {ROWS:,} expired rows, PostgreSQL", seconds, theirs, 6, note))
        with database() as url:
            seconds, grown = collect(url, MANY)
        found.append(Figure(f"delete {MANY:,} expired rows, PostgreSQL", seconds * 1e3, "ms", judged="alone"))
        found.append(Figure("memory growth meanwhile, in MB", grown, "MB", must=20, judged="alone"))
        with database() as url:
            waits = sorted(writer_waits(url))
        p99 = waits[int(len(waits) * 0.99)]
        note = f"median {statistics.median(waits):.2f} ms, longest {waits[-1]:.1f} ms, {len(waits):,} writes"
        found.append(Figure("set beside a collection, PostgreSQL, p99", p99, "ms", must=50, judged="alone", note=note))
    return found
