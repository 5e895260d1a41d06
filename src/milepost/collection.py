"""Garbage collection (SPEC section 8): which batches to ask for, and in which order."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from milepost import calls
from milepost.calls import new_version
from milepost.config import Settings
from milepost.program import Program
from milepost.reports import CleanReport, DueKey
from milepost.retention import DAY

__all__ = ["DEFAULT_BATCH", "SWEPT_NAMES", "Progress", "collect"]

LEASE = "collection"
LEASE_SECONDS = 60.0
"""How long a collector that was killed keeps others away."""

DEFAULT_BATCH = 5_000
"""Rows per statement where the configuration leaves it to us: a few milliseconds of lock."""

SWEPT_NAMES = 1_000
"""The most swept assets that a report names."""

HOUR = DAY // 24
"""Microseconds in an hour."""

Progress = Callable[[str, int, int], None]
"""Called with the kind (``expired``, ``retired``, ``changes``, ``orphans``), rows removed so far, and rows due at the start.
Of orphans, assets are counted."""


def collect(
    settings: Settings,
    *,
    dry_run: bool,
    batch_size: int | None,
    first: int = 0,
    progress: Progress | None = None,
    batches: int | None = None,
    writer: str = "python",
) -> Program[CleanReport]:
    """Remove what is due, batch by batch; each batch is a transaction of its own, so a kill loses nothing.

    Args:
        settings: Default retention, days that open instances are spared, days that archives are kept, batch size.
        dry_run: Remove nothing and count instead.
        batch_size: Rows per statement; `None` or 0: as configured.
        first: The most keys of each kind that a dry run names.
        progress: Told after each batch how far it is.
        batches: The most batches of each kind; `None`: until nothing is due.
        writer: Who is on record for the sweep, as rows hold it.

    Returns:
        What was removed, or would be. While another collector is at work: nothing, and who that is.
    """
    batch = batch_size or settings.state_cleanup_batch_size or DEFAULT_BATCH
    counts: dict[str, int] = defaultdict(int)
    named: list[DueKey] = []
    swept: list[str] = []
    import socket

    now = yield calls.Now()
    holder = f"{socket.gethostname()}/{os.getpid()}/{new_version()}"
    if not dry_run and (other := (yield calls.TakeLease(LEASE, holder, LEASE_SECONDS))) is not None:
        return CleanReport(0, 0, 0, dry_run, held_by=other)
    try:
        for call in _due(settings, now, batch, little=batches is not None):
            if dry_run or progress is not None:
                counts[call.what] = yield replace(call, batch=None)
            if dry_run:
                if first:
                    named += yield calls.Due(call.what, first, call.cutoff, call.unfinished_cutoff, call.keep)
                if call.what == "orphans":
                    due: list[DueKey] = yield calls.Due(call.what, SWEPT_NAMES, call.cutoff)
                    swept += [one.owner or "" for one in due]
                continue
            work = _orphans(call, writer, swept) if call.what == "orphans" else _rows(call)
            counts[call.what] = yield from _remove(work, counts[call.what], progress, batches, holder)
        backend = yield calls.CollectBackend(dry_run)
    finally:
        # Also after an error or an interrupt: `program.run` throws them in here.
        if not dry_run:
            yield calls.TakeLease(LEASE, holder, None)
    return CleanReport(
        expired=counts["expired"],
        retired=counts["retired"],
        changes=sum(counts[what] for what in calls.LOGS),
        dry_run=dry_run,
        first=tuple(named),
        backend=backend,
        orphans=counts["orphans"],
        swept=tuple(swept),
    )


def _due(settings: Settings, now: int, batch: int, *, little: bool) -> list[calls.Collect]:
    due = [calls.Collect("expired", batch)]
    if settings.default_retention_days > 0:
        cutoff = now - settings.default_retention_days * DAY
        due.append(calls.Collect("retired", batch, cutoff, now - settings.unfinished_days * DAY))
    due.append(calls.Collect("old_changes", batch, now - settings.archive_days * DAY))
    if not little:  # these read all events and the history of all assets, of which there is hardly ever too much
        due.append(calls.Collect("old_events", batch, now - settings.archive_days * DAY))
        due.append(calls.Collect("excess", batch, keep=settings.asset_history_limit))
    due.append(calls.Collect("orphans", batch, now - settings.orphan_grace_hours * HOUR))
    return due


class _Work(NamedTuple):
    """A kind of rows that goes batch by batch.

    Args:
        what: The kind, as progress names it.
        step: Removes a batch: how many of the kind went, and whether that was the last.
    """

    what: str
    step: Callable[[], Program[tuple[int, bool]]]


def _rows(call: calls.Collect) -> _Work:
    """Return the work on rows of one kind."""

    def step() -> Program[tuple[int, bool]]:
        removed: int = yield call
        return removed, removed < (call.batch or 0)

    return _Work("changes" if call.what in calls.LOGS else call.what, step)


def _orphans(call: calls.Collect, writer: str, swept: list[str]) -> _Work:
    """Return the work on orphaned assets, which tells their names to ``swept``."""

    def step() -> Program[tuple[int, bool]]:
        gone: calls.Swept = yield calls.Sweep(call.batch or 1, call.cutoff, writer)
        if gone.asset is not None and len(swept) < SWEPT_NAMES:
            swept.append(str(gone.asset))
        return int(gone.asset is not None), gone.rows == 0

    return _Work(call.what, step)


def _remove(work: _Work, due: int, progress: Progress | None, batches: int | None, holder: str) -> Program[int]:
    """Remove all of one kind, or as much as ``batches`` allows; how much went."""
    count = done = 0
    renewed = time.monotonic()
    while True:
        removed, last = yield from work.step()
        count += removed
        done += 1
        if progress is not None:
            progress(work.what, count, due)
        if last or done == batches:
            return count
        if time.monotonic() - renewed > LEASE_SECONDS / 4:
            yield calls.TakeLease(LEASE, holder, LEASE_SECONDS)
            renewed = time.monotonic()
