"""Reads about task instances: records, archives, earlier runs."""

from __future__ import annotations

from itertools import groupby

from milepost import calls
from milepost.errors import InvalidKeyError, NotFoundError
from milepost.metastore.operations.base import Environment, Operation, guard_read, owner_of, unknown_instance
from milepost.metastore.operations.records import archive_record, instance_record
from milepost.run_records import Archive, InstanceRecord
from milepost.scopes import TaskScope, run_hash

__all__ = ["archives", "list_all", "past_run"]


def list_all(call: calls.ListInstances, _: Environment) -> Operation[list[InstanceRecord]]:
    """See `milepost.calls.ListInstances`."""
    parts = (call.dag_id, call.run_id, call.task_id, call.map_index)
    if None not in parts and call.state is None:
        rows = yield "instance_get", (TaskScope(*parts).hash,)  # type: ignore[arg-type]
    else:
        rows = yield "instance_list", (*parts, call.state)
    return [instance_record(row) for row in rows]


def archives(call: calls.Archives, _: Environment) -> Operation[list[Archive]]:
    """See `milepost.calls.Archives`."""
    rows = yield "instance_find", (call.scope.hash,)
    if not rows:
        raise unknown_instance(call.scope)
    rows = yield "change_archives", (rows[0][0],)
    return [archive_record(call.scope, list(group)) for _, group in groupby(rows, key=lambda row: row[0])]


def past_run(call: calls.PastRun, _: Environment) -> Operation[tuple[TaskScope, int]]:
    """See `milepost.calls.PastRun`."""
    scope = call.handle.scope
    if not isinstance(scope, TaskScope):
        raise InvalidKeyError("only task state has earlier runs")
    rows = yield "run_find", (run_hash(scope.dag_id, scope.run_id),)
    run = rows[0][0] if rows else None
    owner = yield from owner_of(call.handle)
    yield from guard_read(call.handle)
    found = yield from (_named(scope, run, call.run_id) if call.run_id is not None else _latest(scope, run))
    if scope.map_index >= 0:
        rows = (yield "past_run_named", (scope.hash,)) if owner is not None else []
        item = rows[0][2] if rows else None
        if item != found[2]:
            raise NotFoundError(f"in run {found[0].run_id!r}, {scope.task_id}[{scope.map_index}] held another item")
    return found[0], found[1]


def _latest(scope: TaskScope, run: int | None) -> Operation[tuple[TaskScope, int, str | None]]:
    rows = yield "past_run_latest", (scope.dag_id, run, scope.task_id, scope.map_index)
    if not rows:
        raise NotFoundError(f"no earlier run holds keys of {scope.dag_id}/{scope.task_id}")
    run_id, number, item = rows[0]
    return TaskScope(scope.dag_id, run_id, scope.task_id, scope.map_index), number, item


def _named(scope: TaskScope, run: int | None, run_id: str) -> Operation[tuple[TaskScope, int, str | None]]:
    earlier = TaskScope(scope.dag_id, run_id, scope.task_id, scope.map_index)
    rows = yield "past_run_named", (earlier.hash,)
    if run_id == scope.run_id:
        raise NotFoundError(f"{run_id!r} is this run, not an earlier one")
    if not rows:
        raise NotFoundError(f"no task instance {earlier} is recorded")
    number, owner, item, has_keys = rows[0]
    if run is not None and number > run:
        raise NotFoundError(f"run {run_id!r} was recorded after run {scope.run_id!r}")
    if not has_keys:
        raise NotFoundError(f"{earlier} holds no keys")
    return earlier, owner, item
