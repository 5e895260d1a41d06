"""Reads and writes of entries."""

from __future__ import annotations

import json
from typing import Any

from milepost import calls
from milepost.calls import PLAIN, Handle, Item, Stored, stored_value
from milepost.errors import InvalidValueError, UnsupportedTypeError, VersionConflictError
from milepost.metastore.operations.base import (
    Batch,
    Environment,
    Operation,
    check_fence,
    guard_read,
    guard_write,
    owner_of,
)
from milepost.retention import Retention
from milepost.scopes import TaskScope, prefix_end, run_hash
from milepost.values import encode

__all__ = [
    "check",
    "clear",
    "count",
    "delete",
    "get",
    "get_many",
    "increment",
    "insert",
    "items",
    "keys",
    "log",
    "now",
    "put",
    "put_default",
    "put_directly",
    "put_if",
    "read",
    "select",
    "touch",
    "write",
]

_DIRECT_CHARS = 250_000
"""Most characters of values that go into one statement as JSON."""


def select(handle: Handle, statement: str, *parameters: Any, wanted: int | None = None) -> Operation[list[Any]]:
    """Run a statement on the owner's rows and make sure that what is missing is really absent.

    Args:
        handle: The reader's handle.
        statement: Takes the owner's number first.
        *parameters: What it takes besides.
        wanted: The number of rows with which nothing is missing.
    """
    rows: list[Any] = []
    if handle.running:
        yield from check_fence(handle, "instance_fence")
    for _ in range(2):
        if not isinstance(handle.scope, TaskScope):
            active = yield "asset_active", (handle.owner_id,)
            if active and active[0][0]:
                rows = yield statement, (handle.owner_id, *parameters)
            elif active:
                handle.meet_deactivated()
        elif (owner := (yield from owner_of(handle))) is not None:
            rows = yield statement, (owner, *parameters)
        if len(rows) == wanted or not (yield from guard_read(handle)):
            return rows
    return rows


def now(_: calls.Now, __: Environment) -> Operation[int]:
    """See `milepost.calls.Now`."""
    ((instant,),) = yield "now", ()
    return int(instant)


def check(call: calls.Check, _: Environment) -> Operation[None]:
    """See `milepost.calls.Check`."""
    yield from guard_write(call.handle, create=call.record)


def get(call: calls.Get, _: Environment) -> Operation[tuple[Any, Any] | None]:
    """See `milepost.calls.Get`."""
    handle = call.handle
    if handle.running and isinstance(handle.scope, TaskScope):
        owner = yield from owner_of(handle)
        rows = yield "entry_get_running", (owner, call.key, handle.instance_id, handle.fence)
        if rows:
            return rows[0]  # type: ignore[no-any-return]
    rows = yield from select(handle, "entry_get", call.key, wanted=1)
    return rows[0] if rows else None


def read(call: calls.Read, _: Environment) -> Operation[Stored | None]:
    """See `milepost.calls.Read`."""
    rows = yield from select(call.handle, "entry_read", call.key, wanted=1)
    return Stored(*rows[0]) if rows else None


def get_many(call: calls.GetMany, _: Environment) -> Operation[list[tuple[Any, Any, Any]]]:
    """See `milepost.calls.GetMany`."""
    wanted = len(set(call.keys))
    return (yield from select(call.handle, "entry_get_many", json.dumps(list(call.keys)), wanted=wanted))


def keys(call: calls.Keys, _: Environment) -> Operation[list[Any]]:
    """See `milepost.calls.Keys`."""
    rows = yield from select(call.handle, "entry_keys", call.prefix, prefix_end(call.prefix))
    return [row[0] for row in rows]


def items(call: calls.Items, _: Environment) -> Operation[list[Stored]]:
    """See `milepost.calls.Items`."""
    rows = yield from select(call.handle, "entry_items", call.prefix, prefix_end(call.prefix))
    return [Stored(*row) for row in rows]


def count(call: calls.Count, _: Environment) -> Operation[int]:
    """See `milepost.calls.Count`."""
    rows = yield from select(call.handle, "entry_count")
    return int(rows[0][0]) if rows else 0


def log(
    handle: Handle,
    owner: int,
    cause: str,
    key: str,
    version: str | None,
    environment: Environment,
    *,
    event: int | None = None,
) -> Operation[None]:
    """Write the change log: asset writes always, people's edits of task state, nothing else. ``event`` heads a group."""
    asset = not isinstance(handle.scope, TaskScope)
    limit = environment.policy.asset_history_limit
    if asset and limit > 0:
        yield "change_key", (event, "asset", cause, owner, key, handle.writer, version)
        yield "change_trim", (owner, key, limit)
    elif not asset and handle.logged:
        yield "change_key", (None, "task", cause, owner, key, handle.writer, version)


def write(
    handle: Handle,
    owner: int,
    item: Item,
    retention: Retention,
    environment: Environment,
    *,
    replace: bool = False,
    cause: str = "set",
) -> Operation[None]:
    """Write one item under a checked owner; ``replace``: over a live row, whose expiry stays. ``cause``: for the log."""
    key, text, encoding, version = item
    yield from log(handle, owner, cause, key, version, environment)
    if not isinstance(handle.scope, TaskScope):
        retention = -1  # asset state has no time-based expiry
    if replace:
        yield "entry_replace", (owner, key, text, encoding, version, handle.writer)
    else:
        yield "entry_put", (*item, owner, retention, handle.writer)


def put(call: calls.Put, environment: Environment) -> Operation[None]:
    """See `milepost.calls.Put`."""
    owner = yield from guard_write(call.handle, create=True)
    assert owner is not None
    handle = call.handle
    # Two writers of the same keys then wait for each other in one order. Of a key that is there twice, the last one counts.
    items = sorted({item.key: item for item in call.items}.values())
    if handle.logged or not isinstance(handle.scope, TaskScope):
        for item in items:
            yield from write(handle, owner, item, call.retention, environment)
    else:
        yield "entry_put", Batch(items, (owner, call.retention, handle.writer))


def put_directly(call: calls.Put, _: Environment) -> Operation[tuple[None] | None]:
    """Write items with a single statement that also checks the fence; an answer if that was possible.

    It is not for a first write, for a stale attempt, and for writes that are logged: `put` says more then.
    """
    handle, items = call.handle, call.items
    owner = handle.instance_id if handle.running else handle.owner_id
    if owner is None or handle.logged or not isinstance(handle.scope, TaskScope):
        return None
    if len(items) == 1:
        parameters = (owner, handle.fence, *items[0], call.retention, handle.writer)
        done = yield "entry_put_running" if handle.running else "entry_put_fenced", parameters
    elif sum(len(item.text) for item in items) > _DIRECT_CHARS:
        return None
    else:
        last = list({item.key: item for item in items}.values())
        text = json.dumps(last, ensure_ascii=False)
        done = yield "entry_put_all", (owner, handle.fence, int(handle.running), text, call.retention, handle.writer)
    return (None,) if done else None


def insert(handle: Handle, owner: int, item: Item, retention: Retention, environment: Environment) -> Operation[bool]:
    """Write one item only if its key is absent; whether it was.

    The log comes first, as it looks at what is there. Where it is written, other writers are kept out already, so a write
    that does not come about leaves nothing in it.
    """
    logged = handle.logged or not isinstance(handle.scope, TaskScope)
    if logged:
        if (yield "entry_lock", (owner, item.key)):
            return False
        yield from write(handle, owner, item, retention, environment)
        return True
    key, text, encoding, version = item
    return bool((yield "entry_insert", (owner, key, text, encoding, version, retention, handle.writer)))


def put_default(call: calls.PutDefault, environment: Environment) -> Operation[tuple[Any, Any]]:
    """See `milepost.calls.PutDefault`."""
    owner = yield from guard_write(call.handle, create=True)
    assert owner is not None
    while True:
        rows = yield "entry_lock", (owner, call.item.key)
        if rows:
            return rows[0][:2]  # type: ignore[no-any-return]
        if (yield from insert(call.handle, owner, call.item, call.retention, environment)):
            return call.item.text, call.item.encoding


def put_if(call: calls.PutIf, environment: Environment) -> Operation[None]:
    """See `milepost.calls.PutIf`."""
    handle, key = call.handle, call.item.key
    owner = yield from guard_write(handle, create=call.expected is None)
    rows = (yield "entry_lock", (owner, key)) if owner is not None else []
    found = rows[0][2] if rows else None
    if owner is not None and found == call.expected:
        if found is not None:
            yield from write(handle, owner, call.item, call.retention, environment, replace=call.keep_expiry)
            return
        if (yield from insert(handle, owner, call.item, call.retention, environment)):
            return
    raise VersionConflictError(
        f"{key!r} of {handle.scope} "
        + ("is absent" if found is None else f"has version {found}")
        + (", expected it absent" if call.expected is None else f", expected {call.expected}")
        + "; read it again and decide anew"
    )


def increment(call: calls.Increment, environment: Environment) -> Operation[int | float]:
    """See `milepost.calls.Increment`."""
    owner = yield from guard_write(call.handle, create=True)
    assert owner is not None
    while True:
        rows = yield "entry_lock", (owner, call.key)
        new = _sum(call, rows[0][:2] if rows else None)
        item = Item(call.key, encode(new, environment.policy.max_value_bytes), PLAIN, call.version)
        if rows:
            yield from write(call.handle, owner, item, None, environment, replace=True)
            return new
        if (yield from insert(call.handle, owner, item, None, environment)):
            return new


def _sum(call: calls.Increment, stored: tuple[Any, Any] | None) -> int | float:
    """Return what is stored plus ``by``.

    Raises:
        DamagedEntryError: What is stored cannot be read.
        UnsupportedTypeError: It is no number.
        InvalidValueError: The sum is beyond all floats.
    """
    old: Any = 0
    if stored is not None:
        old = stored_value(call.key, *stored)
    if type(old) not in (int, float):
        raise UnsupportedTypeError(f"cannot increment {call.key!r}: it holds a {type(old).__name__}, not a number")
    try:
        return old + call.by  # type: ignore[no-any-return]
    except OverflowError as error:  # a float to an int beyond all floats
        raise InvalidValueError(f"cannot increment {call.key!r} by {call.by!r}: {error}") from error


def touch(call: calls.Touch, _: Environment) -> Operation[bool]:
    """See `milepost.calls.Touch`."""
    owner = yield from guard_write(call.handle, create=False)
    if owner is None:
        return False
    if not (yield "entry_lock", (owner, call.key)):
        return False
    yield "entry_touch", (owner, call.key, call.retention)
    return True


def delete(call: calls.Delete, environment: Environment) -> Operation[None]:
    """See `milepost.calls.Delete`."""
    handle, key = call.handle, call.key
    owner = yield from guard_write(handle, create=False)
    if owner is None:
        return
    if (handle.logged or not isinstance(handle.scope, TaskScope)) and (yield "entry_get", (owner, key)):
        yield from log(handle, owner, "delete", key, None, environment)
    yield "entry_delete", (owner, key)
    if isinstance(handle.scope, TaskScope):
        yield "intent_drop", (owner, key)


def clear(call: calls.Clear, environment: Environment) -> Operation[None]:
    """See `milepost.calls.Clear`."""
    handle = call.handle
    owner = yield from guard_write(handle, create=False)
    owners: list[int] = [] if owner is None else [owner]
    if call.all_map_indices and isinstance(handle.scope, TaskScope):
        owners = yield from _siblings(handle)
    asset = not isinstance(handle.scope, TaskScope)
    for one in owners:
        if asset:
            yield from _log_clear(handle, one, environment)
        elif handle.logged:
            event = yield "change_event", ("task", "clear_keys", one, None, handle.writer)
            yield "change_all_keys", (event, "task", "clear_keys", one, handle.writer)
        yield "entry_clear", (one,)
        if not asset:
            yield "intent_drop_all", (one,)


def _log_clear(handle: Handle, owner: int, environment: Environment) -> Operation[None]:
    """Write to the change log that all keys of an asset go, as one group."""
    rows = yield "entry_keys", (owner, "", None)
    if rows and environment.policy.asset_history_limit > 0:
        event = yield "change_event", ("event", "clear", owner, None, handle.writer)
        for (key,) in rows:
            yield from log(handle, owner, "clear", key, None, environment, event=event)


def _siblings(handle: Handle) -> Operation[list[int]]:
    """Return the numbers of all instances of the same task in the same run, this one recorded or not."""
    assert isinstance(handle.scope, TaskScope)
    scope = handle.scope
    rows = yield "instances_of_task", (run_hash(scope.dag_id, scope.run_id), scope.task_id)
    return [row[0] for row in rows]
