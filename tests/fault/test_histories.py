"""Concurrent writers: exact counts, single winners, linearizable histories."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

import milepost
from tests.fault.helpers import SCOPE, Child, url
from tests.fault.histories import Operation, violations


def run_clients(
    start: Callable[..., Child], path: Path, kind: str, processes: int, count: int
) -> dict[str, list[Operation]]:
    """Run client processes together and return their histories by key."""
    group = [start("clients", path, kind, f"p{number}", count) for number in range(processes)]
    for child in group:
        child.expect("ready")
    begin = time.monotonic_ns() + 20_000_000
    for child in group:
        child.say(str(begin))
    histories: dict[str, list[Operation]] = defaultdict(list)
    for child in group:
        for line in child.finish():
            begin, end, key, *rest = json.loads(line)
            histories[key].append(Operation(begin, end, *rest))
    return histories


def test_s16_twenty_threads_create_one_key(path: Path) -> None:
    """S-16 (a): 20 threads that set an absent key at once get no error and leave one row with a value of theirs."""
    failures: list[BaseException] = []
    with milepost.connect(url(path)) as store:
        task = store.task_store(SCOPE)
        barrier = threading.Barrier(20)

        def work(number: int) -> None:
            try:
                for round_ in range(50):
                    barrier.wait()
                    task.set(f"new-{round_}", number)
            except BaseException as error:  # noqa: BLE001  (looked at by the main thread)
                failures.append(error)
                barrier.abort()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert len(task) == 50
        assert all(value in range(20) for _, value in task.items())


def test_s16_mapped_instances_write_one_asset_side_by_side(path: Path) -> None:
    """S-16 (b): two mapped instances that write two keys of one asset 100 times each both keep their own last value."""
    failures: list[BaseException] = []
    with milepost.connect(url(path)) as store:
        asset = milepost.Asset("shared")

        def work(index: int, key: str) -> None:
            try:
                scope = milepost.TaskScope("d", "r", "mapped", index)
                context = store.instances.open(scope, 1, item={"n": index}, outlets=[asset])
                for number in range(100):
                    context["asset_store"][asset].set(key, number)
            except BaseException as error:  # noqa: BLE001  (looked at by the main thread)
                failures.append(error)

        threads = [threading.Thread(target=work, args=pair) for pair in enumerate("xy")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert store.asset_store(asset).items() == [("x", 99), ("y", 99)]


def test_increment_is_exact_from_eight_processes_with_four_threads(start: Callable[..., Child], path: Path) -> None:
    """960 increments by 32 writers give each number from 1 to 960 once, in an order that fits the clock."""
    history = run_clients(start, path, "increment", 8, 30)["n"]
    assert sorted(operation.version for operation in history) == list(range(1, 961))
    assert violations(history, first=0) == []
    with milepost.connect(url(path)) as store:
        assert store.task_store(SCOPE).get("n") == 960


def test_set_default_has_one_winner(start: Callable[..., Child], path: Path) -> None:
    """Of 8 writers at once one wins each key; all get its value, none before the winner began; the value stays."""
    histories = run_clients(start, path, "default", 4, 60)
    with milepost.connect(url(path)) as store:
        stored = dict(store.task_store(SCOPE).items())
    assert len(stored) == 60
    for key, operations in histories.items():
        assert {operation.version for operation in operations} == {stored[key]}
        (winner,) = [operation for operation in operations if operation.expected == stored[key]]
        assert all(operation.end >= winner.begin for operation in operations)
    assert len({value.partition("-")[0] for value in stored.values()}) > 1, "the writers did not race"


def test_compare_and_set_is_linearizable_per_key(start: Callable[..., Child], path: Path) -> None:
    """The histories of 8 clients and about 1,000 reads and compare-and-sets on two keys are linearizable."""
    histories = run_clients(start, path, "cas", 4, 120)
    kinds = {operation.kind for history in histories.values() for operation in history}
    assert kinds == {"read", "write", "conflict"}
    for history in histories.values():
        assert violations(history) == []


@pytest.mark.parametrize(
    ("history", "complaint"),
    [
        ([Operation(0, 1, "write", None, "a"), Operation(2, 3, "write", None, "b")], "two writes"),
        ([Operation(0, 1, "write", "lost", "a")], "never were"),
        ([Operation(0, 1, "read", None, "a")], "never written"),
        ([Operation(0, 1, "read", None, "a"), Operation(2, 3, "write", None, "a")], "ended before"),
        ([Operation(0, 1, "write", None, "a"), Operation(2, 3, "read", None, None)], "ended before"),
        ([Operation(4, 5, "write", None, "a"), Operation(0, 1, "write", "a", "b")], "ended before"),
        ([Operation(0, 1, "write", None, "a"), Operation(2, 3, "conflict", "a", None)], "all the time"),
        (
            [Operation(0, 9, "write", None, "a"), Operation(1, 2, "read", None, "a"), Operation(3, 4, "read", None, None)],
            "ended",
        ),
    ],
)
def test_the_check_of_histories_finds_what_is_wrong(history: list[Operation], complaint: str) -> None:
    """A lost update, a stale read, a write from nowhere and a false conflict are each found."""
    assert complaint in violations(history)[0]


def test_the_check_of_histories_accepts_overlapping_operations() -> None:
    """Operations that overlap may stand in either order."""
    history = [
        Operation(0, 10, "write", None, "a"),
        Operation(1, 9, "read", None, None),
        Operation(2, 3, "read", None, "a"),
        Operation(4, 20, "write", "a", "b"),
        Operation(5, 6, "conflict", None, None),
        Operation(11, 12, "read", None, "a"),
        Operation(13, 14, "read", None, "b"),
    ]
    assert violations(history) == []
