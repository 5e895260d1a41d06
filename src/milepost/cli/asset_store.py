"""`milepost asset-store`: look at and edit the state of assets."""

from __future__ import annotations

from typing import Annotated

import typer

from milepost import AssetScope, AssetStoreAccessor, Store
from milepost.calls import FindAsset
from milepost.cli.common import AsJson, Url, advise, open_store, parse_value
from milepost.cli.task_store import print_entry, print_pairs
from milepost.errors import AssetNotFoundError, InvalidValueError

__all__ = ["app"]

app = typer.Typer(help="Look at and edit the state of assets.", no_args_is_help=True)

AssetName = Annotated[str, typer.Argument(metavar="ASSET", help="Name or URI.")]
AssetUri = Annotated[
    str | None, typer.Option("--uri", metavar="URI", help="Its URI, where several assets have the name ASSET.")
]
Key = Annotated[str, typer.Argument(metavar="KEY")]


def _accessor(store: Store, asset: str, uri: str | None, *, create: bool = False) -> AssetStoreAccessor:
    """Return the accessor of an asset by name or URI, or by both.

    Raises:
        AssetNotFoundError: It is unknown and ``create`` is not set.
        InvalidValueError: It leads to several assets.
    """
    scope = AssetScope(name=asset, uri=asset if uri is None else uri)
    with advise(InvalidValueError, "at the command line: NAME --uri URI"):
        if not create:
            scope = AssetScope(*store.metastore.call(FindAsset(scope)))
        return store.asset_store(scope)


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
    """Drop a key.

    Example: milepost asset-store delete flights_table watermark
    """
    with open_store(url) as store:
        _accessor(store, asset, uri).delete(key)


@app.command("clear")
def clear(asset: AssetName, uri: AssetUri = None, url: Url = None) -> None:
    """Drop all keys of an asset.

    Example: milepost asset-store clear flights_table
    """
    with open_store(url) as store:
        _accessor(store, asset, uri).clear()
