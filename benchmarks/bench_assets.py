"""What do `advance` from 16 processes on one key and `history` cost, beside `set` and `get` in the same run?

Needs PostgreSQL: BENCH_POSTGRES_URL, by default the local one.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from typing import Any

import milepost
from benchmarks.bench_collect import database
from benchmarks.harness import Figure, folder, median, open_store, race
from milepost import Asset

__all__ = ["figures"]

PROCESSES = 16
CALLS = 100_000
ROUNDS = 2
"""Parts of the calls, so that both sides meet what else the machine does."""
HISTORY = 100
ASSET = Asset("bench")


def _work(url: str, what: str, number: int, first: int, count: int, ready: Any, go: Any) -> None:
    """Make calls on one key as one of 16 processes; all of them count up to the same numbers."""
    with milepost.connect(url) as store:
        asset = store.asset_store(ASSET)
        call: Callable[[str, int], Any] = asset.advance if what == "advance" else asset.set
        asset.get(what)
        ready.release()
        go.wait()
        for turn in range(first, first + count):
            call(what, turn * PROCESSES + number)


def _together(url: str, what: str, first: int, count: int) -> float:
    """Have all processes make their calls; the seconds from the first to the last."""
    context = multiprocessing.get_context("spawn")
    ready, go = context.Semaphore(0), context.Event()
    workers = [
        context.Process(target=_work, args=(url, what, number, first, count, ready, go)) for number in range(PROCESSES)
    ]
    for worker in workers:
        worker.start()
    for _ in workers:
        while not ready.acquire(timeout=1):
            if any(worker.exitcode for worker in workers):
                go.set()
                raise RuntimeError("a process failed")
    began = time.perf_counter()
    go.set()
    for worker in workers:
        worker.join()
    took = time.perf_counter() - began
    if any(worker.exitcode for worker in workers):
        raise RuntimeError("a process failed")
    return took


def figures(calls: int = CALLS) -> list[Figure]:
    """Measure."""
    found = []
    each = calls // PROCESSES // ROUNDS
    with database() as url, milepost.connect(url) as store:
        asset = store.asset_store(ASSET)
        seconds = {"advance": 0.0, "set": 0.0}
        for turn in range(ROUNDS):
            for what in sorted(seconds, reverse=bool(turn % 2)):
                seconds[what] += _together(url, what, turn * each, each)
        last = ROUNDS * each * PROCESSES - 1
        if asset.get("advance") != last:
            raise RuntimeError(f"lost: {asset.get('advance')} is stored and {last} was written")
        made = ROUNDS * each * PROCESSES
        cost = {what: took / made * 1e6 for what, took in seconds.items()}
        note = f"{made:,} calls: {made / seconds['advance']:,.0f}/s beside {made / seconds['set']:,.0f}/s, nothing lost"
        found.append(Figure("advance, 16 processes", cost["advance"], "us", cost["set"], "set", must=2.0, note=note))
        found.append(_history(store, "PostgreSQL"))
    with folder() as path, open_store(path / "store.db") as store:
        found.append(_history(store, "SQLite"))
    return found


def _history(store: milepost.Store, kind: str) -> Figure:
    asset = store.asset_store(Asset("history"))
    for number in range(HISTORY + 1):
        asset.set("k", number)
    if len(asset.history("k", HISTORY)) != HISTORY:
        raise RuntimeError("the history is not whole")
    samples = race({"ours": lambda _: asset.history("k", HISTORY), "get": lambda _: asset.get("k")})
    return Figure(f"history of {HISTORY}, {kind}", median(samples["ours"]), "us", median(samples["get"]), "get", must=3.0)
