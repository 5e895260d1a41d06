"""A client that works on one asset. Usage: asset_clients.py URL KIND NAME COUNT.

Kinds: advance (starts at a line on stdin; one JSON line for each call: [begin, end, value, result]), staged (stages, says so
and waits), finished (stages, succeeds, says so and waits), drawn (opens the next attempt, or writes, at each line on stdin).
"""

import json
import random
import sys
import threading
import time
from typing import Any

import milepost
from milepost import Asset, TaskScope

ASSET = Asset("orders")
SCOPE = TaskScope("d", "r", "t", -1)
THREADS = 2


def advance(store: milepost.Store, name: str, count: str) -> None:
    """Move one key with values that rise by and large and are never drawn twice."""
    record: list[list[Any]] = []
    asset = store.asset_store(ASSET)
    print("ready", flush=True)
    sys.stdin.readline()

    def work(thread: int) -> None:
        chance = random.Random(f"{name}-{thread}")
        for turn in range(int(count)):
            value = (turn + chance.randrange(20)) * 10**6 + turn * 100 + int(name) * THREADS + thread
            begin = time.monotonic_ns()
            result = asset.advance("n", value)
            record.append([begin, time.monotonic_ns(), value, result])

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(record) == THREADS * int(count), "a thread failed"
    for row in record:
        print(json.dumps(row))


def staged(store: milepost.Store, name: str, count: str) -> None:
    """Stage values and wait to be killed before the success."""
    asset = store.instances.open(SCOPE, int(name), outlets=[ASSET])["asset_store"]
    for number in range(int(count)):
        asset.stage(f"k{number}", number)
    print("staged", flush=True)
    sys.stdin.readline()


def finished(store: milepost.Store, name: str, count: str) -> None:
    """Stage values, succeed, and wait to be killed after that."""
    asset = store.instances.open(SCOPE, int(name), outlets=[ASSET])["asset_store"]
    for number in range(int(count)):
        asset.stage(f"k{number}", number)
    store.instances.finish(SCOPE, int(name), "success")
    print("finished", flush=True)
    sys.stdin.readline()


def drawn(store: milepost.Store, name: str, count: str) -> None:
    """Open the next attempt at each line and say which; at the line ``write``, write as the last of them."""
    print("ready", flush=True)
    for line in iter(sys.stdin.readline, ""):
        if line.rstrip() == "open":
            opened = store.instances.open(SCOPE)
            print(opened["attempt"], flush=True)
            continue
        try:
            opened["task_store"].set("winner", name)
            print("written", flush=True)
        except milepost.StaleAttemptError:
            print("stale", flush=True)


def main(url: str, kind: str, name: str, count: str) -> None:
    """Run one kind."""
    with milepost.connect(url) as store:
        {"advance": advance, "staged": staged, "finished": finished, "drawn": drawn}[kind](store, name, count)


main(*sys.argv[1:])
