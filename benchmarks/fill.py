"""Fill a store with many rows in seconds rather than in minutes: raw SQL in one transaction, past the library.

``python -m benchmarks.fill FILE ROWS`` makes a file to try things on. Rows are as `set` would have written them by the
first attempt of instances with `KEYS_EACH` keys each.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

import milepost
from benchmarks.harness import VALUE
from milepost import TaskScope

__all__ = ["KEYS_EACH", "fill", "scope"]

KEYS_EACH = 10_000

_ENTRIES = """
WITH RECURSIVE
    numbers (number) AS (SELECT 0 UNION ALL SELECT number + 1 FROM numbers WHERE number + 1 < :keys)
INSERT INTO entries
    (owner_id, key, encoding, version, created_at, updated_at, default_day, writer, value)
SELECT
    instances.id, printf('k%05d', number), 0, lower(hex(randomblob(12))), :now, :now, :now / 86400000000, 'task:1', :value
FROM instances CROSS JOIN numbers
"""


def scope(number: int) -> TaskScope:
    return TaskScope("bench", "run", "task", number)


def fill(path: Path, rows: int) -> int:
    """Make a store with at least so many rows.

    Args:
        path: The file, not there yet.
        rows: How many.

    Returns:
        The number of instances, each with `KEYS_EACH` keys ``k00000``, ``k00001`` and so on.
    """
    count = -(-rows // KEYS_EACH)
    with milepost.connect(f"sqlite:///{path}", synchronous="normal") as store:
        for number in range(count):
            store.task_store(scope(number), attempt=1)
    value = json.dumps(VALUE, separators=(",", ":"))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        # The file is thrown away if this fails, so nothing needs a journal.
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = -200000")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_ENTRIES, {"keys": KEYS_EACH, "now": time.time_ns() // 1000, "value": value})
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
    return count


if __name__ == "__main__":
    fill(Path(sys.argv[1]), int(sys.argv[2]))
