"""Garbage collection (SPEC section 8): which batches to ask for, and in which order."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace

from milepost import calls
from milepost.calls import new_version
from milepost.config import Settings
from milepost.entry import CleanReport, DueKey
from milepost.program import Program
from milepost.retention import DAY

__all__ = ["DEFAULT_BATCH", "Progress", "collect"]

LEASE = "collection"
LEASE_SECONDS = 60.0
"""How long a collector that was killed keeps others away."""

DEFAULT_BATCH = 5_000
"""Rows per statement where the configuration leaves it to us: a few milliseconds of lock."""


Progress = Callable[[str, int, int], None]
"""Called with the kind (``expired``, ``retired``, ``changes``), rows removed so far, and rows due at the start."""


def collect(
    settings: Settings,
    *,
    dry_run: bool,
    batch_size: int | None,
    first: int = 0,
    progress: Progress | None = None,
    batches: int | None = None,
) -> Program[CleanReport]:
    """Remove what is due, batch by batch; each batch is a transaction of its own, so a kill loses nothing.

    Args:
        settings: Default retention, days that open instances are spared, days that archives are kept, batch size.
        dry_run: Remove nothing and count instead.
        batch_size: Rows per statement; `None` or 0: as configured.
        first: The most keys of each kind that a dry run names.
        progress: Told after each batch how far it is.
        batches: The most batches of each kind; `None`: until nothing is due.

    Returns:
        What was removed, or would be. While another collector is at work: nothing, and who that is.
    """
    batch = batch_size or settings.state_cleanup_batch_size or DEFAULT_BATCH
    counts = {"expired": 0, "retired": 0, "old_changes": 0}
    named: list[DueKey] = []
    import socket

    now = yield calls.Now()
    holder = f"{socket.gethostname()}/{os.getpid()}/{new_version()}"
    if not dry_run and (other := (yield calls.TakeLease(LEASE, holder, LEASE_SECONDS))) is not None:
        return CleanReport(0, 0, 0, dry_run, held_by=other)
    try:
        for call in _due(settings, now, batch):
            if dry_run or progress is not None:
                counts[call.what] = yield replace(call, batch=None)
            if dry_run:
                if first:
                    named += yield calls.Due(call.what, first, call.cutoff, call.unfinished_cutoff)
                continue
            counts[call.what] = yield from _remove(call, counts[call.what], progress, batches, holder)
        backend = yield calls.CollectBackend(dry_run)
    finally:
        # Also after an error or an interrupt: `program.run` throws them in here.
        if not dry_run:
            yield calls.TakeLease(LEASE, holder, None)
    return CleanReport(counts["expired"], counts["retired"], counts["old_changes"], dry_run, tuple(named), backend)


def _due(settings: Settings, now: int, batch: int) -> list[calls.Collect]:
    due = [calls.Collect("expired", batch)]
    if settings.default_retention_days > 0:
        cutoff = now - settings.default_retention_days * DAY
        due.append(calls.Collect("retired", batch, cutoff, now - settings.unfinished_days * DAY))
    due.append(calls.Collect("old_changes", batch, now - settings.archive_days * DAY))
    return due


def _remove(call: calls.Collect, due: int, progress: Progress | None, batches: int | None, holder: str) -> Program[int]:
    """Remove all of one kind, or as much as ``batches`` allows; how many rows went."""
    assert call.batch is not None
    count = done = 0
    renewed = time.monotonic()
    while True:
        removed: int = yield call
        count += removed
        done += 1
        if progress is not None:
            progress("changes" if call.what == "old_changes" else call.what, count, due)
        if removed < call.batch or done == batches:
            return count
        if time.monotonic() - renewed > LEASE_SECONDS / 4:
            yield calls.TakeLease(LEASE, holder, LEASE_SECONDS)
            renewed = time.monotonic()
