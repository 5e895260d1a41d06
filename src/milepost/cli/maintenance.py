"""`milepost clean`, `state-store` and `db`: collection and care of the store."""

from __future__ import annotations

from typing import Annotated

import typer

from milepost.cli.common import AsJson, Url, open_store, say, show, table
from milepost.config import mask_url

__all__ = ["register"]

DryRun = Annotated[bool, typer.Option("--dry-run", help="Remove nothing and print what would go.")]
BatchSize = Annotated[int | None, typer.Option("--batch-size", min=1, metavar="N", help="Rows per delete statement.")]

_state_store = typer.Typer(help="Collection, under the name that Airflow 3.3 gives it.", no_args_is_help=True)
_db = typer.Typer(help="Care of the store's database.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands of this group."""
    app.command("clean")(clean)
    _state_store.command("cleanup-task-store")(clean)
    app.add_typer(_state_store, name="state-store")
    app.add_typer(_db, name="db")


@_state_store.callback()
def _group() -> None:
    pass


def clean(dry_run: DryRun = False, batch_size: BatchSize = None, url: Url = None, as_json: AsJson = False) -> None:
    """Remove what has expired or is past its time.

    Example: milepost clean --dry-run
    """
    with open_store(url) as store:
        report = store.clean(dry_run=dry_run, batch_size=batch_size)
    if as_json:
        show(report)
        return
    say("would remove:" if dry_run else "removed:")
    table(
        ("ROWS", "WHAT"),
        [
            (report.expired, "entries whose retention has passed"),
            (report.retired, "entries past default_retention_days"),
            (report.changes, "archived and logged changes past archive_days"),
        ],
    )


@_db.command("upgrade")
def upgrade(url: Url = None) -> None:
    """Bring the schema up to date. A SQLite file is brought up to date by every connect, this one included."""
    with open_store(url) as store:
        store.verify()
        say(f"{mask_url(store.settings.url)} is up to date")


@_db.command("verify")
def verify(url: Url = None) -> None:
    """Check the schema and the file and change nothing else."""
    with open_store(url) as store:
        store.verify()
        say(f"{mask_url(store.settings.url)} is in order")
