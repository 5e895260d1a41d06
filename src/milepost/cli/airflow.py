"""`milepost airflow`: what is between a store and Airflow's own database. Runs where Airflow's scheduler runs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated

import typer

from milepost import Store
from milepost.cli.airflow_options import load_airflow_options
from milepost.cli.common import AsJson, Url, at_least_one, fail, flush, open_store, plain, say, show, spoken, table, when
from milepost.config import also_from, mask_url, resolve
from milepost.errors import ConfigurationError, MilepostError

if TYPE_CHECKING:
    from milepost.airflow.moving import MoveReport
    from milepost.airflow.sync import SyncReport

__all__ = ["app"]

_FIRST = 20
"""The most names of each kind that are printed."""

_EVERY = "Go on, with so many seconds in between; what goes wrong is told, and tried again."
_WITH_PARENT = "With --every: end when the process that started this one has gone."
_BELIEVE = "Believe Airflow's database even if it knows none of the runs, or none of the DAGs, of the store."
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing; print what would be done.")]

app = typer.Typer(help="Between the store and Airflow's metadata database.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    pass


@contextmanager
def _open(url: str | None, *, create: bool = False, again: bool = False) -> Iterator[Store]:
    """Open the store that Airflow's plugin uses, and name it on standard error, unless it is opened again."""
    options = load_airflow_options()
    with also_from(lambda: options):
        found = resolve({"url": url})["url"]
        if found.value.startswith("memory:"):
            raise ConfigurationError(f"{found.source}: memory:// lives in one process; name the store of Airflow's tasks")
        if not again:
            fail(f"the store is {mask_url(found.value)} ({'--url' if url else found.source})")
        with open_store(url, create=create) as store:
            yield store


@app.command("sync")
def sync(
    dry_run: DryRun = False,
    force: Annotated[bool, typer.Option("--force", help=_BELIEVE)] = False,
    every: Annotated[int | None, typer.Option("--every", parser=at_least_one, metavar="SECONDS", help=_EVERY)] = None,
    with_parent: Annotated[bool, typer.Option("--with-parent", help=_WITH_PARENT)] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Remove the state of runs that Airflow no longer has, end attempts that ended there, record the assets of its DAGs.

    Example: milepost airflow sync --dry-run
    """
    if every is None:
        _sync(url, dry_run, force, as_json)
        return
    parent, again = os.getppid(), False
    while not with_parent or os.getppid() == parent:
        try:
            _sync(url, dry_run, force, as_json, logs=True, again=again)
        except MilepostError as error:
            fail(spoken(error))
        again = True
        flush()
        due = time.monotonic() + every
        while (left := due - time.monotonic()) > 0 and (not with_parent or os.getppid() == parent):
            time.sleep(min(left, 1.0))


def _sync(url: str | None, dry_run: bool, force: bool, as_json: bool, *, logs: bool = False, again: bool = False) -> None:
    from milepost.airflow.sync import sync as bring_in_line

    with _open(url, again=again) as store:
        report = bring_in_line(store, dry_run=dry_run, force=force)
    if as_json:
        show(report)
    elif logs:
        _print_line(report)
    else:
        _print(report)
    for dag_id, reason in report.left.items():
        fail(f"left as it is: {dag_id}: {reason}")


_Skip = Annotated[bool, typer.Option("--skip", help="Leave behind what cannot be moved.")]
_Force = Annotated[bool, typer.Option("--force", help="Write over keys that have another value on the other side.")]
_Dag = Annotated[str | None, typer.Option("--dag", metavar="DAG", help="Only task state of this DAG; no asset state.")]


@app.command("import")
def import_(
    dag: _Dag = None,
    dry_run: DryRun = False,
    force: _Force = False,
    skip: _Skip = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Copy the state in Airflow's own tables (3.3 and later) into the store, and compare. The tables stay as they are.

    Example: milepost airflow import --dry-run
    """
    from milepost.airflow import moving

    with _open(url, create=not dry_run) as store:
        report = moving.import_(store, dag_id=dag, dry_run=dry_run, force=force, skip=skip)
    _tell(report, as_json)


@app.command("export")
def export(
    dag: _Dag = None,
    dry_run: DryRun = False,
    force: _Force = False,
    skip: _Skip = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Copy the state in the store into Airflow's own tables (3.3 and later), and compare. The store stays as it is.

    Example: milepost airflow export --dag nightly
    """
    from milepost.airflow import moving

    with _open(url) as store:
        report = moving.export(store, dag_id=dag, dry_run=dry_run, force=force, skip=skip)
    _tell(report, as_json)


def _tell(report: MoveReport, as_json: bool) -> None:
    if as_json:
        show(report)
    else:
        say("would copy:" if report.dry_run else "copied, and found again on the other side:")
        rows = (
            (report.task_keys, "keys of task instances"),
            (report.asset_keys, "keys of assets"),
            (len(report.replaced), "of them over another value"),
            (report.same, "keys that were there already"),
            (report.expired, "keys whose time has passed stay behind"),
        )
        table(("COUNT", "WHAT"), rows)
        if report.sha256:
            say(f"sha256 {report.sha256}")
    for name, reason in list(report.left.items())[:_FIRST]:
        fail(f"left behind: {name}: {reason}")
    if len(report.left) > _FIRST:
        fail(f"… and {len(report.left) - _FIRST} more")


def _kinds(report: SyncReport) -> tuple[tuple[list[str], str], ...]:
    return (
        (report.runs, f"runs that Airflow no longer has, with {report.instances} task instances"),
        (report.ended, "attempts that have ended in Airflow"),
        (report.dags, "DAGs that refer to other assets by now"),
        (report.gone, "DAGs that are gone from Airflow"),
        (report.added, "new assets"),
        (report.activated, "assets that are active again"),
        (report.deactivated, "assets that no DAG refers to any more"),
        (report.attached, "assets that an alias stands for"),
    )


def _print_line(report: SyncReport) -> None:
    """Print one line with the time, for a log; nothing, if nothing changed."""
    changed = [f"{len(names)} {what}" for names, what in _kinds(report) if names]
    if changed:
        say(f"{when(datetime.now(timezone.utc))} {'would change' if report.dry_run else 'changed'}: {'; '.join(changed)}")


def _print(report: SyncReport) -> None:
    kinds = _kinds(report)
    say("would change:" if report.dry_run else "changed:")
    table(("COUNT", "WHAT"), [(len(names), what) for names, what in kinds])
    for names, what in kinds:
        if names:
            say()
            say(f"{what}:")
        for name in names[:_FIRST]:
            say(f"  {plain(name)}")
        if len(names) > _FIRST:
            say(f"  … (the first {_FIRST}; all with --json)")
