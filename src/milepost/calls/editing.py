"""What people do to entries: pages of lists, and edits that say what they expect to find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from milepost.calls.base import Call, Handle, Item, Stored
from milepost.retention import Retention
from milepost.run_records import InstanceRecord, RunRecord
from milepost.scopes import AssetScope, TaskScope

__all__ = ["DeleteIf", "Edit", "EntryPage", "InstancePage", "Page", "PageRow", "RunPage", "RunRow"]


class PageRow(NamedTuple):
    """A live row, and the map index of the instance that it belongs to; -1 for an asset."""

    map_index: int
    row: Stored


class Page(NamedTuple):
    """The answer to `EntryPage`: rows, and how many there are on all pages, where that was asked for."""

    rows: list[PageRow]
    total: int | None


@dataclass(eq=False, slots=True)
class EntryPage(Call[Page]):
    """One page of the live rows of a task's instances, or of an asset, by map index and key.

    Args:
        scope: The task, or the asset by its number; the map index of a task is not looked at.
        map_indices: Of these instances; `None`: of all.
        prefix: Only keys that start with it.
        after_index: The page begins after ``after`` of this instance.
        after: See there; `None`: from the start.
        offset: How many rows to leave out besides.
        limit: The most rows.
        counted: Whether to count the rows of all pages, which takes as long as there are many.

    Raises:
        InstanceNotFoundError: None of the instances is recorded.
    """

    scope: TaskScope | AssetScope
    map_indices: Sequence[int] | None
    prefix: str
    after_index: int
    after: str | None
    offset: int
    limit: int
    counted: bool


@dataclass(eq=False, slots=True)
class Edit(Call[None]):
    """Write one key of what is recorded already; it records nothing itself.

    Where its own version is there already, it does nothing.

    Args:
        handle: Whose key.
        item: What to write.
        retention: As in `Put`.
        expires_at: The instant of expiry in microseconds UTC, instead of ``retention``.
        keep_expiry: Leave the expiry of a live key as it is.
        expected: The version that must be there.
        present: `True`: the key must be there; `False`: it must be absent.

    Raises:
        InstanceNotFoundError: The instance is not recorded.
        NotFoundError: The key has to be there and is absent.
        VersionConflictError: Another version is there, or one where none should be.
        InvalidValueError: ``expires_at`` has passed.
        AssetNotActiveError: The asset is deactivated.
    """

    repeatable: ClassVar[bool] = False  # another may have written over it meanwhile

    handle: Handle
    item: Item
    retention: Retention = None
    expires_at: int | None = None
    keep_expiry: bool = False
    expected: str | None = None
    present: bool | None = None


@dataclass(eq=False, slots=True)
class DeleteIf(Call[None]):
    """Drop a key if it has the version ``expected``.

    Raises:
        VersionConflictError: It has not, or it is absent.
        AssetNotActiveError: The asset is deactivated.
    """

    repeatable: ClassVar[bool] = False

    handle: Handle
    key: str
    expected: str


class RunRow(NamedTuple):
    """A run, and its number in the order of recording."""

    number: int
    record: RunRecord


@dataclass(eq=False, slots=True)
class RunPage(Call[list[RunRow]]):
    """One page of runs, latest first; `None` selects all.

    Args:
        dag_id: Of this DAG.
        state: In this state.
        prefix: Only run ids that start with it.
        before: Only runs that were recorded before the one of this number.
        limit: The most runs.
    """

    dag_id: str | None
    state: str | None
    prefix: str
    before: int | None
    limit: int


@dataclass(eq=False, slots=True)
class InstancePage(Call[list[InstanceRecord]]):
    """One page of the instances of a run, by task and map index; `None` selects all.

    Args:
        dag_id: The DAG.
        run_id: The run.
        task_id: Of this task.
        state: In this state.
        after_task: The page begins after the instance of this task, …
        after_index: … and of this map index.
        limit: The most instances.
    """

    dag_id: str
    run_id: str
    task_id: str | None
    state: str | None
    after_task: str
    after_index: int
    limit: int
