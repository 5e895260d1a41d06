"""A reader or a writer of values that show whether they are whole. Usage: torn.py PATH writer|reader.

The writer ends at a line on stdin, a reader when it has seen enough.
"""

import collections
import select
import sys

import milepost
from milepost import Asset, TaskScope

VALUES = [{"name": name, "rows": [name * 100] * 145, "end": name} for name in ("even", "odd!")]

ENOUGH = 2000


def done() -> bool:
    """Tell whether the parent wants an end."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


def writer(task: milepost.TaskStoreAccessor, asset: milepost.AssetStoreAccessor) -> None:
    """Alternate between two values, and count up pairs in one call."""
    number = 0
    while not done():
        number += 1
        task.set("big", VALUES[number % 2])
        asset.set("big", VALUES[number % 2])
        task.set_many({"left": number, "middle": "x" * 30_000, "right": number})
    print(number, flush=True)


def reader(task: milepost.TaskStoreAccessor, asset: milepost.AssetStoreAccessor) -> None:
    """Check each read."""
    seen: collections.Counter[str] = collections.Counter()
    pairs = 0
    last = 0
    while min(seen["even"], seen["odd!"], pairs) < ENOUGH:
        for accessor in (task, asset):
            value = accessor.get("big")
            if value is not None:
                assert value in VALUES
                seen[value["name"]] += 1
        for pair in (task.get_many(["left", "right"]), dict(task.items())):
            if pair.get("left") is not None:
                assert pair["left"] == pair["right"] >= last, pair
                last = pair["left"]
                pairs += 1
    print("enough", flush=True)


with milepost.connect(f"sqlite:///{sys.argv[1]}", asset_history_limit=3) as store:
    own = store.task_store(TaskScope("d", "r", "t", -1))
    shared = store.asset_store(Asset("a"))
    print("ready", flush=True)
    globals()[sys.argv[2]](own, shared)
