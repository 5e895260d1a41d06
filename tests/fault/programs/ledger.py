"""Work that is acknowledged: each line is printed only after the call before it has returned.

Usage: ledger.py PATH s14 | ledger.py PATH mixed NAME FIRST
"""

import sys

import milepost
from milepost import Asset, TaskScope

PAD = "x" * 30_000


def perform(store: milepost.Store, name: str, number: int) -> None:
    """Do step ``number`` of the ledger ``name``; every step is one call that writes."""
    task = store.task_store(TaskScope(name, "r", "t", -1))
    worker = TaskScope(name, "r", "worker", number // 8 % 5)
    match number % 8:
        case 0:
            task.set("n", [number, PAD])
        case 1:
            task.set_many({f"group-{letter}": number for letter in "abcdefgh"})
        case 2:
            task.increment("count", by=number)
        case 3:
            entry = task.entry("cas")
            task.compare_and_set("cas", number, version=entry and entry.version)
        case 4:
            store.asset_store(Asset(name)).set("watermark", number)
        case 5:
            store.instances.open(worker, number)
        case 6:
            store.instances.finish(worker, number - 1, "success")
        case 7:
            task.delete("group-h")


def main(path: str, kind: str, name: str = "", first: str = "0") -> None:
    """Write until the end (s14) or until killed (mixed)."""
    store = milepost.connect(f"sqlite:///{path}")
    if kind == "s14":
        task = store.task_store(TaskScope("d", "r", "t", -1))
        for i in range(200):
            task.set("n", i)
            print(i, flush=True)
        return
    store.asset_store(Asset(name))
    number = int(first)
    while True:
        perform(store, name, number)
        print(number, flush=True)
        number += 1


if __name__ == "__main__":
    main(*sys.argv[1:])
