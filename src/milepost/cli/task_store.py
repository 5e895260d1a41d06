"""`milepost task-store`: look at and edit the state of task instances."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from milepost import Archive, DamagedValue, TaskScope
from milepost.cli.common import (
    AsJson,
    MapIndex,
    Url,
    advise,
    known_instance,
    open_store,
    parse_retention_text,
    parse_value,
    plain,
    release_dead,
    say,
    show,
    table,
    when,
    whole,
)
from milepost.errors import InstanceNotFoundError, InvalidValueError, NotFoundError

__all__ = ["app"]

app = typer.Typer(help="Look at and edit the state of task instances.", no_args_is_help=True)

Dag = Annotated[str, typer.Argument(metavar="DAG")]
Run = Annotated[str, typer.Argument(metavar="RUN")]
Task = Annotated[str, typer.Argument(metavar="TASK")]
Key = Annotated[str, typer.Argument(metavar="KEY")]


@app.command("list")
def list_keys(
    dag: Dag,
    run: Run,
    task: Task,
    map_index: MapIndex = -1,
    prefix: Annotated[str, typer.Option("--prefix", help="Only keys that start with this text.")] = "",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List the live keys of a task instance with their values.

    Example: milepost task-store list flights r1 load
    """
    scope = TaskScope(dag, run, task, map_index)
    with open_store(url) as store:
        known_instance(store, scope)
        pairs = store.task_store(scope).items(prefix)
    print_pairs(pairs, as_json=as_json)


def print_pairs(pairs: list[tuple[str, object]], *, as_json: bool) -> None:
    """Print keys and values; a damaged row is marked."""
    if as_json:
        show([_pair(key, value) for key, value in pairs])
        return
    table(("KEY", "VALUE"), [(plain(key), short(value)) for key, value in pairs])


def _pair(key: str, value: object) -> dict[str, object]:
    if isinstance(value, DamagedValue):
        return {"key": key, "damaged": value.reason}
    return {"key": key, "value": value}


def short(value: object) -> str:
    """Return a value as JSON in a line that is not too long; a damaged one is marked."""
    if isinstance(value, DamagedValue):
        return f"DAMAGED: {value.reason}"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else f"{text[:99]}…"


@app.command("get")
def get(
    dag: Dag,
    run: Run,
    task: Task,
    key: Key,
    map_index: MapIndex = -1,
    string: Annotated[bool, typer.Option("--string", help="Print a string as it is, without quotes.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Print the value under a key as JSON; with --json all that is known of the entry.

    Example: milepost task-store get flights r1 load page
    """
    scope = TaskScope(dag, run, task, map_index)
    with open_store(url) as store:
        known_instance(store, scope)
        accessor = store.task_store(scope)
        try:
            print_entry(accessor, key, string=string, as_json=as_json)
        except NotFoundError as error:
            from milepost.accessors.jobs import open_submission

            if (intent := open_submission(accessor, key)) is None:
                raise
            raise NotFoundError(
                f"{error}; a job is being submitted under it, or an attempt was cut off while it did that: its token is "
                f"{intent.token}"
            ) from error


def print_entry(accessor: object, key: str, *, string: bool, as_json: bool) -> None:
    """Print the value or the entry under a key.

    Raises:
        NotFoundError: The key is absent.
        InvalidValueError: ``--string`` on a value that is no string.
    """
    missing = object()
    if as_json:
        entry = accessor.entry(key)  # type: ignore[attr-defined]
        if entry is not None:
            show(entry)
            return
        value: object = missing
    else:
        value = accessor.get(key, missing)  # type: ignore[attr-defined]
    if value is missing:
        raise NotFoundError(f"{accessor.scope} has no key {key!r}")  # type: ignore[attr-defined]
    if not string:
        say(json.dumps(value, ensure_ascii=False))
    elif isinstance(value, str):
        say(value)
    else:
        raise InvalidValueError(f"the value under {key!r} is a {type(value).__name__}, not a string; leave --string out")


@app.command("set", context_settings={"ignore_unknown_options": True})
def set_value(
    dag: Dag,
    run: Run,
    task: Task,
    key: Key,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="JSON; - reads standard input.")],
    map_index: MapIndex = -1,
    string: Annotated[bool, typer.Option("--string", help="VALUE is text, stored as a string as it is.")] = False,
    retention: Annotated[
        str | None, typer.Option("--retention", metavar="TIME", help="90s, 30m, 6h, 2d, 1w, never or default.")
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Record the task instance if it is unknown.")] = False,
    version: Annotated[
        str | None, typer.Option("--if-version", metavar="V", help="Write only over this version; absent: only if absent.")
    ] = None,
    url: Url = None,
) -> None:
    """Write or overwrite a key.

    Examples: milepost task-store set flights r1 load page 12 · … set flights r1 load note --string "1.2.3"
    """
    scope = TaskScope(dag, run, task, map_index)
    parsed, lasting = parse_value(value, string=string), parse_retention_text(retention)
    with advise(InstanceNotFoundError, "--create records it"), open_store(url, create=create) as store:
        if not create:
            known_instance(store, scope)
        accessor = store.task_store(scope)
        if version is None:
            accessor.set(key, parsed, retention=lasting)
        else:
            expected = None if version == "absent" else version
            accessor.compare_and_set(key, parsed, version=expected, retention=lasting)


@app.command("delete")
def delete(dag: Dag, run: Run, task: Task, key: Key, map_index: MapIndex = -1, url: Url = None) -> None:
    """Drop a key; it can be restored for some days (archive_days).

    Example: milepost task-store delete flights r1 load page · … delete flights r1 load -- -key
    """
    scope = TaskScope(dag, run, task, map_index)
    with open_store(url) as store:
        known_instance(store, scope)
        store.task_store(scope).delete(key)


@app.command("clear")
def clear(
    dag: Dag,
    run: Run,
    task: Task,
    map_index: MapIndex = -1,
    all_map_indices: Annotated[
        bool, typer.Option("--all-map-indices", help="Of every mapped instance of this task in this run.")
    ] = False,
    url: Url = None,
) -> None:
    """Drop all keys of a task instance; they can be restored. To start it over, use `milepost runs clear`.

    Example: milepost task-store clear flights r1 load --all-map-indices
    """
    scope = TaskScope(dag, run, task, map_index)
    with open_store(url) as store:
        if not all_map_indices:
            known_instance(store, scope)
        elif not store.instances.list(dag, run, task):
            raise InstanceNotFoundError(f"no instance of {dag}/{run}/{task} is recorded")
        store.task_store(scope).clear(all_map_indices=all_map_indices)


@app.command("restore")
def restore(
    dag: Dag,
    run: Run,
    task: Task,
    map_index: MapIndex = -1,
    archive: Annotated[
        int | None, typer.Option("--archive", parser=whole, metavar="ID", help="By default the newest.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Set live keys that are in the way aside first.")] = False,
    list_them: Annotated[bool, typer.Option("--list", help="Only list what can be restored.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Bring back what was cleared or deleted.

    Example: milepost task-store restore flights r1 load --list
    """
    scope = TaskScope(dag, run, task, map_index)
    with open_store(url) as store:
        if list_them:
            print_archives(store.instances.archives(scope), as_json=as_json)
            return
        release_dead(store, dag, run)
        count = store.instances.restore(scope, archive=archive, force=force)
    print_restored(count, as_json=as_json)


def print_archives(archives: list[Archive], *, as_json: bool) -> None:
    """Print what can be restored."""
    if as_json:
        show(archives)
        return
    rows = [(one.id, when(one.at), one.cause, one.writer, ", ".join(map(plain, one.keys))) for one in archives]
    table(("ARCHIVE", "SET ASIDE", "CAUSE", "BY", "KEYS"), rows)


def print_restored(count: int, *, as_json: bool) -> None:
    """Print how many keys came back."""
    if as_json:
        show({"restored": count})
    else:
        say(f"{count} key{'' if count == 1 else 's'} restored")
