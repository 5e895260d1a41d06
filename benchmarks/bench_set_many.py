"""What do 100 keys in one durable `set_many` cost, measured in single ones?"""

from __future__ import annotations

from benchmarks.harness import VALUE, Figure, folder, open_store, steady, task_store

__all__ = ["figures"]

_HUNDRED = [f"k{number}" for number in range(100)]


def figures() -> list[Figure]:
    with folder() as path, open_store(path / "milepost.db") as store:
        accessor = task_store(store, _HUNDRED)
        mapping = dict.fromkeys(_HUNDRED, VALUE)

        def put(number: int) -> None:
            accessor.set(_HUNDRED[number % 50], VALUE)

        def put_many(_: int) -> None:
            accessor.set_many(mapping)

        return [steady("set_many of 100, FULL", {"ours": put_many, "our set": put}, must=4.0, block=10)]
