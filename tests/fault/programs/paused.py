"""An attempt that pauses and wakes too late. Usage: paused.py PATH sync|async [lifecycle].

Opens attempt 1, writes, says "paused"; at the next line it makes every call and prints one line for each: NAME OUTCOME.
"""

import asyncio
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import milepost
from milepost import Asset, TaskScope

SCOPE = TaskScope("d", "r", "t", -1)
ASSET = Asset("a", uri="s3://bucket/a")

store = milepost.connect(f"sqlite:///{sys.argv[1]}")
context = store.instances.open(SCOPE, 1, outlets=[ASSET])
task, asset = context["task_store"], context["asset_store"][ASSET]
task.set("n", 1)
task.set("mine", 1)
asset.set("n", 1)
version, asset_version = task.entry("n").version, asset.entry("n").version

print("paused", flush=True)
sys.stdin.readline()

late = timedelta(days=1)
writes: list[tuple[str, Any, str, tuple[Any, ...], dict[str, Any]]] = [
    (f"{name}.{method}", owner, method, arguments, options)
    for name, owner, known in (("task", task, version), ("asset", asset, asset_version))
    for method, arguments, options in [
        ("set", ("n", 7), {}),
        ("set", ("new", 1), {}),
        ("clear", (), {}),
        ("delete", ("n",), {}),
        ("delete", ("never there",), {}),
        ("increment", ("n",), {}),
        ("increment", ("new",), {}),
        ("set_many", ({"n": 7, "new": 1},), {}),
        ("set_default", ("n", 7), {}),
        ("set_default", ("new", 1), {}),
        ("compare_and_set", ("n", 7), {"version": known}),
        ("compare_and_set", ("new", 1), {"version": None}),
        ("update", ("n", lambda _: 7), {}),
    ]
]
writes += [
    ("task.touch", task, "touch", ("n",), {"retention": late}),
    ("task.clear", task, "clear", (), {"all_map_indices": True}),
]
lifecycle: list[tuple[str, Any, str, tuple[Any, ...], dict[str, Any]]] = [
    ("instances.finish", store.instances, "finish", (SCOPE, 1, "success"), {}),
    ("instances.open", store.instances, "open", (SCOPE, 1), {}),
    ("runs.put_result", store.runs, "put_result", (SCOPE, 1, "late"), {}),
]
reads: list[tuple[str, Any, str, tuple[Any, ...], dict[str, Any]]] = [
    ("get", task, "get", ("absent", "default"), {}),
    ("entry", task, "entry", ("absent",), {}),
    ("get_many", task, "get_many", (["n", "absent"],), {}),
    ("asset get", asset, "get", ("absent", "default"), {}),
    ("mine", task, "get", ("mine", "absent"), {}),
]


def outcome(call: Callable[[], Any]) -> str:
    """Name what came of a call."""
    try:
        return f"returned {call()!r}"
    except Exception as error:  # noqa: BLE001  (its name is the outcome)
        return type(error).__name__


for name, owner, method, arguments, options in writes + (lifecycle if "lifecycle" in sys.argv else []) + reads:
    if sys.argv[2] == "sync":
        result = outcome(lambda: getattr(owner, method)(*arguments, **options))  # noqa: B023  (used at once)
    else:
        result = outcome(lambda: asyncio.run(getattr(owner, f"a{method}")(*arguments, **options)))  # noqa: B023
    print(f"{name}: {result}", flush=True)
store.close()
