"""`milepost airflow`: what is between a store and Airflow's own database. Runs where Airflow's scheduler runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from milepost import Store
from milepost.cli.common import AsJson, Url, fail, open_store, plain, say, show, table

if TYPE_CHECKING:
    from milepost.airflow.sync import SyncReport

__all__ = ["app"]

_FIRST = 20
"""The most names of each kind that are printed."""

_BELIEVE = "Believe Airflow's database even if it knows none of the runs, or none of the DAGs, of the store."
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing; print what would be done.")]

app = typer.Typer(help="Between the store and Airflow's metadata database.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    pass


@contextmanager
def _open(url: str | None, *, create: bool = False) -> Iterator[Store]:
    """Open the store that Airflow's plugin uses."""
    from milepost.airflow.records import at_airflow
    from milepost.airflow.settings import load

    with at_airflow():
        settings = load()
    options = {**settings.arguments, "secret": settings.secret}
    configured = options.pop("url", None)
    with open_store(url or configured, create=create, **options) as store:
        yield store


@app.command("sync")
def sync(
    dry_run: DryRun = False,
    force: Annotated[bool, typer.Option("--force", help=_BELIEVE)] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Remove the state of runs that Airflow no longer has, and record which assets its DAGs refer to.

    Example: milepost airflow sync --dry-run
    """
    from milepost.airflow.sync import sync as bring_in_line

    with _open(url) as store:
        report = bring_in_line(store, dry_run=dry_run, force=force)
    if as_json:
        show(report)
    else:
        _print(report)
    for dag_id, reason in report.left.items():
        fail(f"left as it is: {dag_id}: {reason}")


def _print(report: SyncReport) -> None:
    kinds = (
        (report.runs, f"runs that Airflow no longer has, with {report.instances} task instances"),
        (report.dags, "DAGs that refer to other assets by now"),
        (report.gone, "DAGs that are gone from Airflow"),
        (report.added, "new assets"),
        (report.activated, "assets that are active again"),
        (report.deactivated, "assets that no DAG refers to any more"),
        (report.attached, "assets that an alias stands for"),
    )
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
