"""The commands and how they are run."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from milepost import __version__
from milepost.cli import (
    airflow,
    asset_store,
    assets,
    configuration,
    doctor,
    maintenance,
    run,
    runs,
    serve,
    task_store,
    tokens,
    transfer,
    watch,
)
from milepost.cli.airflow_options import airflow_options
from milepost.cli.common import OutputError, fail, flush, say, spoken
from milepost.cli.exits import Exit, exit_of
from milepost.config import also_from
from milepost.errors import MilepostError
from milepost.streams import discard

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
serve.register(app)
watch.register(app)
app.add_typer(runs.app, name="runs")
app.add_typer(task_store.app, name="task-store")
app.add_typer(asset_store.app, name="asset-store")
app.add_typer(assets.app, name="assets")
app.add_typer(tokens.app, name="tokens")
app.add_typer(airflow.app, name="airflow")
maintenance.register(app)
transfer.register(app)
configuration.register(app)
doctor.register(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with an exit code of `Exit`.

    Args:
        arguments: By default those of the process.
    """
    _settle_streams()
    try:
        with also_from(airflow_options):
            code = _run(_process_arguments() if arguments is None else list(arguments))
        flush()
    except (BrokenPipeError, SystemExit) as error:
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise  # otherwise it is what Click makes of a closed pipe
        # The reader has gone, as in `milepost … | head`. Nothing more can be said; the code is the shell's for that.
        code = 128 + 13
        discard(sys.stdout)
        discard(sys.stderr)
    except OutputError as error:
        discard(sys.stdout)  # Python would try again at exit, and complain
        fail(str(error))
        code = Exit.USAGE
    sys.exit(code)


def _settle_streams() -> None:
    """Read and write UTF-8 whatever the locale says, and have streams where the process was started without."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123  (open until the process ends)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _process_arguments() -> list[str]:
    """Return the arguments of the process as UTF-8; bytes that are none become lone surrogates, which are refused."""
    return [os.fsencode(argument).decode("utf-8", "surrogateescape") for argument in sys.argv[1:]]


def _run(arguments: list[str]) -> int:
    try:
        code = app(args=arguments, prog_name="milepost", standalone_mode=False)
    except _ClickError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
            return Exit.USAGE
        fail(f"{error.format_message()}{_hint(error)}")
        return Exit.USAGE
    except (typer.Abort, KeyboardInterrupt):
        fail("stopped")
        return 130
    except (BrokenPipeError, OutputError):
        raise
    except MilepostError as error:
        if os.environ.get("MILEPOST_DEBUG"):
            raise
        fail(spoken(error))
        return exit_of(error)
    except Exception as error:
        # A user's backend may raise anything; people get one line, not a traceback.
        if os.environ.get("MILEPOST_DEBUG"):
            raise
        fail(f"{type(error).__name__}: {' '.join(str(error).split())} (MILEPOST_DEBUG=1 shows where)")
        return Exit.STORE
    return code if isinstance(code, int) else Exit.OK


def _hint(error: Any) -> str:
    context = getattr(error, "ctx", None)
    if context is None:
        return ""
    dash = "; what starts with - and is no option goes after --" if type(error).__name__ == "NoSuchOption" else ""
    return f" (see `{context.command_path} --help`{dash})"
