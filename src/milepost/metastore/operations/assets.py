"""Which asset is meant: identity rules (SPEC section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from milepost import calls
from milepost.errors import AssetNotFoundError, InvalidValueError
from milepost.metastore.operations.base import Environment, Operation
from milepost.scopes import AssetScope

__all__ = ["asset_hash", "find", "register_all"]

Found = tuple[int, str, str]


def asset_hash(name: str, uri: str) -> bytes:
    """Return the 16 bytes under which an asset is unique."""
    return blake2b(f"asset{len(name)}:{name}{uri}".encode(), digest_size=16).digest()


def find(call: calls.FindAsset, _: Environment) -> Operation[Found]:
    """See `milepost.calls.FindAsset`."""
    return (yield from _find(call.scope, register=call.register))


def register_all(scopes: Sequence[AssetScope]) -> Operation[list[Found]]:
    """Find assets, recording the unknown ones."""
    found = []
    for scope in scopes:
        found.append((yield from _find(scope, register=True)))  # noqa: PERF401  (no comprehension may yield)
    return found


def _find(scope: AssetScope, *, register: bool) -> Operation[Found]:
    if scope.asset_id is not None:
        return (yield from _by_id(scope, scope.asset_id))
    name, uri = scope.name, scope.uri
    if name is not None and uri is not None and name != uri:
        rows = yield "asset_by_hash", (asset_hash(name, uri),)
        if not rows:
            rows = yield from _known_by_one_name(name, uri)
    else:
        rows = yield "asset_by_names", (name, uri)
    if len(rows) > 1:
        several = "; ".join(str(AssetScope(*row)) for row in rows)
        raise InvalidValueError(f"{scope} leads to {len(rows)} different assets: {several}; give both name and URI")
    if rows:
        return rows[0]  # type: ignore[no-any-return]
    if not register:
        raise AssetNotFoundError(f"no asset {scope} is known here; it is recorded by its first use in a DAG or a store")
    name, uri = name or uri or "", uri or name or ""
    number = yield "owner_new", ("asset",)
    yield "asset_insert", (number, asset_hash(name, uri), name, uri)
    return number, name, uri


def _by_id(scope: AssetScope, number: int) -> Operation[Found]:
    rows = yield "asset_by_id", (number,)
    if not rows:
        raise AssetNotFoundError(f"no asset has the id {number}")
    _, name, uri = rows[0]
    if (scope.name not in (None, name)) or (scope.uri not in (None, uri)):
        raise InvalidValueError(f"the asset with the id {number} is {AssetScope(*rows[0])}, not {scope}")
    return rows[0]  # type: ignore[no-any-return]


def _known_by_one_name(name: str, uri: str) -> Operation[list[Found]]:
    """Find an asset that so far was known by only one of its two names, and complete it: it keeps its store."""
    rows = yield "asset_by_names", (name, uri)
    rows = [row for row in rows if row[1] == row[2]]
    if len(rows) == 1:
        number = rows[0][0]
        yield "asset_rename", (number, asset_hash(name, uri), name, uri)
        return [(number, name, uri)]
    return rows
