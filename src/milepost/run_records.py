"""What a store tells about task instances and runs: records, outcomes, archives."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from milepost.entry import InstanceState, Writer
from milepost.scopes import Scope, TaskScope

__all__ = [
    "Archive",
    "InstanceRecord",
    "Outcome",
    "RunEvent",
    "RunRecord",
]


@dataclass(frozen=True, slots=True)
class InstanceRecord:
    """What is recorded of one task instance.

    Args:
        scope: The task instance.
        state: Its state; ``none`` where it was never opened.
        attempt: The latest attempt that was opened; 0 for none.
        incarnation: The recorded incarnation of its run.
        item_name: A name for the mapped item, where the host gave one.
        created_at: When it was first recorded (aware, UTC); so are the next three.
        opened_at: When the latest attempt was opened.
        finished_at: When that attempt ended; `None` while it runs.
        updated_at: When the record last changed.
        damaged: What of the stored record cannot be read, `None` for a sound one. Times that cannot be read stand at the
            epoch.

    .. versionadded:: 0.1
    """

    scope: TaskScope
    state: InstanceState
    attempt: int
    incarnation: str | None
    item_name: str | None
    created_at: datetime
    opened_at: datetime | None
    finished_at: datetime | None
    updated_at: datetime
    damaged: str | None = None


@dataclass(frozen=True, slots=True)
class RunEvent:
    """The event that started a run.

    Args:
        id: Tells it from every other event of the asset.
        watcher: The watcher that saw it.
        asset: The name of the asset that it is about; `None` where that is gone.
        uri: Its URI.

    .. versionadded:: 0.1
    """

    id: str
    watcher: str
    asset: str | None
    uri: str | None


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What is recorded of one run.

    Args:
        dag_id: The DAG.
        run_id: The run.
        incarnation: Its incarnation, where one was given.
        state: ``running``, ``success`` or ``failed`` where a runner drove it, otherwise `None`.
        params: The run's parameters as JSON text.
        logical_date: The instant that the run stands for (aware, UTC).
        holder: The runner that holds it.
        held_until: Until when, unless it is renewed (aware, UTC).
        created_at: When it was first recorded (aware, UTC).
        updated_at: When the record last changed (aware, UTC).
        event: The event that started it, if one did.
        damaged: As in `InstanceRecord`.

    .. versionadded:: 0.1
    """

    dag_id: str
    run_id: str
    incarnation: str | None
    state: str | None
    params: str | None
    logical_date: datetime | None
    holder: str | None
    held_until: datetime | None
    created_at: datetime
    updated_at: datetime
    event: RunEvent | None = None
    damaged: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt failed, or what became of a task that a run ended without starting.

    Args:
        scope: The task instance; a task that was not started has the map index -1.
        attempt: The attempt; 0: the task was not started.
        state: ``failed``, ``up_for_retry``; of a task that was not started also ``skipped`` and ``upstream_failed``.
        error: One line of at most 1,000 characters that says why, if known.
        at: When (aware, UTC).

    .. versionadded:: 0.1
    """

    scope: TaskScope
    attempt: int
    state: str
    error: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class Archive:
    """State that a clear, a delete, a changed item or a new incarnation set aside.

    Args:
        id: Names the archive in `Instances.restore` or `Assets.restore`.
        scope: The task instance or asset.
        cause: Why: ``clear``, ``clear_keys``, ``item_changed``, ``new_incarnation``, ``restore``,
            ``restore_keys``, ``delete``.
        at: When (aware, UTC).
        writer: Who caused it.
        keys: The keys in it, sorted.
        damaged: What of the row cannot be read, `None` for a sound one. A time stands at the epoch then, and a writer is
            ``python``.

    .. versionadded:: 0.1
    """

    id: int
    scope: Scope
    cause: str
    at: datetime
    writer: Writer
    keys: tuple[str, ...]
    damaged: str | None = None
