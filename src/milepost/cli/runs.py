"""`milepost runs`: find runs, see how they stand, start them over, delete them."""

from __future__ import annotations

from typing import Annotated

import typer

from milepost import Store, TaskScope
from milepost.cli.common import AsJson, Url, at_least_one, open_store, plain, say, show, table, when, whole
from milepost.errors import DamagedEntryError, InstanceNotFoundError, RunNotFoundError
from milepost.progress import progress_text

__all__ = ["app"]

app = typer.Typer(help="Find runs, see how they stand, start them over, delete them.", no_args_is_help=True)

Dag = Annotated[str, typer.Argument(metavar="DAG")]
Run = Annotated[str, typer.Argument(metavar="RUN")]


_STATES = "running, success, failed"


def _state(text: str) -> str:
    if text not in _STATES.split(", "):
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
        show(records)
        return
    rows = [(plain(r.dag_id), plain(r.run_id), r.state or "-", when(r.created_at), when(r.updated_at)) for r in records]
    table(("DAG", "RUN", "STATE", "RECORDED", "UPDATED"), rows)


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
        progress = {one.scope: _progress(store, one.scope) for one in instances}
    if as_json:
        show({"run": record, "instances": instances})
        return
    say(f"{plain(dag)} {plain(run)}: {record.state or 'no runner has driven it'}, recorded {when(record.created_at)}")
    rows = [
        (
            plain(one.scope.task_id),
            one.scope.map_index if one.scope.map_index >= 0 else "-",
            one.state,
            one.attempt,
            when(one.opened_at),
            when(one.finished_at),
            progress_text(progress[one.scope], bar=True),
        )
        for one in instances
    ]
    table(("TASK", "INDEX", "STATE", "ATTEMPT", "OPENED", "FINISHED", "PROGRESS"), rows)


def _progress(store: Store, scope: TaskScope) -> object:
    try:
        return store.task_store(scope).get("progress")
    except DamagedEntryError as error:
        return {"message": f"DAMAGED: {error.reason}"}


@app.command("clear")
def clear(
    dag: Dag,
    run: Run,
    task: Annotated[str | None, typer.Argument(metavar="[TASK]", help="By default all tasks.")] = None,
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
    say(f"{count} task instance{'' if count == 1 else 's'} cleared")


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
            typer.confirm(f"Delete {dag}/{run} and all its task state?", abort=True)
        count = store.instances.delete_run(dag, run)
    say(f"run deleted with {count} task instance{'' if count == 1 else 's'}")
