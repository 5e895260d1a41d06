"""Collection: what is due goes in bounded batches (SPEC section 8). And how much there is."""

from __future__ import annotations

from typing import Any

from milepost import calls
from milepost.errors import InvalidValueError
from milepost.metastore.operations.base import Environment, Operation
from milepost.metastore.operations.records import readable_time
from milepost.reports import DueKey, StoreStats
from milepost.scopes import AssetScope, TaskScope, key_text

__all__ = ["backend", "batch", "due", "lease", "stats"]


def _parameters(call: calls.Collect | calls.Due) -> tuple[int, ...]:
    parameters: tuple[int, ...] | None = {
        "retired": (call.cutoff, call.unfinished_cutoff),
        "expired": (),
        "old_changes": (call.cutoff,),
        "old_events": (call.cutoff,),
        "excess": (call.keep,),
        "orphans": (call.cutoff,),
    }.get(call.what)
    if parameters is None:
        raise InvalidValueError(f"nothing is collected under the name {call.what!r}")
    return parameters


def batch(call: calls.Collect, _: Environment) -> Operation[int]:
    """See `milepost.calls.Collect`. The cutoffs are instants, computed by the caller from the metastore's clock."""
    parameters = _parameters(call)
    if call.batch is None:
        ((due,),) = yield f"{call.what}_count", parameters
        return int(due)
    return (yield f"{call.what}_delete", (*parameters, call.batch))  # type: ignore[no-any-return]


def lease(call: calls.TakeLease, _: Environment) -> Operation[str | None]:
    """See `milepost.calls.TakeLease`."""
    if call.ttl is None:
        yield "lease_drop", (call.name, call.holder)
        return None
    rows = yield "lease_load", (call.name,)
    if rows and rows[0][1] and rows[0][0] != call.holder:
        return str(rows[0][0])
    # There is nothing to lock before there is a row, so two could believe to be the first.
    yield "lease_take" if rows else "lease_new", (call.name, call.holder, round(call.ttl * 1_000_000))
    return None


def due(call: calls.Due, _: Environment) -> Operation[list[DueKey]]:
    """See `milepost.calls.Due`."""
    rows = yield f"{call.what}_list", (*_parameters(call), call.limit)
    what = "changes" if call.what in calls.LOGS else call.what
    return [DueKey(what, _owner(*names), None if key is None else key_text(key)) for *names, key in rows]


def _owner(dag: Any, run: Any, task: Any, index: Any, name: Any, uri: Any) -> str | None:
    """Return the owner of a row for people: the task instance, else an asset or what an event says of it."""
    if dag is not None:
        return str(TaskScope(dag, run, task, index))
    return name if name is None or uri in (None, name) else str(AssetScope(name=name, uri=uri))


def backend(_call: calls.CollectBackend, _: Environment) -> Operation[str | None]:
    """See `milepost.calls.CollectBackend`: here the metastore keeps the entries."""
    yield from ()
    return None


def stats(_call: calls.Stats, _: Environment) -> Operation[StoreStats]:
    """See `milepost.calls.Stats`."""
    ((schema, size, runs, instances, entries, expired, assets, changes, results, intents, newest),) = yield (
        "stats",
        (),
    )
    return StoreStats(
        schema=schema,
        bytes=size,
        runs=runs,
        instances=instances,
        entries=entries,
        expired=expired,
        assets=assets,
        changes=changes,
        results=results,
        intents=intents,
        newest=readable_time(newest),
    )
