"""What people do to entries: pages of lists, and edits that say what they expect to find."""

from __future__ import annotations

import json

from milepost import calls
from milepost.errors import InvalidValueError, NotFoundError, VersionConflictError
from milepost.metastore.operations.base import Environment, Operation, guard_write, unknown_instance
from milepost.metastore.operations.entries import insert, log, write
from milepost.metastore.operations.records import instance_record, run_record
from milepost.run_records import InstanceRecord
from milepost.scopes import TaskScope, prefix_end, run_hash

__all__ = ["delete_if", "edit", "entry_page", "instance_page", "run_page"]

_LAST = 2**63 - 1
"""Above the number of every run."""

_FIRST = "\x01"
"""The least character of a key: keys have no NUL. So ``key + _FIRST`` is the next text after a key."""


def _owners(call: calls.EntryPage) -> Operation[list[tuple[int, int]]]:
    """Return number and map index of the instances, in order; those of an asset that is not active: none."""
    scope = call.scope
    if not isinstance(scope, TaskScope):
        assert scope.asset_id is not None
        rows = yield "asset_active", (scope.asset_id,)
        return [(scope.asset_id, -1)] if rows and rows[0][0] else []
    found: list[tuple[int, int]] = []
    if call.map_indices is None:
        found = yield "instances_and_indices", (run_hash(scope.dag_id, scope.run_id), scope.task_id)
    for index in sorted(set(call.map_indices or ())):
        one = TaskScope(scope.dag_id, scope.run_id, scope.task_id, index)
        found += [(row[0], index) for row in (yield "instance_find", (one.hash,))]
    if not found:
        raise unknown_instance(scope)
    return found


def entry_page(call: calls.EntryPage, _: Environment) -> Operation[calls.Page]:
    """See `milepost.calls.EntryPage`."""
    owners = yield from _owners(call)
    high = prefix_end(call.prefix)
    counts: dict[int, int] | None = None
    if len(owners) > 1:  # most have few keys or none
        rows = yield "entry_counts", (json.dumps([number for number, _ in owners]), call.prefix, high)
        counts = {number: int(count) for number, count in rows}
    found: list[calls.PageRow] = []
    skip = call.offset
    for number, index in owners:
        begun = call.after is not None and index == call.after_index
        if call.after is not None and index < call.after_index:
            continue
        if counts is not None and not begun and counts.get(number, 0) <= skip:
            skip -= counts.get(number, 0)
            continue
        low = call.prefix if not begun else max(call.prefix, f"{call.after}{_FIRST}")
        rows = yield "entry_page", (number, low, high, call.limit - len(found), skip)
        skip = 0
        found += [calls.PageRow(index, calls.Stored(*row)) for row in rows]
        if len(found) >= call.limit:
            break
    if not call.counted:
        return calls.Page(found, None)
    if counts is not None:
        return calls.Page(found, sum(counts.values()))
    total = call.offset + len(found)
    if owners and (call.after is not None or not 0 < len(found) < call.limit):  # otherwise it was the last page
        ((total,),) = yield "entry_count_range", (owners[0][0], call.prefix, high)
    return calls.Page(found, int(total) if owners else 0)


def edit(call: calls.Edit, environment: Environment) -> Operation[None]:
    """See `milepost.calls.Edit`."""
    handle, item = call.handle, call.item
    owner = yield from guard_write(handle, create=False, alone=True)
    if owner is None:
        assert isinstance(handle.scope, TaskScope)
        raise unknown_instance(handle.scope)
    rows = yield "entry_lock", (owner, item.key)
    found = rows[0][2] if rows else None
    if found == item.version:
        return
    _expect(call, found)
    if call.expires_at is not None:
        ((instant,),) = yield "now", ()
        if call.expires_at <= instant:
            raise InvalidValueError("expires_at has passed; delete the key instead")
    if found is not None:
        yield from write(handle, owner, item, call.retention, environment, replace=call.keep_expiry)
    elif not (yield from insert(handle, owner, item, call.retention, environment)):
        raise VersionConflictError(f"{item.key!r} of {handle.scope} was written just now; read it again and decide anew")
    if call.expires_at is not None and isinstance(handle.scope, TaskScope):
        yield "entry_expire", (owner, item.key, call.expires_at)


def _expect(call: calls.Edit, found: str | None) -> None:
    key, scope = call.item.key, call.handle.scope
    if found is None and call.present is True and call.expected is None:
        raise NotFoundError(f"{scope} has no key {key!r}")
    if call.expected is not None and found != call.expected:
        raise _other_version(key, scope, found, call.expected)
    if found is not None and call.present is False:
        raise VersionConflictError(f"{key!r} of {scope} is there already, with version {found}")


def _other_version(key: str, scope: object, found: str | None, expected: str) -> VersionConflictError:
    there = "is absent" if found is None else f"has version {found}"
    return VersionConflictError(f"{key!r} of {scope} {there}, expected {expected}; read it again and decide anew")


def delete_if(call: calls.DeleteIf, environment: Environment) -> Operation[None]:
    """See `milepost.calls.DeleteIf`."""
    handle, key = call.handle, call.key
    owner = yield from guard_write(handle, create=False, alone=True)
    rows = (yield "entry_lock", (owner, key)) if owner is not None else []
    found = rows[0][2] if rows else None
    if owner is None or found != call.expected:
        raise _other_version(key, handle.scope, found, call.expected)
    yield from log(handle, owner, "delete", key, None, environment)
    yield "entry_delete", (owner, key)
    if isinstance(handle.scope, TaskScope):
        yield "intent_drop", (owner, key)


def run_page(call: calls.RunPage, _: Environment) -> Operation[list[calls.RunRow]]:
    """See `milepost.calls.RunPage`."""
    high = prefix_end(call.prefix)
    before = _LAST if call.before is None else call.before
    if call.dag_id is None:
        rows = yield "run_page", (call.state, call.prefix, high, before, call.limit)
    else:
        rows = yield "run_page_of_dag", (call.dag_id, call.state, call.prefix, high, before, call.limit)
    return [calls.RunRow(row[0], run_record(row[1:])) for row in rows]


def instance_page(call: calls.InstancePage, _: Environment) -> Operation[list[InstanceRecord]]:
    """See `milepost.calls.InstancePage`."""
    hash_ = run_hash(call.dag_id, call.run_id)
    rows = yield "instance_page", (hash_, call.task_id, call.state, call.after_task, call.after_index, call.limit)
    return [instance_record(row) for row in rows]
