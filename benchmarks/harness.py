"""What the scripts share: the sample, timing by turns, figures, the table.

The two sides of a ratio are always timed in one process and by turns, so that whatever else the machine does meets both.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import milepost
from milepost import TaskScope

__all__ = [
    "CALLS",
    "KEYS",
    "VALUE",
    "Figure",
    "folder",
    "keep",
    "median",
    "open_store",
    "race",
    "steady",
    "table",
    "task_store",
]

VALUE = {"page": 1, "status": "running", "rows": 12345}
KEYS = [f"k{number}" for number in range(50)]
CALLS = 3_000
"""Timed calls of each side."""

_BLOCK = 50
"""Calls before it is the other side's turn."""
_SETTLED = 0.10
"""Runs are repeated until the ratios of their two halves differ by no more than this share."""
_RUNS = 4

_REPOSITORY = Path(__file__).resolve().parent.parent
_RESULTS = Path(__file__).resolve().parent / "results"

Call = Callable[[int], object]
Samples = dict[str, list[float]]


@dataclass
class Figure:
    """One line of the table.

    Args:
        measure: What was measured.
        ours: Milepost's median, in ``unit``.
        unit: ``us`` or ``ms``.
        peer: The other side's median.
        peer_name: Who the other side is.
        must: What is to be reached, if anything: the most that ``value`` may be.
        judged: What ``value`` is: ``ratio`` of ours to the peer's, ``more`` by which ours is longer, or ``alone``: ours.
        note: A word on how it came about.
        spread: The quartiles of ours and of the peer's samples, for the record.
    """

    measure: str
    ours: float
    unit: str = "us"
    peer: float | None = None
    peer_name: str = ""
    must: float | None = None
    judged: str = "ratio"
    note: str = ""
    spread: dict[str, list[float]] = field(default_factory=dict)

    @property
    def value(self) -> float | None:
        """What is compared with ``must``."""
        if self.judged == "alone":
            return self.ours
        if self.peer is None:
            return None
        return self.ours / self.peer if self.judged == "ratio" else self.ours - self.peer

    @property
    def reached(self) -> bool | None:
        """Whether it is what it must be; `None` where nothing is asked."""
        return None if self.must is None or self.value is None else self.value <= self.must

    def cells(self) -> list[str]:
        """Return the cells of its line."""
        peer = "" if self.peer is None else f"{self.peer:.1f} {self.unit} ({self.peer_name})"
        return [
            self.measure,
            f"{self.ours:.1f} {self.unit}",
            peer,
            "" if self.judged == "alone" else self._shown(self.value),
            "" if self.must is None else f"≤ {self._shown(self.must)}",
            {True: "yes", False: "NO", None: ""}[self.reached],
        ]

    def because(self) -> str:
        """Return why it is not reached, as far as a figure can tell."""
        load = os.getloadavg()[0]
        busy = f"; the machine was busy (load {load:.1f}), so run it again" if load > 1.5 else ""
        return f"{self._shown(self.value)} where at most {self._shown(self.must)} was wanted{busy}"

    def _shown(self, value: float | None) -> str:
        if value is None:
            return ""
        return f"{value:.2f} x" if self.judged == "ratio" else f"{'+' * (self.judged == 'more')}{value:.0f} {self.unit}"


def median(samples: list[float]) -> float:
    return statistics.median(samples)


def _quartiles(samples: list[float]) -> list[float]:
    return [round(part, 2) for part in statistics.quantiles(samples, n=4)]


def race(sides: dict[str, Call], calls: int = CALLS, block: int = _BLOCK) -> Samples:
    """Time calls of several sides by turns, after a block of each that does not count.

    Args:
        sides: What to call, by name; it gets a running number.
        calls: Timed calls of each side.
        block: Calls of one turn.

    Returns:
        The times in microseconds, in the order of the calls.
    """
    clock = time.perf_counter_ns
    times: Samples = {name: [] for name in sides}
    for start in range(-block, calls, block):
        for name, call in sides.items():
            kept = times[name]
            for number in range(max(start, 0), max(start, 0) + block):
                before = clock()
                call(number)
                after = clock()
                if start >= 0:
                    kept.append((after - before) / 1000)
    return times


def steady(
    measure: str,
    sides: dict[str, Call],
    *,
    must: float | None = None,
    calls: int = CALLS,
    block: int = _BLOCK,
    note: str = "",
) -> Figure:
    """Race two sides, ours first, and again while the run is restless; the calmest run counts.

    Returns:
        The figure of the run whose two halves agree best.
    """
    ours, peer = sides
    best: tuple[float, Samples] | None = None
    for _ in range(_RUNS):
        times = race(sides, calls, block)
        middle = calls // 2
        first, second = (
            median(times[ours][part]) / median(times[peer][part]) for part in (slice(middle), slice(middle, None))
        )
        unrest = abs(first - second) / min(first, second)
        if best is None or unrest < best[0]:
            best = unrest, times
        if unrest <= _SETTLED:
            break
    assert best is not None
    unrest, times = best
    if unrest > _SETTLED:
        note = f"{note}; restless: the halves of the run differ by {unrest:.0%}".lstrip("; ")
    spread = {name: _quartiles(samples) for name, samples in times.items()}
    return Figure(measure, median(times[ours]), "us", median(times[peer]), peer, must, note=note, spread=spread)


@contextmanager
def folder() -> Iterator[Path]:
    """Make a folder for the files of one script, on a disk: in ``BENCH_DIR``, or beside the repository."""
    base = Path(os.environ.get("BENCH_DIR") or _REPOSITORY.parent)
    base.mkdir(parents=True, exist_ok=True)
    path = Path(tempfile.mkdtemp(prefix="milepost-bench-", dir=base))
    if _in_memory(path):
        print(f"note: {path} is in memory, so figures at synchronous=FULL mean nothing; set BENCH_DIR to a folder on a disk")
    try:
        yield path
    finally:
        shutil.rmtree(path)


def _in_memory(path: Path) -> bool:
    mounts = Path("/proc/self/mounts")
    if not mounts.exists():
        return False
    kinds = {line.split()[1]: line.split()[2] for line in mounts.read_text().splitlines()}
    nearest = next((str(place) for place in (path, *path.parents) if str(place) in kinds), "/")
    return kinds.get(nearest) in ("tmpfs", "ramfs")


def open_store(path: Path, synchronous: str = "full") -> milepost.Store:
    return milepost.connect(f"sqlite:///{path}", synchronous=synchronous)


def task_store(store: milepost.Store, keys: list[str] = KEYS) -> milepost.TaskStoreAccessor:
    """Return the accessor of an attempt, with all keys set."""
    accessor = store.task_store(TaskScope("bench", "run", "task"), attempt=1)
    accessor.set_many(dict.fromkeys(keys, VALUE))
    return accessor


def keep(name: str, figures: list[Figure]) -> None:
    """Write the figures of one script to ``results/<name>.local.json``."""
    _RESULTS.mkdir(exist_ok=True)
    records = [{**asdict(figure), "value": figure.value, "reached": figure.reached} for figure in figures]
    record = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "load": os.getloadavg(), "figures": records}
    (_RESULTS / f"{name}.local.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def table(figures: list[Figure]) -> str:
    """Return the figures as a table that is Markdown too."""
    rows = [["measure", "ours", "peer", "ratio", "must", "reached"], *(figure.cells() for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)
