"""`milepost runs`: find runs, see how they stand, start them over, delete them."""

from __future__ import annotations

import shlex
import sys
from datetime import datetime, timezone
from typing import Annotated, Any

import typer

from milepost import InstanceRecord, Outcome, RunRecord, Store, TaskScope
from milepost.checks import RUN_STATES
from milepost.cli.common import AsJson, Url, at_least_one, data, open_store, plain, say, show, table, when, whole
from milepost.errors import DamagedEntryError, InstanceNotFoundError, InvalidValueError, RunNotFoundError
from milepost.progress import progress_text
from milepost.runner.progress import label
from milepost.values import loads_strict

__all__ = ["app", "is_abandoned"]

app = typer.Typer(help="Find runs, see how they stand, start them over, delete them.", no_args_is_help=True)

Dag = Annotated[str, typer.Argument(metavar="DAG")]
Run = Annotated[str, typer.Argument(metavar="RUN")]


NO_RUNNER = " (no runner)"
"""Behind a state that only a runner could change, where none is at work."""

_STATES = ", ".join(RUN_STATES)


def _state(text: str) -> str:
    if text not in RUN_STATES:
        raise typer.BadParameter(f"{text!r} is not one of {_STATES}")
    return text


@app.command("list")
def list_runs(
    dag: Annotated[str | None, typer.Option("--dag", metavar="DAG", help="Only runs of this DAG.")] = None,
    state: Annotated[
        str | None, typer.Option("--state", parser=_state, metavar="STATE", help=f"Only runs in this state: {_STATES}.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", parser=at_least_one, metavar="N", help="The most runs.")] = 50,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List runs, the latest first.

    Example: milepost runs list --dag flights --state failed
    """
    with open_store(url) as store:
        records = store.runs.list(dag, state=state, limit=limit)
    if as_json:
        show([_run_data(record) for record in records])
        return
    rows = [
        (plain(r.dag_id), plain(r.run_id), _state_text(r), when(r.created_at), when(r.updated_at), _cause(r))
        for r in records
    ]
    table(("DAG", "RUN", "STATE", "RECORDED", "UPDATED", "CAUSE"), rows)


def _cause(record: RunRecord) -> str:
    """Return what started a run: an event, or nothing that is on record."""
    event = record.event
    if event is None:
        return "-"
    return f"event {plain(event.id)} of {plain(event.asset or 'an asset that is gone')}, seen by {plain(event.watcher)}"


def _state_text(record: RunRecord) -> str:
    if record.damaged:
        return f"DAMAGED: {record.damaged}"
    if record.state is None and record.incarnation is not None:
        from milepost.airflow.compat import is_incarnation  # few stores have any

        return "kept by Airflow" if is_incarnation(record.incarnation) else "-"
    return f"{record.state or '-'}{NO_RUNNER if is_abandoned(record) else ''}"


@app.command("show")
def show_run(dag: Dag, run: Run, url: Url = None, as_json: AsJson = False) -> None:
    """Show the task instances of a run with state, attempts and progress.

    Example: milepost runs show flights r1
    """
    with open_store(url) as store:
        record = store.runs.get(dag, run)
        if record is None:
            raise RunNotFoundError(f"no run {dag}/{run} is recorded")
        instances = store.instances.list(dag, run)
        outcomes = store.runs.outcomes(dag, run)
        progress = {one.scope: _progress(store, one.scope) for one in instances}
    if as_json:
        show({"run": _run_data(record), "instances": instances, "outcomes": outcomes})
        return
    stands = _standing(record, [one.state for one in instances])
    say(f"{plain(dag)} {plain(run)}: {stands}, recorded {when(record.created_at)}")
    if record.event is not None:
        say(f"started by {_cause(record)}")
    rows = [
        (
            plain(one.scope.task_id),
            one.scope.map_index if one.scope.map_index >= 0 else "-",
            _instance_state(one, record),
            one.attempt,
            when(one.opened_at),
            when(one.finished_at),
            progress_text(progress[one.scope], bar=True),
        )
        for one in instances
    ]
    rows += [
        (plain(one.scope.task_id), "-", f"{one.state} (not started)", 0, "-", "-", "")
        for one in outcomes
        if one.attempt == 0
    ]
    table(("TASK", "INDEX", "STATE", "ATTEMPT", "OPENED", "FINISHED", "PROGRESS"), rows)
    _show_errors(outcomes)


def _instance_state(one: InstanceRecord, run: RunRecord) -> str:
    if one.damaged:
        return f"DAMAGED: {one.damaged}"
    return f"running{NO_RUNNER}" if one.state == "running" and is_abandoned(run) else one.state


def _show_errors(outcomes: list[Outcome]) -> None:
    failed = [one for one in outcomes if one.error is not None]
    if failed:
        say()
        rows = [
            (plain(label(one.scope.task_id, one.scope.map_index)), one.attempt or "-", when(one.at), plain(one.error or ""))
            for one in failed
        ]
        table(("FAILED", "ATTEMPT", "AT", "ERROR"), rows)


def _run_data(record: RunRecord) -> dict[str, Any]:
    """Return a record as JSON data, its parameters as the object that they are."""
    found: dict[str, Any] = data(record)
    try:
        found["params"] = None if record.params is None else loads_strict(record.params)
    except InvalidValueError:
        return found  # somebody damaged it: better its text than nothing
    return found


def is_abandoned(record: RunRecord) -> bool:
    """Tell whether a run is recorded as running while no runner holds it: the runner was stopped, or killed."""
    from milepost.runner.holder import surely_dead  # it brings what most commands do not need

    if record.state != "running":
        return False
    if record.holder is None or record.held_until is None or surely_dead(record.holder):
        return True
    return record.held_until <= datetime.now(timezone.utc)


def _standing(record: RunRecord, states: list[str]) -> str:
    """Return in words how a run stands; where no runner drives it, that is how its instances stand."""
    if record.damaged:
        return f"DAMAGED: {record.damaged}"
    if record.state is not None:
        return f"{record.state}{NO_RUNNER}" if is_abandoned(record) else record.state
    if "cleared" in states:
        return "cleared, and no runner has taken it since"
    known = [state for state in dict.fromkeys(states) if state != "none"]
    return ", ".join(f"{states.count(state)} {state}" for state in known) or "no attempts"


def _progress(store: Store, scope: TaskScope) -> object:
    try:
        return store.task_store(scope).get("progress")
    except DamagedEntryError as error:
        return {"message": f"DAMAGED: {error.reason}"}


@app.command("clear")
def clear(
    dag: Dag,
    run: Run,
    task: Annotated[str | None, typer.Argument(metavar="TASK", help="By default all tasks.")] = None,
    map_index: Annotated[
        int | None, typer.Option("--map-index", parser=whole, metavar="N", help="By default all instances of the task.")
    ] = None,
    keep: Annotated[
        bool | None, typer.Option("--keep-state/--discard-state", help="By default as the task or on_clear says.")
    ] = None,
    url: Url = None,
) -> None:
    """Start a run, a task or one instance over: running attempts become stale, keys are archived.

    Examples: milepost runs clear flights r1 · milepost runs clear flights r1 load
    """
    with open_store(url) as store:
        if task is None:
            count = store.instances.clear_run(dag, run, keep=keep)
        else:
            scopes = [record.scope for record in store.instances.list(dag, run, task)]
            if map_index is not None:
                scopes = [scope for scope in scopes if scope.map_index == TaskScope(dag, run, task, map_index).map_index]
            if not scopes:
                where = "" if map_index is None else f" at map index {map_index}"
                raise InstanceNotFoundError(f"no instance of {dag}/{run}/{task}{where} is recorded")
            for scope in scopes:
                store.instances.clear(scope, keep=keep)
            count = len(scopes)
        others = {one.scope.task_id for one in store.instances.list(dag, run) if one.state in ("success", "skipped")}
    say(f"{count} task instance{'' if count == 1 else 's'} cleared")
    if others - {task}:
        again = shlex.join(["--run-id", run, "--clear", task or "TASK", "--downstream"])
        say(f"finished tasks that come after it are not run again; `milepost run FILE {again}` clears them, too")


@app.command("delete")
def delete(
    dag: Dag,
    run: Run,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: Url = None,
) -> None:
    """Delete a run with all its task state. Asset state stays. This cannot be undone.

    Example: milepost runs delete flights r1 --yes
    """
    with open_store(url) as store:
        if store.runs.get(dag, run) is None:
            raise RunNotFoundError(f"no run {dag}/{run} is recorded")
        if not yes:
            if not sys.stdin.isatty():
                raise typer.BadParameter("to delete a run where nobody can be asked, say --yes")
            typer.confirm(f"Delete {dag}/{run} and all its task state?", abort=True)
        count = store.instances.delete_run(dag, run)
    say(f"run deleted with {count} task instance{'' if count == 1 else 's'}")
