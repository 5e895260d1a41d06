"""Calls between marks, for a tracer: each call writes "begin NAME" and "end NAME" into a file of marks around itself.

Usage: marked.py PATH SYNCHRONOUS MARKS
"""

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import milepost
from milepost import Asset, TaskScope

MARKS = os.open(sys.argv[3], os.O_WRONLY | os.O_CREAT, 0o600)
SCOPE = TaskScope("d", "r", "t", -1)


@contextmanager
def mark(name: str) -> Iterator[None]:
    """Frame a call with marks."""
    os.write(MARKS, f"begin {name}".encode())
    yield
    os.write(MARKS, f"end {name}".encode())


def main(path: str, synchronous: str) -> None:
    """Do one of each kind of write."""
    with mark("connect"):
        store = milepost.connect(f"sqlite:///{path}", synchronous=synchronous)
    task = store.task_store(SCOPE)
    with mark("first set"):
        task.set("n", 0)
    for number in range(3):
        with mark("set"):
            task.set("n", number)
    with mark("set_many"):
        task.set_many({"a": 1, "b": 2})
    with mark("set_default"):
        task.set_default("c", 1)
    with mark("increment"):
        task.increment("n")
    with mark("compare_and_set"):
        task.compare_and_set("d", 1, version=None)
    with mark("delete"):
        task.delete("n")
    with mark("clear"):
        task.clear()
    asset = store.asset_store(Asset("x"))
    with mark("asset set"):
        asset.set("n", 1)
    with mark("open"):
        context = store.instances.open(SCOPE, 1)
    with mark("attempt set"):
        context["task_store"].set("n", 1)
    with mark("aset"):
        asyncio.run(context["task_store"].aset("n", 2))
    with mark("finish"):
        store.instances.finish(SCOPE, 1, "success")
    with mark("instances.clear"):
        store.instances.clear(SCOPE)
    store.close()


main(*sys.argv[1:3])
