"""Garbage collection (SPEC section 8): which batches to ask for, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from milepost import calls
from milepost.config import Settings
from milepost.entry import CleanReport, DueKey
from milepost.program import Program
from milepost.retention import DAY

__all__ = ["DEFAULT_BATCH", "Progress", "collect"]

DEFAULT_BATCH = 5_000
"""Rows per statement where the configuration leaves it to us: a few milliseconds of lock."""


Progress = Callable[[str, int, int], None]
"""Called with the kind (``expired``, ``retired``, ``changes``), rows removed so far, and rows due at the start."""


def collect(
    settings: Settings,
    now: int,
    *,
    dry_run: bool,
    batch_size: int | None,
    first: int = 0,
    progress: Progress | None = None,
) -> Program[CleanReport]:
    """Remove what is due, batch by batch; each batch is a transaction of its own, so a kill loses nothing.

    Args:
        settings: Default retention, days that open instances are spared, days that archives are kept, batch size.
        now: The instant on the metastore's clock, in microseconds.
        dry_run: Remove nothing and count instead.
        batch_size: Rows per statement; `None` or 0: as configured.
        first: The most keys of each kind that a dry run names.
        progress: Told after each batch how far it is.

    Returns:
        What was removed, or would be.
    """
    batch = batch_size or settings.state_cleanup_batch_size or DEFAULT_BATCH
    counts = {"expired": 0, "retired": 0, "old_changes": 0}
    named: list[DueKey] = []
    for call in _due(settings, now, batch):
        if dry_run or progress is not None:
            counts[call.what] = yield replace(call, batch=None)
        if dry_run:
            if first:
                named += yield calls.Due(call.what, first, call.cutoff, call.unfinished_cutoff)
            continue
        counts[call.what] = yield from _remove(call, counts[call.what], progress)
    backend = yield calls.CollectBackend(dry_run)
    return CleanReport(counts["expired"], counts["retired"], counts["old_changes"], dry_run, tuple(named), backend)


def _due(settings: Settings, now: int, batch: int) -> list[calls.Collect]:
    due = [calls.Collect("expired", batch)]
    if settings.default_retention_days > 0:
        cutoff = now - settings.default_retention_days * DAY
        due.append(calls.Collect("retired", batch, cutoff, now - settings.unfinished_days * DAY))
    due.append(calls.Collect("old_changes", batch, now - settings.archive_days * DAY))
    return due


def _remove(call: calls.Collect, due: int, progress: Progress | None) -> Program[int]:
    """Remove all of one kind; how many rows went."""
    assert call.batch is not None
    count = 0
    while True:
        removed: int = yield call
        count += removed
        if progress is not None:
            progress("changes" if call.what == "old_changes" else call.what, count, due)
        if removed < call.batch:
            return count
