"""A client of a database server. Usage: server_clients.py URL KIND NAME COUNT; starts at a line on stdin.

Kinds: increment (one JSON line each: [begin, end, key, kind, expected, value]), ledger (says each key whose write was
acknowledged, until stdin ends), count (sets n to 0, 1, 2, … and says each), first (connects, writes, for each URL on stdin).
"""

import json
import select
import sys
import time

import milepost
from milepost import TaskScope

SCOPE = TaskScope("d", "r", "t", -1)


def increment(url: str, name: str, count: str) -> None:
    """Count up."""
    record = []
    with milepost.connect(url) as store:
        task = store.task_store(SCOPE)
        print("ready", flush=True)
        sys.stdin.readline()
        for _ in range(int(count)):
            begin = time.monotonic_ns()
            value = task.increment("n")
            record.append([begin, time.monotonic_ns(), "n", "write", value - 1, value])
    for row in record:
        print(json.dumps(row))


def ledger(url: str, name: str, count: str) -> None:
    """Write keys of one's own and say each one that was acknowledged."""
    with milepost.connect(url) as store:
        task = store.task_store(SCOPE)
        print("ready", flush=True)
        number = 0
        while not select.select([sys.stdin], [], [], 0)[0]:
            key = f"{name}-{number}"
            task.set(key, number)
            print(key, flush=True)
            number += 1


def count(url: str, name: str, count: str) -> None:
    """Set one key to one number after the other and say each one that was acknowledged."""
    with milepost.connect(url) as store:
        task = store.task_store(SCOPE)
        for number in range(int(count)):
            task.set("n", number)
            print(number, flush=True)


def first(url: str, name: str, count: str) -> None:
    """Open each database as soon as it is named, write and read."""
    print("ready", flush=True)
    for line in iter(sys.stdin.readline, ""):
        with milepost.connect(line.rstrip()) as store:
            task = store.task_store(SCOPE)
            task.set(name, name)
            assert task.get(name) == name
        print("done", flush=True)


globals()[sys.argv[2]](sys.argv[1], *sys.argv[3:])
