"""`milepost run`: execute a DAG file on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from milepost.cli.common import AsJson, Url, advise, at_least_one
from milepost.errors import InvalidValueError
from milepost.values import encode, loads_strict

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands of this group."""
    app.command("run")(run)


def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A Python file that declares a DAG.")],
    dag_id: Annotated[str | None, typer.Argument(metavar="DAG_ID", help="Needed where the file declares several.")] = None,
    run_id: Annotated[
        str | None, typer.Option("--run-id", metavar="ID", help="Name the run; the same name again resumes it.")
    ] = None,
    params: Annotated[str | None, typer.Option("--params", metavar="JSON", help="Parameters as a JSON object.")] = None,
    workers: Annotated[
        int, typer.Option("--workers", parser=at_least_one, metavar="N", help="Attempts at the same time.")
    ] = 1,
    clear: Annotated[
        list[str] | None, typer.Option("--clear", metavar="TASK", help="Start this task over first; may be repeated.")
    ] = None,
    keep_state: Annotated[bool, typer.Option("--keep-state", help="With --clear: keep the keys.")] = False,
    downstream: Annotated[bool, typer.Option("--downstream", help="With --clear: the tasks after it, too.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> int:
    """Run a DAG file; each attempt is a process of its own, and a killed one resumes from the task store.

    With --json standard output has the summary only; what tasks print goes to standard error.

    Example: milepost run examples/flights.py --run-id r1
    """
    from milepost.runner import run_file

    return run_file(
        file,
        dag_id,
        run_id=run_id,
        params=_params(params),
        workers=workers,
        url=url,
        clear=tuple(clear or ()),
        keep_state=keep_state,
        downstream=downstream,
        as_json=as_json,
    )


def _params(text: str | None) -> dict[str, object] | None:
    if text is None:
        return None
    with advise(InvalidValueError, """--params takes a JSON object, such as '{"day": "2026-01-31"}'"""):
        parsed = loads_strict(text)
        encode(parsed, 0)  # what reads as JSON need not be a value: 1e400
    if not isinstance(parsed, dict):
        raise InvalidValueError(f"--params must be a JSON object, got {text!r}")
    return parsed
