"""How long does `get` take, and how long does it take others?"""

from __future__ import annotations

from contextlib import ExitStack

from benchmarks.harness import CALLS, KEYS, VALUE, Figure, folder, open_store, steady, task_store
from benchmarks.peers import disk_cache, lightning, raw_sqlite, sqlite_dict

__all__ = ["figures"]


def figures() -> list[Figure]:
    with folder() as path, ExitStack() as stack:
        accessor = task_store(stack.enter_context(open_store(path / "milepost.db")))
        assert accessor.get("k0") == VALUE
        cache = stack.enter_context(disk_cache(path))
        raw = stack.enter_context(raw_sqlite(path, "FULL"))
        tree = stack.enter_context(lightning(path))
        mapping = stack.enter_context(sqlite_dict(path))

        def get(number: int) -> object:
            return accessor.get(KEYS[number % 50])

        def miss(_: int) -> object:
            return accessor.get("absent")

        def entry(number: int) -> object:
            return accessor.entry(KEYS[number % 50])

        return [
            steady("get", {"ours": get, "diskcache": cache.get}, must=0.9),
            steady("get", {"ours": get, "raw sqlite3": raw.get}),
            steady("get", {"ours": get, "LMDB": tree.get}),
            steady("get", {"ours": get, "sqlitedict": mapping.get}, calls=CALLS // 5),
            steady("get, a miss", {"ours": miss, "our get": get}),
            steady("entry", {"ours": entry, "our get": get}),
        ]
