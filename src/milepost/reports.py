"""What a store tells about itself: collections, numbers, exports and imports."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

__all__ = [
    "CleanReport",
    "DamagedRow",
    "DueKey",
    "StoreStats",
    "TransferReport",
]


@dataclass(frozen=True, slots=True)
class DueKey:
    """One row that a collection would remove.

    Args:
        what: ``expired``, ``retired``, ``changes`` or ``orphans``, as in `CleanReport`.
        owner: The task instance or asset that it belongs to, or that it is, for people; `None` where that is gone.
        key: The key; `None` for an event of the change log without one, and for an asset.

    .. versionadded:: 0.1
    """

    what: str
    owner: str | None
    key: str | None


@dataclass(frozen=True, slots=True)
class CleanReport:
    """What a collection removed, or would remove.

    Args:
        expired: Entries whose explicit retention had passed.
        retired: Entries without explicit retention, older than ``default_retention_days``.
        changes: Entries of the change log and payloads of events past ``archive_days``, and values of assets past
            ``asset_history_limit``.
        dry_run: Whether nothing was removed.
        first: The first keys of each kind, if a dry run was asked for them.
        backend: What became of the entries that a ``[state_store] backend`` keeps, if one does.
        held_by: The collector that was at work, so that this one did nothing.
        orphans: Assets deactivated longer than ``orphan_grace_hours`` ago that nothing reads, with their state.
        swept: The names of the first 1,000 of them.

    .. versionadded:: 0.1
    """

    expired: int
    retired: int
    changes: int
    dry_run: bool
    first: tuple[DueKey, ...] = ()
    backend: str | None = None
    held_by: str | None = None
    orphans: int = 0
    swept: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoreStats:
    """How much a store holds.

    Args:
        schema: The version of its schema.
        bytes: The size of the database.
        runs: Recorded runs.
        instances: Recorded task instances.
        entries: Keys with a value, expired ones included.
        expired: Those of them that have expired and are not yet collected.
        assets: Known assets.
        changes: Rows of the change log.
        results: Results of tasks.
        intents: Jobs that were submitted to other systems, or were about to be: the latest of each key.
        newest: When anything was last written (aware, UTC); `None` in an empty store.

    .. versionadded:: 0.1
    """

    schema: int
    bytes: int
    runs: int
    instances: int
    entries: int
    expired: int
    assets: int
    changes: int
    results: int
    intents: int
    newest: datetime | None


@dataclass(frozen=True, slots=True)
class DamagedRow:
    """One row that an export left out.

    Args:
        kind: ``run``, ``instance``, ``asset``, ``reference``, ``alias``, ``deactivation``, ``staged``, ``task_entry``,
            ``asset_entry``, ``change``, ``result``, ``intent`` or ``replaced``.
        owner: The run, task instance or asset that it is or belongs to, for people; `None` where that is gone.
        key: The key, if it has one.
        reason: What is wrong with it.

    .. versionadded:: 0.1
    """

    kind: str
    owner: str | None
    key: str | None
    reason: str

    def __str__(self) -> str:
        key = "" if self.key is None else f" {self.key!r}"
        owner = "" if self.owner is None else f" of {self.owner}" if self.key is not None else f" {self.owner}"
        return f"{self.kind}{key}{owner}: {self.reason}"


@dataclass(frozen=True, slots=True)
class TransferReport:
    """What an export wrote, or an import read and found again in the store.

    Args:
        counts: Rows by kind (see `DamagedRow`).
        sha256: The checksum of their lines, in hexadecimal digits.
        damaged: Rows that an export left out, because they are damaged.
        first: The first 100 of those.

    .. versionadded:: 0.1
    """

    counts: dict[str, int]
    sha256: str
    damaged: int = 0
    first: tuple[DamagedRow, ...] = ()
