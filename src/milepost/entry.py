"""What a store tells about itself: entries, writers, records of instances and runs, archives, reports."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, cast

from milepost.errors import InvalidValueError, UnsupportedTypeError
from milepost.scopes import Scope, TaskScope

__all__ = [
    "FINISH_STATES",
    "OPEN_STATES",
    "Archive",
    "CleanReport",
    "DamagedRow",
    "DamagedValue",
    "DueKey",
    "Entry",
    "InstanceRecord",
    "InstanceState",
    "Outcome",
    "RunEvent",
    "RunRecord",
    "StoreStats",
    "TaskOptions",
    "TransferReport",
    "Writer",
    "WriterKind",
    "one_line",
]

WriterKind = Literal["task", "watcher", "api", "cli", "python"]
InstanceState = Literal["none", "running", "up_for_retry", "deferred", "success", "failed", "skipped", "cleared"]

FINISH_STATES: Final = frozenset({"success", "failed", "skipped", "up_for_retry", "deferred"})
"""What `Instances.finish` takes."""

OPEN_STATES: Final = frozenset({"running", "up_for_retry", "deferred"})
"""States of an instance that will go on; collection spares its entries (SPEC section 8)."""


MAX_REASON_CHARS: Final = 1_000


def one_line(reason: str) -> str:
    """Return a reason for people as every database holds it: one line, without NUL and lone surrogates, bounded."""
    if not isinstance(reason, str):
        raise UnsupportedTypeError(f"a reason must be a str, not {type(reason).__name__}")
    line = " ".join(reason.replace("\0", " ").split())
    if len(line) > MAX_REASON_CHARS:
        line = f"{line[: MAX_REASON_CHARS - 1]}…"
    return line.encode(errors="replace").decode()


@dataclass(frozen=True, slots=True)
class Writer:
    """Who wrote something. The record outlives the run it names.

    Args:
        kind: ``task``, ``watcher``, ``api``, ``cli`` or ``python``.
        dag_id: Of the writing task instance, where ``kind`` is ``task``; so are the next four.
        run_id: The run.
        task_id: The task.
        map_index: The position in a mapped task, -1 if not mapped.
        attempt: The attempt, counted from 1.
        user: The name behind an ``api`` write, or of the watcher, where known.

    .. versionadded:: 0.1
    """

    kind: WriterKind
    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    map_index: int | None = None
    attempt: int | None = None
    user: str | None = None

    @classmethod
    def of_task(cls, scope: TaskScope, attempt: int) -> Writer:
        """Return the writer that an attempt of a task instance is."""
        return cls("task", scope.dag_id, scope.run_id, scope.task_id, scope.map_index, attempt)

    def encode(self, own: TaskScope | None = None) -> str:
        """Return the text that rows hold.

        Args:
            own: The scope that the row belongs to; a task that writes its own state needs to store its attempt only.
        """
        if self.kind == "task":
            parts = [self.dag_id, self.run_id, self.task_id, self.map_index, self.attempt]
            if own is not None and parts[:4] == [own.dag_id, own.run_id, own.task_id, own.map_index]:
                return f"task:{self.attempt}"
            return "task:" + json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
        return self.kind if self.user is None else f"{self.kind}:{self.user}"

    @classmethod
    def decode(cls, text: str, own: TaskScope | None = None) -> Writer:
        """Return the writer that a row's text stands for.

        Args:
            text: What `encode` returned.
            own: The scope that the row belongs to.

        Raises:
            ValueError: The text is not one of Milepost's.
        """
        kind, _, detail = text.partition(":")
        if kind == "task":
            if own is not None and not detail.startswith("["):
                return cls.of_task(own, int(detail))
            parts = json.loads(detail)
            if not isinstance(parts, list) or len(parts) != 5:
                raise ValueError(f"unknown writer {text!r}")
            dag_id, run_id, task_id, map_index, attempt = parts
            return cls("task", dag_id, run_id, task_id, map_index, attempt)
        if kind in ("watcher", "api", "cli", "python"):
            return cls(cast("WriterKind", kind), user=detail or None)
        raise ValueError(f"unknown writer {text!r}")

    def __str__(self) -> str:
        if self.kind != "task":
            return self.kind if self.user is None else f"{self.kind} ({self.user})"
        index = "" if self.map_index is None or self.map_index < 0 else f"[{self.map_index}]"
        return f"task {self.dag_id}/{self.run_id}/{self.task_id}{index} attempt {self.attempt}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One live key with all that is known of it.

    Args:
        key: The key.
        value: The value.
        version: An opaque text that no other write ever has.
        created_at: When the key came into being (aware, UTC).
        updated_at: When it was last written or touched (aware, UTC).
        expires_at: When it goes (aware, UTC); `None` without explicit retention and for `NEVER_EXPIRE`.
        never_expires: Whether it was written with `NEVER_EXPIRE`; asset entries always are.
        writer: Who wrote it last.

    .. versionadded:: 0.1
    """

    key: str
    value: Any
    version: str
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    never_expires: bool
    writer: Writer


@dataclass(frozen=True, slots=True)
class DamagedValue:
    """Stands in a list for the value of a row that cannot be read.

    Args:
        key: The key, with bytes that are no text escaped.
        reason: What is wrong.

    .. versionadded:: 0.1
    """

    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """Options of one task, recorded when an attempt opens; `None` leaves a choice to the configuration.

    Args:
        clear_on_success: Drop the instance's keys when it succeeds.
        on_clear: ``"discard"`` or ``"keep"``: what a clear does with the keys.

    .. versionadded:: 0.1
    """

    clear_on_success: bool | None = None
    on_clear: Literal["discard", "keep"] | None = None

    def __post_init__(self) -> None:
        if self.clear_on_success not in (True, False, None):
            raise InvalidValueError(f"clear_on_success must be True, False or None, got {self.clear_on_success!r}")
        if self.on_clear not in ("discard", "keep", None):
            raise InvalidValueError(f"on_clear must be 'discard', 'keep' or None, got {self.on_clear!r}")


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
