"""`milepost asset-store`: look at and edit the state of assets."""

from __future__ import annotations

from typing import Annotated

import typer

from milepost import AssetScope, AssetStoreAccessor, Store
from milepost.calls import FindAsset
from milepost.cli.common import AsJson, Url, advise, at_least_one, open_store, parse_value, say, show, table, when, whole
from milepost.cli.task_store import print_archives, print_entry, print_pairs, print_restored, short
from milepost.errors import AssetNotFoundError, InvalidValueError

__all__ = ["AssetName", "AssetUri", "app", "find"]

app = typer.Typer(help="Look at and edit the state of assets.", no_args_is_help=True)

AssetName = Annotated[str, typer.Argument(metavar="ASSET", help="Name or URI.")]
AssetUri = Annotated[
    str | None, typer.Option("--uri", metavar="URI", help="Its URI, where several assets have the name ASSET.")
]
Key = Annotated[str, typer.Argument(metavar="KEY")]


def find(store: Store, asset: str, uri: str | None, *, create: bool = False) -> AssetScope:
    """Return the number and the names of an asset by name or URI, or by both.

    Raises:
        AssetNotFoundError: It is unknown and ``create`` is not set.
        InvalidValueError: It leads to several assets.
    """
    scope = AssetScope(name=asset, uri=asset if uri is None else uri)
    with advise(InvalidValueError, "at the command line: NAME --uri URI"):
        return AssetScope(*store.metastore.call(FindAsset(scope, register=create)))


def _accessor(store: Store, asset: str, uri: str | None, *, create: bool = False) -> AssetStoreAccessor:
    return store.asset_store(find(store, asset, uri, create=create))


@app.command("list")
def list_keys(
    asset: AssetName,
    uri: AssetUri = None,
    prefix: Annotated[str, typer.Option("--prefix", help="Only keys that start with this text.")] = "",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List the keys of an asset with their values.

    Examples: milepost asset-store list flights_table · … list flights_table --uri s3://new/flights
    """
    with open_store(url) as store:
        pairs = _accessor(store, asset, uri).items(prefix)
    print_pairs(pairs, as_json=as_json)


@app.command("get")
def get(
    asset: AssetName,
    key: Key,
    uri: AssetUri = None,
    string: Annotated[bool, typer.Option("--string", help="Print a string as it is, without quotes.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Print the value under a key as JSON; with --json all that is known of the entry.

    Example: milepost asset-store get flights_table watermark
    """
    with open_store(url) as store:
        print_entry(_accessor(store, asset, uri), key, string=string, as_json=as_json)


@app.command("set", context_settings={"ignore_unknown_options": True})
def set_value(
    asset: AssetName,
    key: Key,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="JSON; - reads standard input.")],
    uri: AssetUri = None,
    string: Annotated[bool, typer.Option("--string", help="VALUE is text, stored as a string as it is.")] = False,
    create: Annotated[bool, typer.Option("--create", help="Record the asset if it is unknown.")] = False,
    version: Annotated[
        str | None, typer.Option("--if-version", metavar="V", help="Write only over this version; absent: only if absent.")
    ] = None,
    url: Url = None,
) -> None:
    """Write or overwrite a key.

    Example: milepost asset-store set flights_table watermark --string 2013-11-30
    """
    parsed = parse_value(value, string=string)
    with advise(AssetNotFoundError, "--create records it"), open_store(url, create=create) as store:
        accessor = _accessor(store, asset, uri, create=create)
        if version is None:
            accessor.set(key, parsed)
        else:
            accessor.compare_and_set(key, parsed, version=None if version == "absent" else version)


@app.command("delete")
def delete(asset: AssetName, key: Key, uri: AssetUri = None, url: Url = None) -> None:
    """Drop a key; its history stays, and it can be restored.

    Example: milepost asset-store delete flights_table watermark
    """
    with open_store(url) as store:
        _accessor(store, asset, uri).delete(key)


@app.command("clear")
def clear(asset: AssetName, uri: AssetUri = None, url: Url = None) -> None:
    """Drop all keys of an asset; their history stays, and they can be restored.

    Example: milepost asset-store clear flights_table
    """
    with open_store(url) as store:
        _accessor(store, asset, uri).clear()


@app.command("restore")
def restore(
    asset: AssetName,
    uri: AssetUri = None,
    archive: Annotated[
        int | None, typer.Option("--archive", parser=whole, metavar="ID", help="By default the newest.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over live keys that are in the way.")] = False,
    list_them: Annotated[bool, typer.Option("--list", help="Only list what can be restored.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Bring back what was cleared or deleted.

    Example: milepost asset-store restore flights_table --list
    """
    with open_store(url) as store:
        scope = find(store, asset, uri)
        if list_them:
            print_archives(store.assets.archives(scope), as_json=as_json)
            return
        count = store.assets.restore(scope, archive=archive, force=force)
    print_restored(count, as_json=as_json)


@app.command("history")
def history(
    asset: AssetName,
    key: Key,
    uri: AssetUri = None,
    limit: Annotated[int, typer.Option("--limit", parser=at_least_one, metavar="N", help="The most values.")] = 20,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List the earlier values of a key, newest first: who wrote each, and who put what in its place.

    Example: milepost asset-store history flights_table watermark
    """
    with open_store(url) as store:
        past = _accessor(store, asset, uri).history(key, limit)
    if as_json:
        show(past)
        return
    rows = [
        (one.version, short(one.value), when(one.updated_at), one.writer, when(one.replaced_at), one.cause, one.replaced_by)
        for one in past
    ]
    table(("VERSION", "VALUE", "WRITTEN", "BY", "REPLACED", "HOW", "BY"), rows)


@app.command("rollback")
def rollback(
    asset: AssetName,
    key: Key,
    version: Annotated[str, typer.Option("--version", metavar="V", help="The version, as `history` shows it.")],
    uri: AssetUri = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Make an earlier value of a key current again. It is a new write, on record as a rollback.

    Example: milepost asset-store rollback flights_table watermark --version 0f3a…
    """
    with open_store(url) as store:
        accessor = _accessor(store, asset, uri)
        new = accessor.rollback(key, version=version)
        if as_json:
            show({"version": new})
        else:
            print_entry(accessor, key, string=False, as_json=False)


@app.command("copy")
def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="Name or URI of the asset to read.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="Name or URI of the asset to write.")],
    uri: Annotated[str | None, typer.Option("--uri", metavar="URI", help="The URI of FROM.")] = None,
    to_uri: Annotated[str | None, typer.Option("--to-uri", metavar="URI", help="The URI of TO.")] = None,
    create: Annotated[bool, typer.Option("--create", help="Record TO if it is unknown.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over keys that TO has.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Write all keys of one asset to another, all or nothing. Versions are new; the history stays where it is.

    Example: milepost asset-store copy flights_table flights_table_v2 --create
    """
    with open_store(url) as store:
        one = find(store, source, uri)
        with advise(AssetNotFoundError, "--create records it"):
            other = find(store, target, to_uri, create=create)
        count = store.assets.copy(one, other, force=force)
    if as_json:
        show({"copied": count})
    else:
        say(f"{count} key{'' if count == 1 else 's'} copied")
