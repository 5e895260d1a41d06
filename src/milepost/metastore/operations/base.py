"""What all operations share: their type, and the guard that stands before reads and writes."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, TypeVar

from milepost.abc import Policy
from milepost.calls import Handle
from milepost.entry import Writer
from milepost.errors import AssetNotActiveError, AssetNotFoundError, ForbiddenError, InstanceNotFoundError, StaleAttemptError
from milepost.scopes import TaskScope, activate_command, run_hash

__all__ = [
    "Batch",
    "Environment",
    "Operation",
    "check_fence",
    "guard_read",
    "guard_write",
    "new_instance",
    "owner_of",
    "readable_scope",
    "scope_text",
    "stale",
    "unknown_instance",
]

R = TypeVar("R")
Operation = Generator[tuple[str, Any], Any, R]
"""Yields (statement, parameters), receives rows or a count, returns the answer.

A `Batch` instead of parameters runs a statement for many rows.
"""


class Batch(NamedTuple):
    """The parameters of a statement for many rows.

    Args:
        rows: What differs from row to row.
        shared: What all rows share.
    """

    rows: Sequence[tuple[Any, ...]]
    shared: tuple[Any, ...]


class Environment(NamedTuple):
    """What operations know besides their call."""

    policy: Policy


def stale(handle: Handle) -> StaleAttemptError:
    """Return the error for a handle whose attempt was taken over."""
    own = handle.scope if isinstance(handle.scope, TaskScope) else None
    where = "" if own is not None else f" (writing to {handle.scope})"
    return StaleAttemptError(
        f"{Writer.decode(handle.writer, own)}{where} is no longer current: a later attempt, a clear or a deleted run "
        "took over; nothing was written"
    )


def scope_text(scope: TaskScope) -> str:
    """Return a task scope as the text that the change log holds."""
    return json.dumps([scope.dag_id, scope.run_id, scope.task_id, scope.map_index], ensure_ascii=False)


def readable_scope(dag_id: Any, run_id: Any, task_id: Any, map_index: Any) -> TaskScope:
    """Return a task instance; damaged parts of it are replaced by what can be shown."""
    try:
        return TaskScope(dag_id, run_id, task_id, map_index)
    except (ValueError, TypeError):
        dag, run, task = (ascii(part)[:250] for part in (dag_id, run_id, task_id))
        return TaskScope(dag, run, task, map_index if type(map_index) is int and 0 <= map_index < 2**31 else -1)


def unknown_instance(scope: TaskScope) -> InstanceNotFoundError:
    """Return the error for an instance that is not recorded."""
    return InstanceNotFoundError(f"no task instance {scope} is recorded")


def owner_of(handle: Handle) -> Operation[int | None]:
    """Return the number of the owner, from the handle or by looking it up, or `None` if it is not recorded.

    A number that was found is kept in the handle. One that was only just inserted is not: the transaction may fail.
    """
    if handle.owner_id is None and handle.running:
        handle.owner_id = handle.instance_id
    if handle.owner_id is None and isinstance(handle.scope, TaskScope):
        rows = yield "instance_find", (handle.scope.hash,)
        handle.owner_id = rows[0][0] if rows else None
    return handle.owner_id


def check_fence(handle: Handle, statement: str) -> Operation[None]:
    """Make sure that an attempt is the current one; ``statement`` looks the fence up, with a lock or without.

    Raises:
        StaleAttemptError: It is not.
        ForbiddenError: It has ended, and the handle is for as long as it runs.
    """
    if handle.instance_id is not None:
        rows = yield statement, (handle.instance_id,)
        if not rows or rows[0][0] != handle.fence:
            raise stale(handle)
        if handle.running and rows[0][1] != "running":
            raise ForbiddenError(f"attempt {handle.attempt} has ended ({rows[0][1]}), and its token opens nothing any more")


def guard_read(handle: Handle) -> Operation[bool]:
    """Check, after a read that found something missing, that the reader may believe it.

    Because a fence only rises, a fence that holds after the read held during it.

    Returns:
        Whether to read again: the owner was deleted and recorded anew under another number.

    Raises:
        StaleAttemptError: The reader is a stale attempt.
    """
    yield from check_fence(handle, "instance_fence")
    if (
        handle.instance_id is None
        and isinstance(handle.scope, TaskScope)
        and handle.owner_id is not None
        and not handle.fixed
    ):
        rows = yield "instance_fence", (handle.owner_id,)
        if not rows:
            handle.owner_id = None
            return (yield from owner_of(handle)) is not None
    return False


def guard_write(handle: Handle, *, create: bool, alone: bool = False) -> Operation[int | None]:
    """Check, inside the transaction of a write, that the writer may write.

    Args:
        handle: The writer's handle.
        create: Whether to record a task instance that is not recorded yet (unfenced writers only).
        alone: Whether to keep other writers of the task instance out until the transaction ends.

    Returns:
        The number of the owner; `None` if it is not recorded and ``create`` is not set.

    Raises:
        StaleAttemptError: The writer is a stale attempt.
        AssetNotActiveError: The owner is a deactivated asset.
    """
    yield from check_fence(handle, "instance_lock" if alone else "instance_share")
    if not isinstance(handle.scope, TaskScope):
        # The log keeps the value before each write, so writers of one asset take turns.
        rows = yield "asset_lock", (handle.owner_id,)
        if not rows:
            raise AssetNotFoundError(f"the asset {handle.scope} is gone; take a new accessor for it")
        if not rows[0][0]:
            raise AssetNotActiveError(
                f"the asset {handle.scope} is deactivated; activate it to write to it: {activate_command(handle.scope)}"
            )
        return handle.owner_id
    if handle.instance_id is not None:
        return handle.instance_id
    owner = yield from owner_of(handle)
    if owner is not None:
        # People's edits are logged with the value before them; other writers only need the instance to stay.
        if (yield "instance_lock" if handle.logged or alone else "instance_share", (owner,)):
            return owner
        handle.owner_id = None
        owner = yield from owner_of(handle)
    if owner is None and create:
        owner = yield from new_instance(handle.scope)
    return owner


def new_instance(scope: TaskScope, run: int | None = None) -> Operation[int]:
    """Record an instance in state ``none``, and its run if need be. The caller has looked it up in vain."""
    if run is None:
        hash_ = run_hash(scope.dag_id, scope.run_id)
        rows = yield "run_find", (hash_,)
        run = rows[0][0] if rows else (yield "run_insert", (hash_, scope.dag_id, scope.run_id, None, None, None))
    owner = yield "owner_new", ("task",)
    yield "instance_insert", (owner, scope.hash, run, scope.task_id, scope.map_index)
    return int(owner)
