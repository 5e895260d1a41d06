"""A client of a concurrent history. Usage: clients.py PATH KIND NAME COUNT; a line on stdin tells when to start.

Prints one JSON line per operation: [begin, end, key, kind, expected, version or value]; times are of the machine-wide
monotonic clock in nanoseconds. A conflict has no version.
"""

import json
import random
import sys
import threading
import time
from typing import Any

import milepost
from milepost import TaskScope, VersionConflictError

SCOPE = TaskScope("d", "r", "t", -1)
THREADS = {"cas": 2, "increment": 4, "default": 2}
record: list[list[Any]] = []
started = 0


def cas(task: milepost.TaskStoreAccessor, name: str, count: int) -> None:
    """Read and compare-and-set on two keys; now and then with a version of before."""
    rng = random.Random(name)
    seen: dict[str, str | None] = {"a": None, "b": None}
    for _ in range(count):
        key = rng.choice("ab")
        begin = time.monotonic_ns()
        if rng.random() < 0.4:
            entry = task.entry(key)
            seen[key] = entry and entry.version
            record.append([begin, time.monotonic_ns(), key, "read", None, seen[key]])
            continue
        expected = seen[key]
        try:
            seen[key] = task.compare_and_set(key, name, version=expected)
            record.append([begin, time.monotonic_ns(), key, "write", expected, seen[key]])
        except VersionConflictError:
            record.append([begin, time.monotonic_ns(), key, "conflict", expected, None])
            entry = task.entry(key)
            seen[key] = entry and entry.version


def increment(task: milepost.TaskStoreAccessor, name: str, count: int) -> None:
    """Count up."""
    for _ in range(count):
        begin = time.monotonic_ns()
        value = task.increment("n")
        record.append([begin, time.monotonic_ns(), "n", "write", value - 1, value])


def default(task: milepost.TaskStoreAccessor, name: str, count: int) -> None:
    """Try to be the first on a row of keys, at the same moment as all others."""
    for number in range(count):
        while time.monotonic_ns() < started + number * 3_000_000:
            pass
        begin = time.monotonic_ns()
        value = task.set_default(f"k{number}", name)
        record.append([begin, time.monotonic_ns(), f"k{number}", "default", name, value])


def main(path: str, kind: str, name: str, count: str) -> None:
    """Run the threads and print what each saw."""
    global started  # noqa: PLW0603
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            globals()[kind](task, f"{name}-{number}", int(count))
        except BaseException as error:  # noqa: BLE001  (raised again by the main thread)
            failures.append(error)

    with milepost.connect(f"sqlite:///{path}") as store:
        task = store.task_store(SCOPE)
        print("ready", flush=True)
        started = int(sys.stdin.readline())
        threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS[kind])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
    for row in record:
        print(json.dumps(row))


main(*sys.argv[1:])
