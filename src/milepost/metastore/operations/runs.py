"""Runs as a runner sees them: who holds one, how it stands, what its tasks returned."""

from __future__ import annotations

from milepost import calls
from milepost.calls import new_version
from milepost.errors import RunHeldError
from milepost.metastore.operations.base import Environment, Operation
from milepost.metastore.operations.lifecycle import current
from milepost.metastore.operations.records import outcome_record, run_record
from milepost.run_records import Outcome, RunRecord
from milepost.scopes import run_hash

_ALL = 2**31 - 1

__all__ = ["begin", "get_results", "hold", "list_all", "outcomes", "put_result"]


def begin(call: calls.BeginRun, _: Environment) -> Operation[RunRecord]:
    """See `milepost.calls.BeginRun`."""
    hash_ = run_hash(call.dag_id, call.run_id)
    rows = yield "run_load", (hash_,)
    if rows:
        run, incarnation, state, holder, held = rows[0]
        if held and holder not in (call.holder, call.dead_holder):
            raise RunHeldError(f"run {call.dag_id}/{call.run_id} is held by another runner ({holder})")
        if incarnation is None and not (yield "run_was_opened", (run,))[0][0]:
            yield "run_set_incarnation", (run, new_version())
    else:
        # A runner's run has an incarnation, so that attempts of one that is deleted and made anew are told apart.
        parts = (hash_, call.dag_id, call.run_id, new_version(), call.params, call.logical_date)
        run = yield "run_insert", parts
        state = None
    if state != "success" or call.again:
        ttl = round(call.ttl * 1_000_000)
        yield "run_take", (run, call.holder, ttl, call.params, call.logical_date)
        yield "outcome_drop_unstarted", (run,)
    rows = yield "run_get", (hash_,)
    return run_record(rows[0])


def hold(call: calls.HoldRun, _: Environment) -> Operation[None]:
    """See `milepost.calls.HoldRun`."""
    ttl = None if call.ttl is None else round(call.ttl * 1_000_000)
    hash_ = run_hash(call.dag_id, call.run_id)
    rows = yield "run_load", (hash_,)
    if not rows or rows[0][3] != call.holder:
        raise RunHeldError(f"run {call.dag_id}/{call.run_id} is no longer held by this runner ({call.holder})")
    yield "run_hold", (hash_, call.holder, ttl, call.state)
    for task_id, state, error in call.unstarted:
        yield "outcome_put", (rows[0][0], task_id, -1, 0, state, error)
    if call.state is not None:
        yield "event_run_settle", (rows[0][0], 0)


def list_all(call: calls.ListRuns, _: Environment) -> Operation[list[RunRecord]]:
    """See `milepost.calls.ListRuns`."""
    if call.dag_id is not None and call.run_id is not None and call.state is None:
        rows = yield "run_get", (run_hash(call.dag_id, call.run_id),)
    else:
        rows = yield "run_list", (call.dag_id, call.run_id, call.state, call.limit or _ALL)
    return [run_record(row) for row in rows]


def outcomes(call: calls.ListOutcomes, _: Environment) -> Operation[list[Outcome]]:
    """See `milepost.calls.ListOutcomes`."""
    rows = yield "outcome_list", (run_hash(call.dag_id, call.run_id),)
    return [outcome_record(call.dag_id, call.run_id, row) for row in rows]


def put_result(call: calls.PutResult, _: Environment) -> Operation[None]:
    """See `milepost.calls.PutResult`."""
    instance = yield from current(call.scope, call.attempt, call.incarnation)
    yield "result_put", (instance.id, call.text)


def get_results(call: calls.GetResults, _: Environment) -> Operation[dict[int, str]]:
    """See `milepost.calls.GetResults`."""
    rows = yield "result_list", (run_hash(call.dag_id, call.run_id), call.task_id, call.map_index)
    return dict(rows)
