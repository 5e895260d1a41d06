"""What all command groups share: options, the store, output."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from milepost import NEVER_EXPIRE, Store, TaskScope, Writer, connect
from milepost.config import load_settings, naming_the_place
from milepost.errors import InstanceNotFoundError, InvalidValueError, MilepostError, RunHeldError, StoreUnreachableError
from milepost.store import sqlite_path
from milepost.streams import discard
from milepost.values import loads_strict

__all__ = [
    "AsJson",
    "MapIndex",
    "OutputError",
    "Url",
    "advise",
    "at_least_one",
    "data",
    "fail",
    "flush",
    "is_there",
    "known_instance",
    "open_store",
    "parse_retention_text",
    "parse_value",
    "plain",
    "release_dead",
    "say",
    "show",
    "size_text",
    "spoken",
    "table",
    "when",
    "whole",
]


def whole(text: str | int) -> int:
    """Return a whole number given as an option; the message of a bad one names it."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a whole number") from None


def at_least_one(text: str | int) -> int:
    """Return a whole number of 1 or more given as an option."""
    if (number := whole(text)) < 1:
        raise typer.BadParameter(f"{number} is below 1")
    if number >= 2**31:
        raise typer.BadParameter(f"{number} is above {2**31 - 1}")
    return number


Url = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help="The store; by default as configured (see `milepost config show`)."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on standard output, and nothing else there.")]
MapIndex = Annotated[
    int, typer.Option("--map-index", parser=whole, metavar="N", help="Position in a mapped task; -1: not mapped.")
]

_SPOKEN = {"argument: url": "--url", "map_index must": "--map-index must"}
"""How errors name arguments, and how the command line does."""


def spoken(error: MilepostError) -> str:
    """Return the text of an error in the words of the command line."""
    text = str(error)
    for name, option in _SPOKEN.items():
        if text.startswith(name):
            return option + text.removeprefix(name)
    return text


@contextmanager
def open_store(url: str | None, *, create: bool = False, migrate: bool = False, **options: Any) -> Iterator[Store]:
    """Open the store as the command line, so that edits are on record as its.

    Args:
        url: What ``--url`` says.
        create: Whether to make a store where none is; otherwise a mistyped name is an error and leaves nothing behind.
        migrate: As in `connect`.
        options: More of its arguments.

    Raises:
        StoreUnreachableError: There is none, and ``create`` is not set.
    """
    path = _file(url)
    if not create and path is not None and not is_there(url):
        raise StoreUnreachableError(f"there is no store {path}; --url names another, a run or --create makes a new one")
    # A file is brought up to date by every use, a server by `db upgrade` only.
    upgrade = create or migrate or path is not None
    with connect(url, writer=Writer("cli"), upgrade=upgrade, migrate=migrate, **options) as store:
        yield store


def is_there(url: str | None) -> bool:
    """Tell whether a store is there; one on a server is taken to be."""
    path = _file(url)
    try:
        return path is None or path.exists()
    except OSError as error:
        raise StoreUnreachableError(f"cannot open the store {path}: {error.strerror or error}") from error


def _file(url: str | None) -> Path | None:
    named = load_settings({"url": url}).url
    with naming_the_place("url", {"url": url}):
        return sqlite_path(named) if named.startswith("sqlite:///") else None


def release_dead(store: Store, dag_id: str, run_id: str) -> None:
    """Give up the hold of a runner that was killed on this machine, for its attempts ended with it."""
    from milepost.runner.holder import surely_dead  # it brings what most commands do not need

    record = store.runs.get(dag_id, run_id)
    if record is None or record.holder is None or not surely_dead(record.holder):
        return
    try:
        store.runs.release(dag_id, run_id, record.holder)
    except RunHeldError:
        return  # another runner took it just now


@contextmanager
def advise(kind: type[MilepostError], advice: str) -> Iterator[None]:
    """Add to an error of one kind what to do about it at the command line."""
    try:
        yield
    except kind as error:
        error.args = (f"{error}; {advice}",)
        raise


class OutputError(Exception):
    """Standard output takes no more, and not because its reader has gone: the disk is full, say."""


@contextmanager
def _output() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write the output: {error.strerror or error}") from error


def say(text: str = "") -> None:
    """Print a line on standard output."""
    with _output():
        sys.stdout.write(text + "\n")


def flush() -> None:
    """Have all that was said written."""
    with _output():
        sys.stdout.flush()


def fail(text: str) -> None:
    """Print one line on standard error, if anybody takes it."""
    try:
        sys.stderr.write(f"milepost: {' '.join(text.splitlines())}\n")
    except OSError:
        discard(sys.stderr)  # the exit code says it, too


def data(thing: Any) -> Any:
    """Return records as plain JSON data: times as ISO 8601, scopes and writers as objects."""
    if is_dataclass(thing) and not isinstance(thing, type):
        return {field.name: data(getattr(thing, field.name)) for field in fields(thing)}
    if isinstance(thing, datetime):
        return thing.isoformat()
    if hasattr(thing, "_asdict"):  # a named tuple
        return data(thing._asdict())
    if isinstance(thing, list | tuple):
        return [data(item) for item in thing]
    if isinstance(thing, dict):
        return {key: data(item) for key, item in thing.items()}
    return thing


def show(thing: Any) -> None:
    """Print something as JSON."""
    say(json.dumps(data(thing), ensure_ascii=False, indent=2))


def plain(text: str) -> str:
    """Return a key or a name as it can be shown in one line; what cannot be shown is escaped as in JSON."""
    return text if text.isprintable() and text == text.strip() else json.dumps(text)


def when(moment: datetime | None) -> str:
    """Return a time as people read it: local, to the second."""
    return "-" if moment is None else moment.astimezone().isoformat(sep=" ", timespec="seconds")


def size_text(size: int) -> str:
    """Return a number of bytes as people read it."""
    amount = float(size)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            break
        amount /= 1024
    return f"{size} bytes" if unit == "bytes" else f"{amount:,.1f} {unit}"


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows in aligned columns, never cut; nothing but the head if there are none."""
    lines = [list(heads), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    for line in lines:
        say("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def known_instance(store: Store, scope: TaskScope) -> None:
    """Make sure that a task instance is recorded.

    Raises:
        InstanceNotFoundError: It is not; the message names what is.
    """
    if store.instances.get(scope) is not None:
        return
    indices = [r.scope.map_index for r in store.instances.list(scope.dag_id, scope.run_id, scope.task_id)]
    hint = f"; map indices there: {', '.join(map(str, indices[:10]))}" if indices else ""
    raise InstanceNotFoundError(f"no task instance {scope} is recorded{hint}")


def parse_value(text: str, *, string: bool) -> Any:
    """Return what was given on the command line: JSON, or with ``string`` the text as it is.

    Args:
        text: The argument; ``-`` stands for standard input.
        string: Whether ``--string`` was given.

    Raises:
        InvalidValueError: Not JSON.
    """
    if text == "-":
        raw = sys.stdin.buffer.read()
        if not string:
            return loads_strict(raw)
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise InvalidValueError(f"standard input is not UTF-8 at byte {error.start}") from None
    if string:
        return text
    try:
        return loads_strict(text)
    except InvalidValueError as error:
        raise InvalidValueError(f"{error}; give JSON, or --string to store the text as it is") from None


_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_retention_text(text: str | None) -> timedelta | None:
    """Return a retention given as ``90s``, ``30m``, ``6h``, ``2d``, ``1w``, their sum (``1d12h``), ``never`` or ``default``.

    Raises:
        InvalidValueError: Anything else.
    """
    if text is None or text == "default":
        return None
    if text == "never":
        return NEVER_EXPIRE
    parts = re.findall(r"([0-9]+)([smhdw])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise InvalidValueError(f"retention {text!r} is not a time; write 90s, 30m, 6h, 2d, 1w, never or default")
    try:
        return sum((timedelta(**{_UNITS[unit]: int(number)}) for number, unit in parts), timedelta())
    except OverflowError:
        raise InvalidValueError(f"retention {text!r} is too long; write never to keep a key for good") from None
