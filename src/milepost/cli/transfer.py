"""`milepost export` and `milepost import`: a store as a file of JSON lines."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated

import typer

from milepost import TransferReport, connect
from milepost.cli.common import AsJson, Url, fail, is_there, open_store, say, show, table
from milepost.cli.exits import Exit
from milepost.transfer import checked, fill

__all__ = ["register"]

Skip = Annotated[bool, typer.Option("--skip-damaged", help="Leave with 0 even if damaged rows were left out.")]
_TO = "Where to write; - (the default) is standard output."
_FROM = "What `milepost export` wrote; - is standard input."


def register(app: typer.Typer) -> None:
    """Add the commands of this group."""
    app.command("export")(export)
    app.command("import")(import_)


def export(
    file: Annotated[str, typer.Argument(metavar="FILE", help=_TO)] = "-",
    force: Annotated[bool, typer.Option("--force", help="Take the place of a FILE that is there.")] = False,
    skip_damaged: Skip = False,
    url: Url = None,
    as_json: AsJson = False,
) -> int:
    """Write the whole store as JSON lines. Damaged rows are named and left out, and the command leaves with 3.

    Example: milepost export state.jsonl
    """
    if as_json and file == "-":
        raise typer.BadParameter("--json prints the report on standard output, so name a FILE")
    if file != "-" and not force and Path(file).is_file():
        fail(f"{file} is there already; --force takes its place")
        return Exit.USAGE
    try:
        with connect(url, upgrade=False) as store, _target(file) as stream:
            report = store.export(stream)
    except BrokenPipeError:
        raise
    except OSError as error:
        fail(f"cannot write {file}: {error.strerror or error}")
        return Exit.USAGE
    for row in report.first:
        fail(f"left out, because it is damaged: {row}")
    if report.damaged > len(report.first):
        fail(f"… and {report.damaged - len(report.first):,} more")
    if as_json:
        show(report)
    elif file != "-":
        _print(report, f"written to {file}:")
    return Exit.BAD_VALUE if report.damaged and not skip_damaged else Exit.OK


@contextmanager
def _target(name: str) -> Iterator[IO[bytes]]:
    """Give the stream to write to: a new file, readable by its owner only, that takes its place when it is whole."""
    if name == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(name)
    if path.exists() and not path.is_file():  # a pipe or a device
        with path.open("wb") as stream:
            yield stream
        return
    path = path.resolve()
    number, made = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)  # its mode is 0600
    try:
        with os.fdopen(number, "wb", buffering=1 << 20) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        Path(made).replace(path)
    except BaseException:
        Path(made).unlink(missing_ok=True)
        raise


def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help=_FROM)],
    url: Url = None,
    as_json: AsJson = False,
) -> int:
    """Fill an empty store from an export, after the whole of it was checked, and compare the two.

    Example: milepost import state.jsonl --url postgresql://localhost/milepost
    """
    try:
        with _source(file) as stream:
            report = _import(stream, url)
    except OSError as error:
        fail(f"cannot read {file}: {error.strerror or error}")
        return Exit.USAGE
    if as_json:
        show(report)
    else:
        _print(report, "imported, and found again in the store:")
    return Exit.OK


def _import(stream: IO[bytes], url: str | None) -> TransferReport:
    if is_there(url):
        with open_store(url, create=True) as store:
            return store.import_(stream)
    # What is refused leaves no new store behind.
    with checked(stream) as whole, open_store(url, create=True) as store:
        return fill(store.metastore, whole)


@contextmanager
def _source(name: str) -> Iterator[IO[bytes]]:
    if name == "-":
        yield sys.stdin.buffer
        return
    with Path(name).open("rb") as stream:
        yield stream


def _print(report: TransferReport, head: str) -> None:
    say(head)
    table(("ROWS", "OF"), [(f"{count:,}", kind) for kind, count in report.counts.items()])
    say(f"sha256 {report.sha256}")
