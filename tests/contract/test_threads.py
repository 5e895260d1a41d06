"""Several writers at the same moment, in one process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from milepost import Asset, TaskScope, VersionConflictError
from tests.contract.conftest import SCOPE

pytestmark = pytest.mark.usefixtures("many_connections")


def together(number: int, work: Callable[[int], None]) -> None:
    """Run `work(i)` in `number` threads that start at the same moment; raise the first error."""
    barrier = threading.Barrier(number)
    errors: list[BaseException] = []

    def one(index: int) -> None:
        try:
            barrier.wait(30)
            work(index)
        except BaseException as error:  # noqa: BLE001  (handed on to the test)
            errors.append(error)

    threads = [threading.Thread(target=one, args=(index,)) for index in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def test_s16_twenty_threads_create_one_key(store: Any) -> None:
    """S-16 (a): 20 threads set the same new key: no error, one row, a value that some thread wrote."""
    accessors = [store.task_store(SCOPE) for _ in range(20)]
    for number in range(4):
        together(20, lambda i, key=f"new{number}": accessors[i].set(key, i))
    assert accessors[0].keys() == sorted(f"new{number}" for number in range(4))
    assert all(value in range(20) for _, value in accessors[0].items())


def test_s16_instances_and_assets_are_recorded_once(store: Any) -> None:
    """S-16: threads that record the same instance or asset at once end up with one of it."""
    together(8, lambda _: store.task_store(TaskScope("dag", "run", "new")).set("k", 1))
    together(8, lambda i: store.asset_store(Asset("new")).set(f"k{i}", i))
    together(8, lambda i: store.instances.open(TaskScope("dag", "run", "mapped", i), 1))
    assert len(store.instances.list("dag", "run", "new")) == 1
    assert len(store.runs.list()) == 1
    assert store.asset_store(Asset("new")).keys() == [f"k{i}" for i in range(8)]


def test_s16_two_instances_keep_both_keys(store: Any) -> None:
    """S-16 (b): two mapped instances that write different keys of one asset lose neither."""
    assets = [
        store.instances.open(TaskScope("dag", "run", "task", i), 1, outlets=[Asset("a")])["asset_store"] for i in (0, 1)
    ]

    def work(i: int) -> None:
        for number in range(50):
            assets[i].set("xy"[i], number)

    together(2, work)
    assert store.asset_store(Asset("a")).items() == [("x", 49), ("y", 49)]


def test_atomic_calls_lose_no_write(store: Any) -> None:
    """increment, update and compare_and_set lose no write; set_default has one winner, whom all see."""
    task = store.task_store(SCOPE)
    task.set("cas", 0)
    winners: list[Any] = []

    def work(i: int) -> None:
        winners.append(task.set_default("default", i))
        for _ in range(10):
            task.increment("n", 2**60)
            task.update("list", lambda old: [*old, i], default=[])
            while True:
                entry = task.entry("cas")
                try:
                    task.compare_and_set("cas", entry.value + 1, version=entry.version)
                except VersionConflictError:
                    continue
                break

    together(4, work)
    assert task.get("n") == 40 * 2**60
    assert sorted(task.get("list")) == sorted([0, 1, 2, 3] * 10)
    assert task.get("cas") == 40
    assert set(winners) == {task.get("default")}


def test_readers_never_see_half_a_write(store: Any) -> None:
    """A reader beside set_many sees all of it or nothing of it, through items and get_many."""
    task = store.task_store(SCOPE)
    task.set_many({"a": 0, "b": 0})

    def work(i: int) -> None:
        for number in range(40):
            if i == 0:
                task.set_many({"a": number, "b": number})
            else:
                assert len({value for _, value in task.items()}) == 1
                assert len(set(task.get_many(["a", "b"]).values())) == 1

    together(3, work)
    assert task.items() == [("a", 39), ("b", 39)]


def test_one_cas_wins(store: Any) -> None:
    """Of several compare-and-sets over one version exactly one succeeds."""
    task = store.task_store(SCOPE)
    task.set("k", -1)
    version = task.entry("k").version
    won: list[int] = []

    def work(i: int) -> None:
        try:
            task.compare_and_set("k", i, version=version)
        except VersionConflictError:
            return
        won.append(i)

    together(8, work)
    assert [task.get("k")] == won
    with pytest.raises(VersionConflictError):
        task.compare_and_set("k", 9, version=version)
