"""What does a call cost on PostgreSQL, beside a bare prepared upsert, and does it stay so when the table grows?

Needs PostgreSQL: BENCH_POSTGRES_URL, by default the local one.
"""

from __future__ import annotations

import json
import random

import milepost
from benchmarks.bench_collect import database
from benchmarks.harness import KEYS, VALUE, Figure, median, race
from milepost import TaskScope

__all__ = ["figures"]

FEW = 100_000
KEYS_EACH = 10_000

_BARE = """
INSERT INTO bare VALUES ($1, $2, $3, $4, $5, $6, 1, now(), NULL)
ON CONFLICT (dag, run, task, map_index, key) DO UPDATE SET
    value = excluded.value, version = bare.version + 1, updated = excluded.updated
"""


def fill(store: milepost.Store, url: str, rows: int) -> list[milepost.TaskStoreAccessor]:
    """Write rows with raw SQL, past the library; the accessors of their instances."""
    import psycopg

    accessors = [store.task_store(TaskScope("bench", f"run{rows}", "task", n), attempt=1) for n in range(rows // KEYS_EACH)]
    with psycopg.connect(url, autocommit=True) as connection:
        owners = [accessor._handle.owner_id for accessor in accessors]
        connection.execute(
            "INSERT INTO milepost.entries "
            "(owner_id, key, encoding, version, created_at, updated_at, default_day, writer, value) "
            "SELECT o, 'k' || lpad(n::text, 5, '0'), 0, md5(o || 'x' || n), 1, 1, 99999, 'task:1', %s "
            "FROM unnest(%s::bigint[]) AS o, generate_series(0, %s) AS n",
            (json.dumps(VALUE), owners, KEYS_EACH - 1),
        )
        connection.execute("VACUUM ANALYZE milepost.entries")
    return accessors


def figures(rows: int = 10_000_000) -> list[Figure]:
    """Measure."""
    import psycopg

    found = []
    with database() as url, milepost.connect(url) as store, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE bare (dag text, run text, task text, map_index int, key text, value text, version int, "
            "updated timestamptz, expires timestamptz, PRIMARY KEY (dag, run, task, map_index, key))"
        )
        cursor = psycopg.RawCursor(connection)
        ours = store.task_store(TaskScope("bench", "run", "task"), attempt=1)

        def bare(number: int) -> object:
            text = json.dumps(VALUE)
            return cursor.execute(_BARE, ("bench", "run", "task", -1, KEYS[number % 50], text), prepare=True)

        samples = race({"ours": lambda number: ours.set(KEYS[number % 50], VALUE), "bare": bare})
        found.append(
            Figure("set, PostgreSQL", median(samples["ours"]), "us", median(samples["bare"]), "bare upsert", must=1.5)
        )
    chance = random.Random(1)
    calls = {
        "get": lambda a: a.get(f"k{chance.randrange(KEYS_EACH):05}"),
        "set": lambda a: a.set(f"k{chance.randrange(KEYS_EACH):05}", VALUE),
        "entry": lambda a: a.entry(f"k{chance.randrange(KEYS_EACH):05}"),
        "increment": lambda a: a.increment("number"),
        "keys of a prefix": lambda a: a.keys("k0001"),
    }
    with database() as url, milepost.connect(url) as store:
        few = fill(store, url, FEW)
        small = {name: median(race({"x": lambda _, c=call: c(chance.choice(few))})["x"]) for name, call in calls.items()}
    with database() as url, milepost.connect(url) as store:
        many = fill(store, url, rows)
        for name, call in calls.items():
            large = median(race({"x": lambda _, c=call: c(chance.choice(many))})["x"])
            found.append(Figure(f"{name} among {rows:,} rows", large, "us", small[name], f"{FEW:,} rows", must=1.5))
    return found
