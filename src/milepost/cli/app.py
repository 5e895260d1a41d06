"""The commands and how they are run."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from milepost import __version__
from milepost.cli import asset_store, configuration, maintenance, run, runs, task_store
from milepost.cli.common import fail, say
from milepost.cli.exits import Exit, exit_of
from milepost.errors import MilepostError

__all__ = ["app", "main"]

# Newer releases of Typer bring a Click of their own, older ones use the installed one; this is right for both.
_ClickError: type[Any] = next(cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException")

app = typer.Typer(
    name="milepost",
    help="The task store and the asset store for data pipelines.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 ok, 1 run failed, 2 usage, 3 bad value, 4 not found, 5 conflict or stale, 6 store unreachable.",
)


def _version(wanted: bool) -> None:
    if wanted:
        say(f"milepost {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    pass


run.register(app)
app.add_typer(runs.app, name="runs")
app.add_typer(task_store.app, name="task-store")
app.add_typer(asset_store.app, name="asset-store")
maintenance.register(app)
configuration.register(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with an exit code of `Exit`.

    Args:
        arguments: By default those of the process.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    code = _run(arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has gone, as in `milepost … | head`. Nothing more can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        code = app(args=None if arguments is None else list(arguments), standalone_mode=False)
    except _ClickError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
            return Exit.USAGE
        context = getattr(error, "ctx", None)
        hint = f" (see `{context.command_path} --help`)" if context is not None else ""
        fail(f"{error.format_message()}{hint}")
        return Exit.USAGE
    except (typer.Abort, KeyboardInterrupt):
        fail("stopped")
        return 130
    except BrokenPipeError:
        return Exit.OK
    except MilepostError as error:
        if os.environ.get("MILEPOST_DEBUG"):
            raise
        fail(str(error))
        return exit_of(error)
    return code if isinstance(code, int) else Exit.OK
