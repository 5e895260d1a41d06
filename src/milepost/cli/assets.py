"""`milepost assets`: which assets there are, who refers to them, whether they are active."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from milepost import AssetRecord, AssetStoreAccessor, DamagedValue, Entry
from milepost.cli.asset_store import AssetName, AssetUri, find
from milepost.cli.common import AsJson, Url, open_store, plain, say, show, table, when
from milepost.cli.task_store import short
from milepost.errors import DamagedEntryError

__all__ = ["app"]

app = typer.Typer(help="Find assets, see who refers to them, activate and deactivate them.", no_args_is_help=True)


@app.command("list")
def list_assets(
    active: Annotated[bool | None, typer.Option("--active/--deactivated", help="Only these.")] = None,
    dag: Annotated[str | None, typer.Option("--dag", metavar="DAG", help="Only those that this DAG refers to.")] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List assets with the DAGs that refer to them.

    Example: milepost assets list --dag flights
    """
    with open_store(url) as store:
        records = store.assets.list(active=active, dag_id=dag)
    if as_json:
        show(records)
        return
    rows = [(one.id, plain(one.name), plain(one.uri), _state(one), _users(one)) for one in records]
    table(("ID", "NAME", "URI", "STATE", "USED BY"), rows)


def _state(record: AssetRecord) -> str:
    return "active" if record.active else f"deactivated ({record.cause or 'unknown'})"


def _users(record: AssetRecord) -> str:
    users = [f"{plain(one.dag_id)} ({one.direction})" for one in record.references]
    return ", ".join([*users, *(f"alias {plain(alias)}" for alias in record.aliases)]) or "-"


@app.command("show")
def show_asset(asset: AssetName, uri: AssetUri = None, url: Url = None, as_json: AsJson = False) -> None:
    """Show an asset: who refers to it, and its keys with who moved each last.

    Example: milepost assets show flights_table
    """
    with open_store(url) as store:
        record = store.assets.register(find(store, asset, uri))
        entries = list(_entries(store.asset_store(record.scope)))
    if as_json:
        show({"asset": record, "entries": entries})
        return
    say(f"{plain(record.name)} (id {record.id}, {plain(record.uri)}): {_state(record)}, recorded {when(record.created_at)}")
    if record.deactivated_at is not None:
        say(f"deactivated {when(record.deactivated_at)} by {record.deactivated_by}")
    say(f"used by: {_users(record)}")
    rows = [
        (plain(one.key), short(one.value), when(one.updated_at), one.writer)
        if isinstance(one, Entry)
        else (plain(one.key), short(one), "-", "-")
        for one in entries
    ]
    table(("KEY", "VALUE", "WRITTEN", "BY"), rows)


def _entries(accessor: AssetStoreAccessor) -> Iterator[Entry | DamagedValue]:
    """Go through the entries of an asset; a damaged one does not hide the others."""
    for key, value in accessor.items():
        try:
            entry = value if isinstance(value, DamagedValue) else accessor.entry(key)
        except DamagedEntryError as error:
            entry = DamagedValue(key, error.reason)
        if entry is not None:  # it has been deleted just now
            yield entry


@app.command("activate")
def activate(asset: AssetName, uri: AssetUri = None, url: Url = None, as_json: AsJson = False) -> None:
    """Activate a deactivated asset; its state is as it was.

    Example: milepost assets activate flights_table
    """
    with open_store(url) as store:
        _print(store.assets.activate(find(store, asset, uri)), as_json=as_json)


@app.command("deactivate")
def deactivate(asset: AssetName, uri: AssetUri = None, url: Url = None, as_json: AsJson = False) -> None:
    """Deactivate an asset: writes are refused, reads find nothing. Its state may be removed after orphan_grace_hours.

    Example: milepost assets deactivate flights_table
    """
    with open_store(url) as store:
        _print(store.assets.deactivate(find(store, asset, uri)), as_json=as_json)


def _print(record: AssetRecord, *, as_json: bool) -> None:
    if as_json:
        show(record)
    else:
        say(f"{plain(record.name)} is {_state(record)}")
