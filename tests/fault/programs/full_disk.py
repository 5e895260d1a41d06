"""Write until files may not grow any more, and afterwards. Usage: full_disk.py PATH."""

import resource
import signal
import sys
from pathlib import Path

import milepost
from milepost import Asset, StoreError, TaskScope

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = Path(sys.argv[1])
store = milepost.connect(f"sqlite:///{path}")
context = store.instances.open(TaskScope("d", "r", "t", -1), 1)
task, asset = context["task_store"], store.asset_store(Asset("a"))
task.set("n", "old")
asset.set("n", "old")
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
size = max(file.stat().st_size for file in path.parent.iterdir())
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 300_000, hard))

fits = -1
refused = None
while refused is None:
    try:
        task.set(f"fill-{fits + 1}", "x" * 60_000)
    except StoreError as error:
        refused = error
    else:
        fits += 1
print(type(refused).__name__, flush=True)
calls = [
    lambda: task.set("n", "new" * 20_000),
    lambda: task.set_many({"n": "new" * 20_000, "m": "new" * 20_000}),
    lambda: asset.set("n", "new" * 20_000),
    lambda: task.compare_and_set("n", "new" * 20_000, version=task.entry("n").version),
    lambda: store.runs.put_result(TaskScope("d", "r", "t", -1), 1, "x" * 500_000),
]
for number, call in enumerate(calls):
    try:
        call()
    except StoreError as error:
        print(number, type(error).__name__, flush=True)
    assert task.get("n") == "old", number
    assert "m" not in task, number
    assert asset.get("n") == "old", number
store.verify()
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
task.set_many({"n": "new", "m": "new"})
asset.set("n", "new")
assert task.get_many(["n", "m"]) == {"n": "new", "m": "new"}
assert all(task.get(f"fill-{number}") == "x" * 60_000 for number in range(fits + 1))
assert f"fill-{fits + 1}" not in task
store.verify()
engine = store.metastore.engine
assert engine._opened == len(engine._idle)
store.close()
print("done", flush=True)
