"""The life of task instances and runs, but for their attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple

from milepost.calls.base import Call
from milepost.run_records import Archive, InstanceRecord, Outcome, RunRecord
from milepost.scopes import TaskScope

__all__ = [
    "MAX_RESULT_BYTES",
    "Archives",
    "BeginRun",
    "ClearInstances",
    "Cleared",
    "DeleteRun",
    "Expand",
    "Expanded",
    "GetResults",
    "HoldRun",
    "ListInstances",
    "ListOutcomes",
    "ListRuns",
    "PutResult",
    "Restore",
]

MAX_RESULT_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of what one task instance returns."""


@dataclass(eq=False, slots=True)
class Expanded:
    """The answer to `Expand`."""

    compare: list[int] = field(default_factory=list)
    """Positions whose items are needed first; nothing has been written."""
    discarded: list[TaskScope] = field(default_factory=list)
    """Instances that were started over."""
    warnings: list[str] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Expand(Call[Expanded]):
    """Tell of which items a mapped task has instances from now on. One transaction.

    If the list was computed anew, instances that were opened for another item, and those past its end, are started over:
    keys archived, fence raised, result dropped. For the same computation as before: nothing.

    Args:
        dag_id: The DAG.
        run_id: The run.
        task_id: The mapped task.
        expansion: Tells one computation of the list from another.
        length: The number of items.
        items: The fingerprints by position, `None` for no guard; without them the answer may be that they are needed.
        writer: Who tells it, as rows hold it.

    Raises:
        RunNotFoundError: No such run.
    """

    dag_id: str
    run_id: str
    task_id: str
    expansion: str
    length: int
    items: Mapping[int, str | None] | None
    writer: str


class Cleared(NamedTuple):
    """The answer to `ClearInstances`: how many instances, and which of them lost their keys."""

    instances: int
    discarded: list[TaskScope]


@dataclass(eq=False, slots=True)
class ClearInstances(Call[Cleared]):
    """Start over: archive or keep the keys and raise the fence, of one instance or of a whole run.

    With ``attempt``, only while that is the current attempt of the instance.

    Raises:
        InstanceNotFoundError: No such instance.
        RunNotFoundError: No such run.
        StaleAttemptError: ``attempt`` is not the current one.
    """

    repeatable: ClassVar[bool] = False

    dag_id: str
    run_id: str
    scope: TaskScope | None
    keep: bool | None
    writer: str
    attempt: int | None = None


@dataclass(eq=False, slots=True)
class Archives(Call[list[Archive]]):
    """What was set aside for an instance, newest first."""

    scope: TaskScope


@dataclass(eq=False, slots=True)
class Restore(Call[int]):
    """Bring an archive back (default: the newest with keys); the number of live keys it held.

    Raises:
        InstanceNotFoundError: No such instance.
        ArchiveNotFoundError: No such archive.
        InstanceStateError: An attempt runs; or ``force`` is not set and there are live keys, or an attempt of a runner that
            is gone is recorded as running.
    """

    repeatable: ClassVar[bool] = False

    scope: TaskScope
    archive: int | None
    force: bool
    writer: str


@dataclass(eq=False, slots=True)
class DeleteRun(Call[list[TaskScope]]):
    """Remove all of a run's task rows; the instances that are gone. Asset state stays.

    Args:
        dag_id: The DAG.
        run_id: The run.
        writer: Who does it, as rows hold it.
        incarnation: Only if this is the recorded one; `None`: whichever that is.

    Raises:
        RunNotFoundError: No such run.
        StaleAttemptError: It has another incarnation.
    """

    repeatable: ClassVar[bool] = False

    dag_id: str
    run_id: str
    writer: str
    incarnation: str | None = None


@dataclass(eq=False, slots=True)
class ListInstances(Call[list[InstanceRecord]]):
    """Records by run (in the order of recording), task and map index; `None` selects all."""

    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    map_index: int | None = None
    state: str | None = None


@dataclass(eq=False, slots=True)
class BeginRun(Call[RunRecord]):
    """Record a run if it is new and take it for a runner until ``ttl`` seconds from now.

    ``params`` and ``logical_date`` are kept from the first time. A run in state ``success`` is returned as it is, not
    taken, unless ``again``.

    Raises:
        RunHeldError: Another runner's hold is valid and its name is not ``dead_holder``.
    """

    dag_id: str
    run_id: str
    holder: str
    ttl: float
    params: str | None = None
    logical_date: int | None = None
    dead_holder: str | None = None
    again: bool = False


@dataclass(eq=False, slots=True)
class HoldRun(Call[None]):
    """Renew a hold, or with ``ttl`` `None` give it up; ``state`` records how the run stands.

    ``unstarted``: what became of tasks that the run ended without starting, as (task, state, reason).

    Raises:
        RunHeldError: The hold is no longer ours.
    """

    dag_id: str
    run_id: str
    holder: str
    ttl: float | None
    state: str | None = None
    unstarted: Sequence[tuple[str, str, str | None]] = ()


@dataclass(eq=False, slots=True)
class ListRuns(Call[list[RunRecord]]):
    """Records, latest first; `None` selects all."""

    dag_id: str | None = None
    run_id: str | None = None
    state: str | None = None
    limit: int | None = None


@dataclass(eq=False, slots=True)
class ListOutcomes(Call[list[Outcome]]):
    """How attempts of a run failed, and the tasks that it ended without starting, by task, map index and attempt."""

    dag_id: str
    run_id: str


@dataclass(eq=False, slots=True)
class PutResult(Call[None]):
    """Store what an attempt returned, over any earlier result.

    Raises:
        StaleAttemptError: The attempt is not the current one.
    """

    scope: TaskScope
    attempt: int
    text: str
    incarnation: str | None = None


@dataclass(eq=False, slots=True)
class GetResults(Call[dict[int, str]]):
    """Results of a task in a run by map index."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int | None = None
