"""`milepost watch`: run the event triggers of a DAG file's assets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from milepost.cli.common import AsJson, Url, at_least_one

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands of this group."""
    app.command("watch")(watch)


def watch(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A Python file that declares DAGs and assets with watchers.")],
    dag_ids: Annotated[list[str] | None, typer.Argument(metavar="DAG_ID", help="By default all DAGs of the file.")] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Only look for triggers that store their cursor before they yield; 1 if there are."),
    ] = False,
    workers: Annotated[
        int, typer.Option("--workers", parser=at_least_one, metavar="N", help="Attempts of one run at the same time.")
    ] = 1,
    max_runs: Annotated[
        int, typer.Option("--max-runs", parser=at_least_one, metavar="N", help="Runs at the same time.")
    ] = 4,
    url: Url = None,
    as_json: AsJson = False,
) -> int:
    """Run the event triggers of a file's assets, and the runs that their events start, until it is told to stop.

    A DAG starts once for each event of an asset that it is scheduled on, across restarts and kills of this command. With
    --json standard output has one line of JSON for each event and each change of a run.

    Examples: milepost watch examples/arriving_files.py · milepost watch examples/arriving_files.py --check
    """
    from milepost.runner import watch_file

    return watch_file(file, tuple(dag_ids or ()), workers=workers, max_runs=max_runs, url=url, check=check, as_json=as_json)
