"""Events of assets: each is recorded once, together with the runs that it starts."""

from __future__ import annotations

from hashlib import blake2b

from milepost import calls
from milepost.calls import EVENT_RUN_PREFIX, RecordedEvent, RunKey, new_version
from milepost.errors import AssetNotActiveError, AssetNotFoundError
from milepost.metastore.operations.base import Environment, Operation
from milepost.scopes import AssetScope, activate_command, run_hash
from milepost.values import encode

__all__ = ["pending", "record"]


def record(call: calls.RecordEvent, _: Environment) -> Operation[RecordedEvent]:
    """See `milepost.calls.RecordEvent`."""
    # One order for all, so that events of the same assets wait for each other and never in a circle.
    for scope, _watcher in sorted(call.assets, key=lambda one: one[0].asset_id or 0):
        rows = yield "asset_lock", (scope.asset_id,)
        if not rows:
            raise AssetNotFoundError(f"the asset {scope} is gone, so its event was not recorded")
        if not rows[0][0]:
            how = activate_command(scope)
            raise AssetNotActiveError(f"the asset {scope} is deactivated, so its event was not recorded; activate it: {how}")
    hash_ = blake2b(call.event_id.encode(), digest_size=16).digest()
    numbers = []
    fresh: dict[int, tuple[int, AssetScope, str]] = {}
    for scope, watcher in call.assets:
        assert scope.asset_id is not None
        rows = yield "event_find", (scope.asset_id, hash_)
        number = rows[0][0] if rows else None
        if number is None:
            number = yield "event_insert", (scope.asset_id, hash_, call.event_id, watcher, call.payload)
            fresh[scope.asset_id] = (number, scope, watcher)
        numbers.append(number)
    for dag_id, assets in call.dags:
        cause = next((fresh[asset] for asset in assets if asset in fresh), None)
        if cause is not None:
            yield from _start(call, dag_id, *cause)
    runs: dict[RunKey, None] = {}
    for number in numbers:
        runs.update(dict.fromkeys([RunKey(*row) for row in (yield "event_run_list", (number,))]))
    return RecordedEvent(bool(fresh), list(runs))


def _start(call: calls.RecordEvent, dag_id: str, number: int, scope: AssetScope, watcher: str) -> Operation[None]:
    """Record the run that an event starts, unless it is there: the store may come from an export, which has no events."""
    run_id = _run_id(scope, call.event_id)
    hash_ = run_hash(dag_id, run_id)
    if (yield "run_load", (hash_,)):
        return
    event = encode({"id": call.event_id, "asset": scope.name, "uri": scope.uri, "watcher": watcher}, 0)
    params = f'{{"event":{event[:-1]},"payload":{call.payload}}}}}'
    run = yield "run_insert", (hash_, dag_id, run_id, new_version(), params, call.logical_date)
    yield "event_run_insert", (run, number)


def _run_id(scope: AssetScope, event_id: str) -> str:
    """Return the id of the run: the same for the same event of the same asset, whatever the store."""
    name, uri = scope.name or "", scope.uri or ""
    parts = f"{len(name)}:{name}{len(uri)}:{uri}{event_id}"
    return EVENT_RUN_PREFIX + blake2b(parts.encode(), digest_size=10).hexdigest()


def pending(_call: calls.PendingRuns, _: Environment) -> Operation[list[RunKey]]:
    """See `milepost.calls.PendingRuns`."""
    return [RunKey(*row) for row in (yield "event_runs_pending", ())]
