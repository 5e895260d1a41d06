"""Garbage collection (SPEC section 8): which batches to ask for, and in which order."""

from __future__ import annotations

from milepost import calls
from milepost.config import Settings
from milepost.entry import CleanReport
from milepost.program import Program
from milepost.retention import DAY

__all__ = ["DEFAULT_BATCH", "collect"]

DEFAULT_BATCH = 5_000
"""Rows per statement where the configuration leaves it to us: a few milliseconds of lock."""


def collect(settings: Settings, now: int, *, dry_run: bool, batch_size: int | None) -> Program[CleanReport]:
    """Remove what is due, batch by batch; each batch is a transaction of its own, so a kill loses nothing.

    Args:
        settings: Default retention, days that open instances are spared, days that archives are kept, batch size.
        now: The instant on the metastore's clock, in microseconds.
        dry_run: Remove nothing and count instead.
        batch_size: Rows per statement; `None` or 0: as configured.

    Returns:
        What was removed, or would be.
    """
    batch = batch_size or settings.state_cleanup_batch_size or DEFAULT_BATCH
    due = [calls.Collect("expired", batch)]
    if settings.default_retention_days > 0:
        cutoff = now - settings.default_retention_days * DAY
        due.append(calls.Collect("retired", batch, cutoff, now - settings.unfinished_days * DAY))
    due.append(calls.Collect("old_changes", batch, now - settings.archive_days * DAY))
    counts = dict.fromkeys(("expired", "retired", "old_changes"), 0)
    for call in due:
        if dry_run:
            call.batch = None
            counts[call.what] = yield call
            continue
        while True:
            removed = yield call
            counts[call.what] += removed
            if removed < batch:
                break
    return CleanReport(counts["expired"], counts["retired"], counts["old_changes"], dry_run)
