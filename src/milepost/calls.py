"""What can be asked of a metastore: one small value per call.

A call is made of plain data, so that the same value can be run against SQLite, against another database or sent over
HTTP. What each call does, its atomicity and its errors are written here; this is the contract that every metastore
fulfils and that the contract suite checks.

Entries travel as text with an encoding number beside it (0: plain JSON). All calls on entries take a `Handle`.
"Absent" includes expired.

Calls are not compared, so they have no ``__eq__``: made at every start, thirty of them take time.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from milepost.entry import Archive, DueKey, InstanceRecord, RunRecord, StoreStats, TaskOptions
from milepost.retention import Retention
from milepost.scopes import AssetScope, TaskScope

__all__ = [
    "PLAIN",
    "Archives",
    "BeginRun",
    "Call",
    "Check",
    "Clear",
    "ClearInstances",
    "Cleared",
    "Collect",
    "CollectBackend",
    "Count",
    "Delete",
    "DeleteRun",
    "Due",
    "ExportRows",
    "FindAsset",
    "Finish",
    "Get",
    "GetMany",
    "GetResults",
    "Handle",
    "HoldRun",
    "Holdings",
    "ImportRows",
    "Increment",
    "Item",
    "Items",
    "Keys",
    "ListInstances",
    "ListRuns",
    "Now",
    "Open",
    "PastRun",
    "Put",
    "PutDefault",
    "PutIf",
    "PutResult",
    "Read",
    "Restore",
    "Stats",
    "Stored",
    "TakeLease",
    "Touch",
    "new_version",
]

PLAIN: Final = 0
"""The encoding of a row whose value is the JSON text itself."""

R_co = TypeVar("R_co", covariant=True)


def new_version() -> str:
    """Draw a version: 96 random bits, so no two writes ever share one."""
    return os.urandom(12).hex()


class Handle:
    """One accessor's view of one owner of keys. Calls may cache the owner's number in it.

    Args:
        scope: The task instance or the asset.
        writer: The writer as rows hold it (`Writer.encode`).
        logged: Whether deletes and edits of task state go to the change log (people's do).
        instance_id: The number of the task instance behind the calls, where an attempt makes them.
        fence: The fence that this attempt holds; `None` with ``instance_id`` `None`: unfenced.
        attempt: That attempt, for messages.
        owner_id: The number under which the owner's keys are stored, once known.
        fixed: Whether it is this owner and no other, should one be recorded anew under the scope.
    """

    __slots__ = ("attempt", "fence", "fixed", "instance_id", "logged", "owner_id", "scope", "writer")

    def __init__(
        self,
        scope: TaskScope | AssetScope,
        writer: str,
        *,
        logged: bool = False,
        instance_id: int | None = None,
        fence: int | None = None,
        attempt: int | None = None,
        owner_id: int | None = None,
        fixed: bool = False,
    ) -> None:
        self.scope = scope
        self.writer = writer
        self.logged = logged
        self.instance_id = instance_id
        self.fence = fence
        self.attempt = attempt
        self.owner_id = owner_id
        self.fixed = fixed


class Stored(NamedTuple):
    """A live row, as stored."""

    key: Any
    value: Any
    encoding: Any
    version: Any
    created_at: Any
    updated_at: Any
    expires_at: Any
    default_day: Any
    writer: Any


class Item(NamedTuple):
    """One value to write: key, text, encoding, and the version that the writer drew."""

    key: str
    text: str
    encoding: int
    version: str


class Call(Generic[R_co]):
    """The base of all calls; ``R_co`` is what the answer is.

    ``repeatable``: running the call twice in a row is as good as running it once, so that it may be sent again where nobody
    knows whether it took effect. The others raise `OutcomeUnknownError` then.
    """

    __slots__ = ()
    repeatable: ClassVar[bool] = True


@dataclass(eq=False, slots=True)
class Now(Call[int]):
    """The instant on the clock that expiry is counted on, in microseconds UTC."""


@dataclass(eq=False, slots=True)
class Check(Call[None]):
    """Make sure that the handle may write; ``record``: also record its instance if it is not recorded yet.

    Raises:
        StaleAttemptError: The attempt is not the current one.
    """

    handle: Handle
    record: bool = False


@dataclass(eq=False, slots=True)
class Get(Call[tuple[Any, Any] | None]):
    """Text and encoding of a live key, or `None`.

    An attempt that is stale never gets `None`: it gets a stored value or `StaleAttemptError`. This holds for all reads.
    """

    handle: Handle
    key: str


@dataclass(eq=False, slots=True)
class Read(Call[Stored | None]):
    """The whole row of a live key, or `None`."""

    handle: Handle
    key: str


@dataclass(eq=False, slots=True)
class GetMany(Call[list[tuple[Any, Any, Any]]]):
    """Key, text and encoding of those keys that are live, from one moment, in no order."""

    handle: Handle
    keys: Sequence[str]


@dataclass(eq=False, slots=True)
class Keys(Call[list[Any]]):
    """The live keys that start with ``prefix``, by code point. Never loads values."""

    handle: Handle
    prefix: str = ""


@dataclass(eq=False, slots=True)
class Items(Call[list[Stored]]):
    """The live rows whose keys start with ``prefix``, from one moment, by code point."""

    handle: Handle
    prefix: str = ""


@dataclass(eq=False, slots=True)
class Count(Call[int]):
    """The number of live keys."""

    handle: Handle


@dataclass(eq=False, slots=True)
class Put(Call[None]):
    """Write or overwrite all items, or none. Durable when it returns.

    Raises:
        StaleAttemptError: The attempt is not the current one; nothing was written.
        AssetNotActiveError: The asset is deactivated.
    """

    handle: Handle
    items: Sequence[Item]
    retention: Retention = None


@dataclass(eq=False, slots=True)
class PutDefault(Call[tuple[Any, Any]]):
    """Write if absent; text and encoding of what is stored afterwards."""

    handle: Handle
    item: Item
    retention: Retention = None


@dataclass(eq=False, slots=True)
class PutIf(Call[None]):
    """Write only over the version ``expected`` (`None`: only if absent).

    Args:
        handle: Whose key.
        item: What to write.
        expected: The version that must be there.
        retention: As in `Put`, unless ``keep_expiry``.
        keep_expiry: Leave the expiry of a live key as it is.

    Raises:
        VersionConflictError: Another version is there; nothing was written.
    """

    repeatable: ClassVar[bool] = False

    handle: Handle
    item: Item
    expected: str | None
    retention: Retention = None
    keep_expiry: bool = False


@dataclass(eq=False, slots=True)
class Increment(Call[int | float]):
    """Add ``by``, exactly; absent counts from 0; the expiry stays. The new number.

    Raises:
        TypeError: The stored value is no number (`bool` is none).
        ValueError: The sum cannot be stored.
    """

    repeatable: ClassVar[bool] = False

    handle: Handle
    key: str
    by: int | float
    version: str


@dataclass(eq=False, slots=True)
class Touch(Call[bool]):
    """Move the expiry of a live key; whether there was one. Value and version stay."""

    handle: Handle
    key: str
    retention: Retention


@dataclass(eq=False, slots=True)
class Delete(Call[None]):
    """Drop a key; nothing if absent."""

    handle: Handle
    key: str


@dataclass(eq=False, slots=True)
class Clear(Call[None]):
    """Drop all keys of the owner; with ``all_map_indices`` those of every instance of this task in this run."""

    handle: Handle
    all_map_indices: bool = False


@dataclass(eq=False, slots=True)
class PastRun(Call[tuple[TaskScope, int]]):
    """The same task instance in an earlier run, and its number.

    Raises:
        KeyError: The run is this one, not earlier, unknown, without keys, or its mapped item differs.
    """

    handle: Handle
    run_id: str | None = None


@dataclass(eq=False, slots=True)
class FindAsset(Call[tuple[int, str, str]]):
    """Number, name and URI of an asset; ``register``: record it as active if it is unknown.

    Raises:
        AssetNotFoundError: Unknown.
        ValueError: The names given lead to two different assets.
    """

    scope: AssetScope
    register: bool = False


@dataclass(eq=False, slots=True)
class Opened:
    """The answer to `Open`: what an attempt needs to work."""

    instance_id: int
    fence: int
    inlets: list[tuple[int, str, str]]
    outlets: list[tuple[int, str, str]]
    warning: str | None = None
    discarded: list[TaskScope] = field(default_factory=list)
    """Instances whose keys went: another item, or a new incarnation of the run."""


@dataclass(eq=False, slots=True)
class Open(Call[Opened]):
    """Begin or resume an attempt (SPEC section 4.2, ``open``). One transaction.

    Args:
        scope: The task instance.
        attempt: At least 1.
        writer: Who opens it, as rows hold it.
        incarnation: See SPEC; `None` means the recorded one.
        item: The fingerprint of the mapped item, or `None` for no guard.
        item_name: A name of the item for people.
        inlets: Concrete inlet assets.
        outlets: Concrete outlet assets.
        options: Options of the task, recorded with the instance.

    Raises:
        StaleAttemptError: A lower attempt, a cleared one, or a replaced incarnation.
    """

    scope: TaskScope
    attempt: int
    writer: str
    incarnation: str | None = None
    item: str | None = None
    item_name: str | None = None
    inlets: Sequence[AssetScope] = ()
    outlets: Sequence[AssetScope] = ()
    options: TaskOptions = field(default_factory=TaskOptions)


@dataclass(eq=False, slots=True)
class Finish(Call[bool]):
    """End an attempt (SPEC section 4.2, ``finish``). One transaction; the same state again: nothing.

    The answer is whether success dropped the keys (``clear_on_success``).

    Raises:
        StaleAttemptError: The attempt is not the current one.
        InstanceNotFoundError: The instance was never opened.
        InstanceStateError: It has already ended in another state.
    """

    scope: TaskScope
    attempt: int
    state: str
    incarnation: str | None = None


class Cleared(NamedTuple):
    """The answer to `ClearInstances`: how many instances, and which of them lost their keys."""

    instances: int
    discarded: list[TaskScope]


@dataclass(eq=False, slots=True)
class ClearInstances(Call[Cleared]):
    """Start over: archive or keep the keys and raise the fence, of one instance or of a whole run.

    Raises:
        InstanceNotFoundError: No such instance.
        RunNotFoundError: No such run.
    """

    repeatable: ClassVar[bool] = False

    dag_id: str
    run_id: str
    scope: TaskScope | None
    keep: bool | None
    writer: str


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
        InstanceStateError: An attempt runs, or there are live keys and ``force`` is not set.
    """

    repeatable: ClassVar[bool] = False

    scope: TaskScope
    archive: int | None
    force: bool
    writer: str


@dataclass(eq=False, slots=True)
class DeleteRun(Call[list[TaskScope]]):
    """Remove all of a run's task rows; the instances that are gone. Asset state stays.

    Raises:
        RunNotFoundError: No such run.
    """

    repeatable: ClassVar[bool] = False

    dag_id: str
    run_id: str
    writer: str


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
    taken.

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


@dataclass(eq=False, slots=True)
class HoldRun(Call[None]):
    """Renew a hold, or with ``ttl`` `None` give it up; ``state`` records how the run stands.

    Raises:
        RunHeldError: The hold is no longer ours.
    """

    dag_id: str
    run_id: str
    holder: str
    ttl: float | None
    state: str | None = None


@dataclass(eq=False, slots=True)
class ListRuns(Call[list[RunRecord]]):
    """Records, latest first; `None` selects all."""

    dag_id: str | None = None
    run_id: str | None = None
    state: str | None = None
    limit: int | None = None


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
        what: ``expired``, ``retired`` or ``old_changes`` (see `CleanReport`).
        batch: The most rows; `None`: remove nothing and return how many are due.
        cutoff: For the last two: what was last updated before this instant is due (microseconds UTC).
        unfinished_cutoff: For ``retired``: open instances with a sign of life since then are spared.
    """

    what: str
    batch: int | None
    cutoff: int = 0
    unfinished_cutoff: int = 0


@dataclass(eq=False, slots=True)
class Due(Call[list[DueKey]]):
    """The first ``limit`` rows that `Collect` would remove; arguments as there."""

    what: str
    limit: int
    cutoff: int = 0
    unfinished_cutoff: int = 0


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
        kind: ``run``, ``instance``, ``asset``, ``task_entry``, ``asset_entry``, ``change``, ``result`` or ``replaced``.
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
