"""Collection, statistics, and the transfer of whole stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from milepost.calls.base import Call
from milepost.reports import DueKey, StoreStats

__all__ = [
    "LOGS",
    "Collect",
    "CollectBackend",
    "Due",
    "ExportRows",
    "Holdings",
    "ImportRows",
    "Stats",
    "TakeLease",
]


LOGS: Final = ("old_changes", "old_events", "excess")
"""What a collection removes of what was logged; reports count it together."""


@dataclass(eq=False, slots=True)
class TakeLease(Call[str | None]):
    """Take or renew work that one process at a time does for all; the other holder if it is taken, otherwise `None`.

    Args:
        name: The work.
        holder: Who wants it.
        ttl: Seconds until the lease ends unless it is renewed; `None` gives it up.
    """

    name: str
    holder: str
    ttl: float | None


@dataclass(eq=False, slots=True)
class Collect(Call[int]):
    """Remove one bounded batch of what is due; how many rows went. Fewer than ``batch``: done.

    Args:
        what: ``expired``, ``retired``, or one of `LOGS` (see `CleanReport`; of ``old_events``, the payloads); without
            ``batch`` also ``orphans``, which `Sweep` removes.
        batch: The most rows; `None`: remove nothing and return how many are due.
        cutoff: For ``retired``, ``orphans``, ``old_changes`` and ``old_events``: what was last updated, deactivated or
            logged before this instant is due (microseconds UTC).
        unfinished_cutoff: For ``retired``: open instances with a sign of life since then are spared.
        keep: For ``excess``: earlier values to keep per key of an asset.
    """

    what: str
    batch: int | None
    cutoff: int = 0
    unfinished_cutoff: int = 0
    keep: int = 0


@dataclass(eq=False, slots=True)
class Due(Call[list[DueKey]]):
    """The first ``limit`` rows that `Collect` would remove; arguments as there."""

    what: str
    limit: int
    cutoff: int = 0
    unfinished_cutoff: int = 0
    keep: int = 0


@dataclass(eq=False, slots=True)
class CollectBackend(Call[str | None]):
    """Have a user's backend remove what has expired of the entries that it keeps.

    Returns:
        What became of them, in a few words; `None` where the metastore itself keeps the entries.
    """

    dry_run: bool = False


@dataclass(eq=False, slots=True)
class Stats(Call[StoreStats]):
    """How much the store holds, from one moment. Reads whole tables."""


@dataclass(eq=False, slots=True)
class Holdings(Call[list[str]]):
    """What the store holds any of: ``runs``, ``assets``, ``entries``, ``changes``, ``results``, ``incarnations``."""


@dataclass(eq=False, slots=True)
class ExportRows(Call[tuple[list[tuple[Any, ...]], tuple[Any, ...] | None]]):
    """One page of rows in the order of recording, and where the next one begins; `None`: this was the last.

    Rows are as stored, damaged ones too: an owner is written out, `None` where it is gone. The columns of each kind are
    those of `milepost.transfer.FIELDS`; a row of the change log begins with the numbers that this store gave it and its
    event.

    Args:
        kind: ``run``, ``instance``, ``asset``, ``task_entry``, ``asset_entry``, ``change``, ``result``, ``intent`` or
            ``replaced``.
        after: Where the page begins, from the answer to the call before.
        limit: The most rows.
    """

    kind: str
    after: tuple[Any, ...] | None
    limit: int


@dataclass(eq=False, slots=True)
class ImportRows(Call[dict[int, int]]):
    """Record rows as they were in another store. Runs come before their instances, owners before what they own.

    The answer holds, for rows of the change log that others refer to, the numbers that they have here by those in the rows.

    Args:
        kind: As in `ExportRows`.
        rows: Rows with the columns of `milepost.transfer.FIELDS`.
        events: Answers of earlier calls.
    """

    repeatable: ClassVar[bool] = False

    kind: str
    rows: Sequence[tuple[Any, ...]]
    events: dict[int, int] = field(default_factory=dict)
