"""Does `get` stay as fast when the file grows a thousandfold?

Keys are random over the whole file. *Warm*: the file is in the system's page cache, as it is in use. *Cold*: it was
dropped from there, so that most reads go to the disk.
"""

from __future__ import annotations

import math
import os
import random
import time
from pathlib import Path

from benchmarks.fill import KEYS_EACH, fill, scope
from benchmarks.harness import CALLS, VALUE, Call, Figure, folder, median, open_store, steady
from milepost import TaskStoreAccessor

__all__ = ["FEW", "figures"]

FEW = 10_000

_COLD_READS = 100


def figures(rows: int) -> list[Figure]:
    """Compare a file with ``rows`` rows with one with `FEW`."""
    with folder() as path:
        few, many = path / "few.db", path / "many.db"
        counts = {few: fill(few, FEW), many: fill(many, rows)}
        with open_store(few) as small, open_store(many) as large:
            gets = {}
            for file, store in ((few, small), (many, large)):
                accessors = [store.task_store(scope(number), attempt=2) for number in range(counts[file])]
                gets[file] = _random_get(accessors)
            for file in (few, many):
                _read_through(file)
            measure = f"get among {_name(rows)}"
            warm = steady(f"{measure}, warm", {"ours": gets[many], _name(FEW): gets[few]}, must=2.0)
            warm.note = f"a file of {many.stat().st_size / 1e9:.2f} GB; {warm.note}".removesuffix("; ")
        if not hasattr(os, "posix_fadvise"):
            return [warm]
        return [warm, _cold(f"{measure}, cold", few, many, counts)]


def _random_get(accessors: list[TaskStoreAccessor]) -> Call:
    draw = random.Random(1)
    places = [(draw.choice(accessors), f"k{draw.randrange(KEYS_EACH):05d}") for _ in range(CALLS + 100)]
    for accessor, key in places[:10]:
        assert accessor.get(key) == VALUE

    def get(number: int) -> object:
        accessor, key = places[number]
        return accessor.get(key)

    return get


def _read_through(file: Path) -> None:
    with file.open("rb", buffering=0) as stream:
        while stream.read(1 << 22):
            pass


def _cold(measure: str, few: Path, many: Path, counts: dict[Path, int]) -> Figure:
    """Time first reads: the file is not in memory and the store has only just been opened."""
    draw = random.Random(2)
    times: dict[Path, list[float]] = {few: [], many: []}
    for _ in range(_COLD_READS):
        for file, kept in times.items():
            _drop(file)
            with open_store(file) as store:
                accessor = store.task_store(scope(draw.randrange(counts[file])))
                key = f"k{draw.randrange(KEYS_EACH):05d}"
                before = time.perf_counter_ns()
                accessor.get(key)
                kept.append((time.perf_counter_ns() - before) / 1000)
    note = f"the first read of a store just opened, its file not in memory; {_COLD_READS} of them"
    return Figure(measure, median(times[many]), "us", median(times[few]), _name(FEW), note=note)


def _drop(file: Path) -> None:
    """Have the system forget what it holds of a file in memory."""
    with file.open("rb") as stream:
        os.fsync(stream.fileno())
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _name(rows: int) -> str:
    return f"10^{math.log10(rows):.3g} rows"
