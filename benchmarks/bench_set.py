"""How long does a durable `set` take, one that survives a crash of the process only, and other writes?"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from benchmarks.harness import CALLS, KEYS, VALUE, Figure, folder, open_store, steady, task_store
from benchmarks.peers import disk_cache, lightning, raw_sqlite, sqlite_dict
from milepost import Asset

__all__ = ["figures"]


def figures() -> list[Figure]:
    with folder() as path:
        return [*_full(path), *_normal(path)]


def _full(path: Path) -> list[Figure]:
    with ExitStack() as stack:
        store = stack.enter_context(open_store(path / "full.db"))
        accessor = task_store(store)
        asset = store.asset_store(Asset("bench"))
        raw = stack.enter_context(raw_sqlite(path, "FULL"))
        tree = stack.enter_context(lightning(path))
        accessor.set("counter", 0)

        def put(number: int) -> None:
            accessor.set(KEYS[number % 50], VALUE)

        def put_asset(number: int) -> None:
            asset.set(KEYS[number % 50], VALUE)

        def increment(_: int) -> None:
            accessor.increment("counter")

        def update(number: int) -> None:
            accessor.update(KEYS[number % 50], lambda old: old)

        return [
            steady("set, FULL", {"ours": put, "raw sqlite3": raw.set}, must=1.25),
            steady("set, FULL", {"ours": put, "LMDB": tree.set}),
            steady("asset set with history, FULL", {"ours": put_asset, "our set": put}),
            steady("increment, FULL", {"ours": increment, "our set": put}),
            steady("update, FULL", {"ours": update, "our set": put}),
        ]


def _normal(path: Path) -> list[Figure]:
    with ExitStack() as stack:
        accessor = task_store(stack.enter_context(open_store(path / "normal.db", "normal")))
        cache = stack.enter_context(disk_cache(path))
        raw = stack.enter_context(raw_sqlite(path, "NORMAL"))
        mapping = stack.enter_context(sqlite_dict(path))

        def put(number: int) -> None:
            accessor.set(KEYS[number % 50], VALUE)

        return [
            steady("set, NORMAL", {"ours": put, "diskcache": cache.set}, must=0.75),
            steady("set, NORMAL", {"ours": put, "raw sqlite3": raw.set}),
            steady("set, NORMAL", {"ours": put, "sqlitedict": mapping.set}, calls=CALLS // 5),
        ]
