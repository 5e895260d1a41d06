"""`milepost clean`, `state-store` and `db`: collection and care of the store."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from milepost import CleanReport, Store, connect
from milepost.calls import HeldKeys
from milepost.cli.common import AsJson, Url, at_least_one, data, fail, open_store, plain, say, show, size_text, table, when
from milepost.cli.exits import Exit
from milepost.collection import SWEPT_NAMES, Progress
from milepost.config import load_settings, mask_url
from milepost.errors import ConfigurationError

__all__ = ["register"]

FIRST = 20
"""The most keys of each kind that a dry run names."""

DryRun = Annotated[bool, typer.Option("--dry-run", help="Remove nothing; print what would go and the first keys.")]
BatchSize = Annotated[
    int | None, typer.Option("--batch-size", parser=at_least_one, metavar="N", help="Rows per delete statement.")
]

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


def clean(dry_run: DryRun = False, batch_size: BatchSize = None, url: Url = None, as_json: AsJson = False) -> int:
    """Remove what has expired or is past its time. Leaves with 5 while another collector is at work.

    Example: milepost clean --dry-run
    """
    with open_store(url) as store, _bar(dry_run) as progress:
        report = store.clean(dry_run=dry_run, batch_size=batch_size, first=FIRST, progress=progress)
        deactivated = _deactivated(store) if dry_run else []
    if as_json:
        show({**data(report), "deactivated": deactivated} if dry_run else report)
    elif report.held_by is None:
        _print(report)
        _print_deactivated(deactivated, report)
    if report.held_by is not None:
        fail(f"another collector is at work ({report.held_by}); nothing was removed")
        return Exit.CONFLICT
    return Exit.OK


@contextmanager
def _bar(dry_run: bool) -> Iterator[Progress | None]:
    """Give what shows how far a collection is: a bar on a terminal, elsewhere nothing."""
    if dry_run or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bars

    with Bars(console=Console(stderr=True), transient=True) as bars:
        shown = bars.add_task("", total=None)

        def tell(what: str, done: int, total: int) -> None:
            bars.update(shown, description=what, completed=done, total=max(total, done, 1))

        yield tell


def _print(report: CleanReport) -> None:
    say("would remove:" if report.dry_run else "removed:")
    table(
        ("ROWS", "WHAT"),
        [
            (report.expired, "entries whose retention has passed"),
            (report.retired, "entries past default_retention_days"),
            (report.changes, "archived and logged changes past archive_days or asset_history_limit"),
            (report.orphans, "assets past orphan_grace_hours, with their state"),
        ],
    )
    if report.swept and not report.dry_run:
        say()
        for name in report.swept[:FIRST]:
            say(f"asset: {plain(name)}")
        if report.orphans > FIRST:
            say(f"… (the first {FIRST}; all with --json)")
    if report.first:
        say()
        rows = [(one.what, plain(one.owner or "-"), plain(one.key or "-")) for one in report.first]
        table(("WHAT", "OF", "KEY"), rows)
        if len(report.first) < report.expired + report.retired + report.changes + report.orphans:
            say(f"… (the first {FIRST} of each kind)")
    if report.backend:
        say(f"entries of the backend: {report.backend}")


def _deactivated(store: Store) -> list[dict[str, Any]]:
    """Return the assets that a sweep takes, now or later, with what they hold, in the order of their time."""
    hours = store.settings.orphan_grace_hours
    orphans = [(one.kept_until(hours), one) for one in store.assets.list(active=False)]
    due = sorted(((until, one.id, one) for until, one in orphans if until is not None), key=lambda each: each[:2])
    found = []
    for until, number, one in due[:SWEPT_NAMES]:
        held = store.metastore.call(HeldKeys(number, FIRST))
        found.append({"asset": str(one.scope), "kept_until": until, "keys": held.keys, "first": held.first})
    return found


def _print_deactivated(deactivated: list[dict[str, Any]], report: CleanReport) -> None:
    if not deactivated:
        return
    say()
    rows = []
    for one in deactivated[:FIRST]:
        names = [plain(key) for key in one["first"]]
        more = ["…"] if one["keys"] is not None and one["keys"] > len(names) else []
        due = "due now" if one["asset"] in report.swept else when(one["kept_until"])
        rows.append((plain(one["asset"]), due, "?" if one["keys"] is None else one["keys"], ", ".join(names + more)))
    table(("DEACTIVATED ASSET", "KEPT UNTIL", "HOLDS", "KEYS"), rows)
    if len(deactivated) > FIRST:
        say(f"… (the first {FIRST}; more with --json)")


@_db.command("upgrade")
def upgrade(url: Url = None) -> None:
    """Bring the schema up to date. A SQLite file is brought up to date by every use, a database server only by this."""
    named = load_settings({"url": url}).url
    if named.startswith(("http:", "https:")):
        raise ConfigurationError(
            f"{mask_url(named)} is a server, which opens only stores that are up to date; run this with the url of the "
            "database behind it, before the server starts"
        )
    with open_store(url, migrate=True) as store:
        store.verify()
        before, after = store.metastore.found_schema, store.stats().schema
        what = (
            f"upgraded from schema {before} to {after}"
            if before not in (None, after)
            else f"up to date, with schema {after}"
        )
        say(f"{mask_url(store.settings.url)} is {what}")


@_db.command("verify")
def verify(url: Url = None) -> None:
    """Check the schema and the whole file, and change nothing."""
    with connect(url, upgrade=False) as store:
        store.verify()
        say(f"{mask_url(store.settings.url)} is in order")


@_db.command("stats")
def stats(url: Url = None, as_json: AsJson = False) -> None:
    """Print the version of the schema, the size, and the rows of each table. Reads whole tables and changes nothing.

    Example: milepost db stats --json
    """
    with connect(url, upgrade=False) as store:
        found = store.stats()
    if as_json:
        show(found)
        return
    rows = [
        ("schema", f"version {found.schema}"),
        ("size", size_text(found.bytes)),
        *(
            (name, f"{getattr(found, name):,}")
            for name in ("runs", "instances", "entries", "assets", "changes", "results", "intents")
        ),
        ("newest row", when(found.newest)),
    ]
    rows[4] = ("entries", f"{found.entries:,}, of which {found.expired:,} expired and not yet collected")
    table(("WHAT", "HOW MUCH"), rows)
