"""Which asset is meant: identity rules (SPEC section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from milepost import calls
from milepost.errors import AssetNotFoundError, InvalidValueError
from milepost.metastore.operations.base import Environment, Operation
from milepost.references import unknown_asset
from milepost.scopes import AssetScope, key_text

__all__ = ["alias_hash", "asset_hash", "find", "find_all", "find_one"]

Found = tuple[int, str, str]


def asset_hash(name: str, uri: str) -> bytes:
    """Return the 16 bytes under which an asset is unique."""
    return blake2b(f"asset{len(name)}:{name}{uri}".encode(), digest_size=16).digest()


def alias_hash(alias: str) -> bytes:
    """Return the 16 bytes under which an alias is unique."""
    return blake2b(f"alias{alias}".encode(), digest_size=16).digest()


def find(call: calls.FindAsset, _: Environment) -> Operation[Found]:
    """See `milepost.calls.FindAsset`."""
    return (yield from find_one(call.scope, register=call.register))


def find_all(scopes: Sequence[AssetScope], added: list[AssetScope] | None = None) -> Operation[dict[AssetScope, Found]]:
    """Find assets, recording those that are declared and unknown; references to unknown ones are left out.

    Args:
        scopes: The assets.
        added: Takes those that were recorded.
    """
    found: dict[AssetScope, Found] = {}
    for scope in sorted(dict.fromkeys(scopes), key=_missing):
        try:
            found[scope] = yield from find_one(scope, register=True, added=added)
        except AssetNotFoundError:
            continue  # an error where it is used, not for tasks that never touch it
    return found


def _missing(scope: AssetScope) -> int:
    """Order scopes so that each comes after what it may lead to beside it: both names, one that fills the other, one."""
    if scope.name is None or scope.uri is None:
        return 2
    return int(scope.name == scope.uri)


def find_one(scope: AssetScope, *, register: bool = False, added: list[AssetScope] | None = None) -> Operation[Found]:
    """Find an asset; ``register``: record it if it is declared and unknown, and tell ``added``."""
    if scope.asset_id is not None:
        return (yield from _by_id(scope, scope.asset_id))
    name, uri = scope.name, scope.uri
    both = (name, uri) if name is not None and uri is not None and name != uri else None
    rows: Sequence[Found] = []
    if both is not None:
        rows = yield "asset_by_hash", (asset_hash(*both),)
    exact = bool(rows)
    if not exact:
        rows = yield "asset_by_names", (name, uri)
        if both is not None:
            rows = [row for row in rows if row[1] == row[2]]  # so far known by only one of its two names
    if len(rows) > 1:
        # A DAG file in which an asset got another URI leaves the old one deactivated, which is not in the way of its name.
        rows = (yield from _active(rows)) or rows
    if len(rows) > 1:
        several = "; ".join(str(AssetScope(*row)) for row in rows)
        way_out = "deactivate one of them" if both else "give both name and URI"
        raise InvalidValueError(f"{scope} leads to {len(rows)} different assets: {several}; {way_out}")
    if rows and both is not None and not exact and register:
        yield "asset_rename", (rows[0][0], asset_hash(*both), *both)  # it keeps its store
        return (rows[0][0], *both)
    if rows:
        return _readable(rows[0])
    if not register or name is None or uri is None:
        raise unknown_asset(scope)
    number = yield "owner_new", ("asset",)
    yield "asset_insert", (number, asset_hash(name, uri), name, uri)
    if added is not None:
        added.append(AssetScope(number, name, uri))
    return number, name, uri


def _active(rows: Sequence[Found]) -> Operation[list[Found]]:
    """Return those of some assets that are active."""
    found = []
    for row in rows:
        active = yield "asset_active", (row[0],)
        if active and active[0][0]:
            found.append(row)
    return found


def _by_id(scope: AssetScope, number: int) -> Operation[Found]:
    rows = yield "asset_by_id", (number,)
    if not rows:
        raise AssetNotFoundError(f"no asset has the id {number}")
    found = _readable(rows[0])
    _, name, uri = found
    # A scope from the time when the asset was known by only one of its names has that one twice.
    before = scope.name == scope.uri and scope.name in (name, uri)
    if not before and (scope.name not in (None, name) or scope.uri not in (None, uri)):
        raise InvalidValueError(f"the asset with the id {number} is {AssetScope(*found)}, not {scope}")
    return found


def _readable(row: Sequence[Any]) -> Found:
    """Return an asset from its row, also where somebody put bytes that are no text."""
    number, name, uri = row
    return number, key_text(name), key_text(uri)
