"""`milepost assets`: which assets there are, who refers to them, whether they are active."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated

import typer

from milepost import AssetRecord, AssetStoreAccessor, DamagedValue, Entry, Store
from milepost.calls import HeldKeys
from milepost.cli.asset_store import AssetName, AssetUri, find
from milepost.cli.common import AsJson, Url, open_store, plain, say, show, table, when
from milepost.cli.task_store import short
from milepost.errors import BackendUnsupportedError, DamagedEntryError, NotFoundError
from milepost.scopes import activate_command

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
    if record.damaged:
        return f"DAMAGED: {record.damaged}"
    return "active" if record.active else f"deactivated ({record.cause or 'unknown'})"


def _users(record: AssetRecord) -> str:
    users = [f"{plain(one.dag_id)} ({one.direction})" for one in record.references]
    return ", ".join([*users, *(f"alias {plain(alias)}" for alias in record.aliases)]) or "-"


@app.command("show")
def show_asset(asset: AssetName, uri: AssetUri = None, url: Url = None, as_json: AsJson = False) -> None:
    """Show an asset: who refers to it, and its keys with who moved each last; of a deactivated one what is kept of it.

    Example: milepost assets show flights_table
    """
    with open_store(url) as store:
        record = store.assets.register(find(store, asset, uri))
        # Reads of a deactivated one find nothing.
        entries, unseen = _shown(store, record) if record.active else ([], None)
        held = store.metastore.call(HeldKeys(record.id, 5))
        until = record.kept_until(store.settings.orphan_grace_hours)
    if as_json:
        show({"asset": record, "entries": None if unseen is not None else entries, "keys": held.keys, "kept_until": until})
        return
    say(f"{plain(record.name)} (id {record.id}, {plain(record.uri)}): {_state(record)}, recorded {when(record.created_at)}")
    if record.deactivated_at is not None:
        say(f"deactivated {when(record.deactivated_at)} by {record.deactivated_by}")
    say(f"used by: {_users(record)}")
    if not record.active:
        count = "an unknown number of keys" if held.keys is None else f"{held.keys} key{'' if held.keys == 1 else 's'}"
        say(f"holds {count}{_names(held.first, held.keys)}, kept {_lasting(until)}")
        say(f"to have it back: {activate_command(record.scope)}")
        return
    if unseen is not None:
        say(f"its keys cannot be shown: {unseen}")
        return
    rows = [
        (plain(one.key), short(one.value), when(one.updated_at), one.writer)
        if isinstance(one, Entry)
        else (plain(one.key), short(one), "-", "-")
        for one in entries
    ]
    table(("KEY", "VALUE", "WRITTEN", "BY"), rows)


def _names(first: Sequence[str], count: int | None) -> str:
    if not first:
        return ""
    return f" ({', '.join(map(plain, first))}{', …' if count is not None and count > len(first) else ''})"


def _lasting(until: datetime | None) -> str:
    if until is None:
        return "for as long as a DAG reads it or an alias stands for it"
    return f"until {when(until)} (orphan_grace_hours); then a collection removes it"


def _shown(store: Store, record: AssetRecord) -> tuple[list[Entry | DamagedValue], BackendUnsupportedError | None]:
    """Return the entries of an asset, or why a user's backend cannot show them."""
    try:
        return list(_entries(store.asset_store(record.scope))), None
    except BackendUnsupportedError as error:
        return [], error


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
        record = store.assets.deactivate(find(store, asset, uri))
        _print(record, as_json=as_json)
        if not as_json:
            say(f"its state is kept {_lasting(record.kept_until(store.settings.orphan_grace_hours))}")


@app.command("forget")
def forget(
    dag: Annotated[str, typer.Argument(metavar="DAG", help="A DAG that was renamed or deleted.")],
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Drop what a DAG refers to. Assets that no other DAG refers to are deactivated; the next load of the DAG undoes it.

    Example: milepost assets forget old_flights
    """
    with open_store(url) as store:
        if not store.assets.list(dag_id=dag):
            raise NotFoundError(f"the DAG {dag} refers to no asset; `milepost assets list` shows who does")
        gone = [record for asset in store.assets.declare(dag).deactivated if (record := store.assets.get(asset)) is not None]
        if as_json:
            show({"deactivated": gone})
            return
        say(f"{plain(dag)} refers to no asset any more")
        for record in gone:
            until = record.kept_until(store.settings.orphan_grace_hours)
            say(f"{plain(record.name)} is {_state(record)}; its state is kept {_lasting(until)}")


def _print(record: AssetRecord, *, as_json: bool) -> None:
    if as_json:
        show(record)
    else:
        say(f"{plain(record.name)} is {_state(record)}")
