"""`milepost asset-store`: look at and edit the state of assets."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

from milepost import AssetScope, AssetStoreAccessor, Store
from milepost.calls import FindAsset
from milepost.cli.common import (
    AsJson,
    Url,
    advise,
    at_least_one,
    open_store,
    parse_value,
    plain,
    say,
    show,
    table,
    when,
    whole,
)
from milepost.cli.task_store import print_archives, print_entry, print_pairs, print_restored, short
from milepost.errors import AssetNotFoundError, DamagedEntryError, InvalidValueError, NotFoundError
from milepost.scopes import activate_command

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


def _readable(store: Store, asset: str, uri: str | None) -> AssetScope:
    """Return the number and the names of an asset to read from, as `find` does.

    Raises:
        AssetNotFoundError: It is unknown.
        NotFoundError: It is deactivated, so that reads find nothing.
    """
    scope = find(store, asset, uri)
    record = store.assets.get(scope)
    if record is not None and not record.active:
        until = record.kept_until(store.settings.orphan_grace_hours)
        kept = "" if until is None else f", and its state may be removed from {when(until)} on"
        raise NotFoundError(f"the asset {scope} is deactivated, so reads find nothing{kept}; {activate_command(scope)}")
    return scope


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
        pairs = store.asset_store(_readable(store, asset, uri)).items(prefix)
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
        print_entry(store.asset_store(_readable(store, asset, uri)), key, string=string, as_json=as_json)


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
    """Drop a key; its history stays, and it can be restored (unless asset_history_limit is 0).

    Example: milepost asset-store delete flights_table watermark
    """
    with open_store(url) as store:
        _accessor(store, asset, uri).delete(key)


@app.command("clear")
def clear(asset: AssetName, uri: AssetUri = None, url: Url = None) -> None:
    """Drop all keys of an asset; their history stays, and they can be restored (unless asset_history_limit is 0).

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
        if list_them:
            print_archives(store.assets.archives(_readable(store, asset, uri)), as_json=as_json)
            return
        count = store.assets.restore(find(store, asset, uri), archive=archive, force=force)
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
        accessor = store.asset_store(_readable(store, asset, uri))
        past = accessor.history(key, limit)
        if not past and key not in accessor:
            raise NotFoundError(f"{accessor.scope} has no key {key!r} and no earlier values of it")
    if as_json:
        show(past)
        return
    if not past:
        say(f"no earlier values of {plain(key)}")
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
    version: Annotated[
        str, typer.Option("--version", metavar="V", help="The version, as `history` shows it, or its first characters.")
    ],
    uri: AssetUri = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Make an earlier value of a key current again. It is a new write, on record as a rollback.

    Example: milepost asset-store rollback flights_table watermark --version 0f3a…
    """
    with open_store(url) as store:
        accessor = _accessor(store, asset, uri)
        new = accessor.rollback(key, version=_version(accessor, key, version))
        if as_json:
            show({"version": new})
        else:
            print_entry(accessor, key, string=False, as_json=False)


def _version(accessor: AssetStoreAccessor, key: str, given: str) -> str:
    """Return the version that starts with what was given; one that is given in full comes first.

    Raises:
        InvalidValueError: Several do.
    """
    versions = [one.version for one in accessor.history(key, 2**31 - 1)]
    with suppress(DamagedEntryError):  # what is damaged can be rolled back
        if (entry := accessor.entry(key)) is not None:
            versions.append(entry.version)
    found = [one for one in dict.fromkeys(versions) if given and one.startswith(given)]
    if given in found or not found:
        return given
    if len(found) > 1:
        raise InvalidValueError(
            f"{len(found)} versions of {key!r} start with {given!r}; give more of it: {', '.join(found[:5])}"
        )
    return found[0]


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
    """Write all keys of one asset, deactivated or not, to another, all or nothing. Versions are new; the history stays.

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
