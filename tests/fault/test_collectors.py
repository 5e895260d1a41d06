"""Collectors that are killed beside live traffic: what was removed stays removed, what lives stays, the next one goes on.

``MILEPOST_COLLECT_ROWS`` sets the number of rows; figures for 5,000,000 come from ``benchmarks/bench_collect.py``.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from milepost import TaskScope, connect
from tests.fault.helpers import Child
from tests.support.servers import Databases

ROWS = int(os.environ.get("MILEPOST_COLLECT_ROWS") or 5_000)
BATCH = max(200, ROWS // 1_000)
SCOPES = [TaskScope("d", "r", "t", index) for index in range(10)]


def expired_rows(owners: list[int]) -> str:
    """Return a statement, for SQLite, that writes rows which expired long ago."""
    assert owners == list(range(owners[0], owners[0] + len(owners)))
    return (
        f"INSERT INTO entries (owner_id, key, encoding, version, created_at, updated_at, expires_at, writer, value) "
        f"WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {ROWS}) "
        f"SELECT {owners[0]} + n % {len(owners)}, CONCAT('old', n), 0, CONCAT('v', n), 0, 0, 1, 'python', '0' FROM c"
    )


@pytest.fixture(params=["sqlite", "postgres", "mysql"])
def place(request: pytest.FixtureRequest, databases: Databases, tmp_path: Path) -> tuple[str, Callable[[str], list[Any]]]:
    """The URL of an empty store of each kind, and a function that runs SQL on it."""
    if request.param != "sqlite":
        database = databases.get(request.param)
        if request.param == "mysql":
            database.execute(f"SET SESSION max_recursive_iterations = {ROWS + 1}")
        return database.url, database.sql
    import sqlite3

    path = tmp_path / "store.db"

    def run(text: str) -> list[Any]:
        connection = sqlite3.connect(path, isolation_level=None, timeout=60)
        connection.create_function("CONCAT", 2, lambda left, right: f"{left}{right}")
        try:
            return connection.execute(text).fetchall()
        finally:
            connection.close()

    return f"sqlite:///{path}", run


def test_a_killed_collector_is_followed_by_the_next(place: Any, start: Callable[..., Child]) -> None:
    """A collector killed in mid-work keeps others away until its lease ends; the next finishes; no live key is touched."""
    url, sql = place
    with connect(url) as store:
        for scope in SCOPES:
            store.task_store(scope).set("kept", scope.map_index)
        owners = sorted(row[0] for row in sql("SELECT id FROM instances"))
        sql(expired_rows(owners))
        stop, written, errors = threading.Event(), [0] * len(SCOPES), []

        def traffic(index: int) -> None:
            task = store.task_store(SCOPES[index])
            try:
                while not stop.is_set():
                    task.set(f"n{written[index] % 50}", written[index])
                    written[index] += 1
            except Exception as error:  # noqa: BLE001  (looked at by the main thread)
                errors.append(error)

        threads = [threading.Thread(target=traffic, args=(index,)) for index in range(2)]
        for thread in threads:
            thread.start()
        try:
            child = start("collector", url, BATCH)
            child.expect("ready")
            for _ in range(3):
                child.expect("batch")
            child.kill()
            ((left,),) = sql("SELECT count(*) FROM entries WHERE expires_at = 1")
            assert 0 < left <= ROWS - 3 * BATCH
            holder = store.clean().held_by
            assert holder is not None
            assert f"/{child.pid}/" in holder
            sql("UPDATE leases SET held_until = 1")  # as if its time had passed
            before = list(written)
            # The batch that it was killed in may have been on its way still.
            assert left - store.clean(batch_size=BATCH).expired in (0, BATCH)
        finally:
            stop.set()
            for thread in threads:
                thread.join(60)
        assert errors == []
        assert all(now > then for now, then in zip(written[:2], before, strict=False))
        assert sql("SELECT count(*) FROM entries WHERE expires_at = 1") == [(0,)]
        for scope, count in zip(SCOPES, written, strict=True):
            expected = {"kept": scope.map_index} | {f"n{number % 50}": number for number in range(count)}
            assert dict(store.task_store(scope).items()) == expected
