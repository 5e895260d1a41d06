"""``/assets``: which assets there are, and ``/assets/{asset_id}/state-store``: their keys."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from milepost import calls
from milepost.accessors import AssetStoreAccessor
from milepost.asset_records import AssetRecord
from milepost.calls import Handle
from milepost.errors import AssetNotFoundError, InvalidKeyError, InvalidValueError
from milepost.registry import Assets
from milepost.scopes import MAX_ASSET_CHARS, MAX_ID_CHARS, AssetScope, check_text
from milepost.server.rest import shapes
from milepost.server.rest.access import needs, writer_of
from milepost.server.rest.answers import answer, asset_entry, plain
from milepost.server.rest.entries import Target, add_edits, key_in_path, read, remove
from milepost.server.rest.paths import decoded
from milepost.server.rest.requests import (
    Counted,
    Cursor,
    Limit,
    Offset,
    OneKey,
    Prefix,
    Whole,
    cursor_after,
    fields_of,
    next_cursor,
    prefix_of,
    refuse_condition,
    size,
)
from milepost.store import Store

__all__ = ["router"]

_ASSET: Final = "/assets/{asset_id}"


async def asset_number(asset_id: str) -> int:
    """Return the number of the asset that a request names."""
    text = decoded(asset_id, "asset_id")
    if not text.isascii() or not text.isdigit() or len(text) > 100:
        raise InvalidKeyError(f"asset_id must be a whole number above 0, got {text[:60]!r}; GET /assets lists them")
    number = int(text)
    if not 0 < number < 2**63:
        raise AssetNotFoundError(f"there is no asset {text}")
    return number


Number = Annotated[int, Depends(asset_number)]


async def target(request: Request, number: Number) -> Target:
    """Return the keys of the asset that a request names."""
    store: Store = request.app.state.store
    _, name, uri = await store.metastore.acall(calls.FindAsset(AssetScope(number)))
    handle = Handle(AssetScope(number, name, uri), writer_of(request).encode(), logged=True, owner_id=number)
    return Target(store.metastore, handle, store.settings.max_value_bytes)


Known = Annotated[Target, Depends(target)]


def router(store: Store) -> APIRouter:  # noqa: PLR0915  (a list of routes)
    """Return the routes."""
    metastore, limit = store.metastore, store.settings.max_value_bytes
    routes = APIRouter(tags=["Asset State Store"])

    base, one = f"{_ASSET}/state-store", f"{_ASSET}/state-store/{{key:key}}"
    viewer, editor, admin = needs("viewer"), needs("editor"), needs("admin")

    @routes.get(
        base,
        dependencies=viewer,
        operation_id="list_asset_state_store",
        responses={200: shapes.json_answer(shapes.asset_collection), **shapes.errors(404)},
    )
    async def list_keys(
        request: Request,
        known: Known,
        limit: Limit = 50,
        offset: Offset = 0,
        cursor: Cursor = None,
        prefix: Prefix = "",
        count: Counted = True,
        key: OneKey = None,
    ) -> Response:
        """List the keys of an asset; with `key`: one of them."""
        if key is not None:
            return await read(known, key, request, asset_entry)
        after = None
        if cursor is not None:
            if offset:
                raise InvalidValueError("give cursor or offset, not both")
            (after,) = cursor_after(cursor, (str,))
        rows = size(limit)
        found = await metastore.acall(
            calls.EntryPage(known.handle.scope, None, prefix_of(prefix), -1, after, offset, rows, count and cursor is None)
        )
        shown = [asset_entry(row, whole=False) for _, row in found.rows]
        keys = [row.key for _, row in found.rows if type(row.key) is str] if len(found.rows) == rows else []
        total = {} if found.total is None else {"total_entries": found.total}
        place = next_cursor(keys[-1:]) if keys else None
        return answer({"asset_state_store": shown, **total, "next_cursor": place})

    @routes.get(
        one,
        dependencies=viewer,
        operation_id="get_asset_state_store",
        responses={200: shapes.json_answer(shapes.asset), **shapes.errors(404, 409)},
    )
    async def get_key(request: Request, key: str, known: Known) -> Response:
        """Get one key."""
        return await read(known, key_in_path(key), request, asset_entry)

    add_edits(routes, base, "asset", target, expires=False)

    @routes.delete(
        base,
        dependencies=editor,
        status_code=204,
        operation_id="clear_asset_state_store",
        responses=shapes.errors(404, 409, 412),
    )
    async def clear(request: Request, known: Known, key: OneKey = None) -> Response:
        """Delete all keys of an asset; with `key`: that one. They can be restored."""
        if key is not None:
            return await remove(known, key, request)
        refuse_condition(request)
        await metastore.acall(calls.Clear(known.handle))
        return Response(status_code=204)

    # -- beyond Airflow ---------------------------------------------------------------------------------------------

    def assets(request: Request) -> Assets:
        return Assets(metastore, writer_of(request))

    def accessor(known: Target) -> AssetStoreAccessor:
        return AssetStoreAccessor(metastore, known.handle, limit)

    @routes.get(
        f"{_ASSET}/state-store-history",
        dependencies=viewer,
        operation_id="list_asset_history",
        responses={200: shapes.json_answer(shapes.record), **shapes.errors(404, 409)},
    )
    async def history(
        known: Known, key: Annotated[str, Query()], limit: Annotated[Whole, Query(ge=1, le=1000)] = 20
    ) -> Response:
        """List earlier values of a key, newest first."""
        found = await accessor(known).ahistory(key, limit)
        return answer({"history": [plain(past) for past in found]})

    @routes.post(
        f"{_ASSET}/state-store-rollback",
        dependencies=editor,
        operation_id="roll_back_asset_key",
        responses={200: shapes.json_answer(shapes.record), **shapes.errors(404, 409)},
        openapi_extra=shapes.body(key={"type": "string"}, version={"type": "string"}),
    )
    async def roll_back(request: Request, known: Known) -> Response:
        """Make an earlier value of a key current again."""
        body = await fields_of(request, needed=("key", "version"))
        version = await accessor(known).arollback(body["key"], version=body["version"])
        return answer({"version": version})

    @routes.get(
        f"{_ASSET}/state-store-archives",
        dependencies=viewer,
        operation_id="list_asset_archives",
        responses={200: shapes.json_answer(shapes.record), **shapes.errors(404)},
    )
    async def archives(request: Request, number: Number) -> Response:
        """List what was deleted or cleared and can be restored, newest first."""
        found = await assets(request).aarchives(AssetScope(number))
        return answer({"archives": [plain(archive) for archive in found]})

    @routes.post(
        f"{_ASSET}/state-store-restore",
        dependencies=editor,
        operation_id="restore_asset_archive",
        responses={200: shapes.json_answer(shapes.record), **shapes.errors(404, 409)},
        openapi_extra=shapes.body(archive={"type": ["integer", "null"]}, force={"type": "boolean"}),
    )
    async def restore(request: Request, number: Number) -> Response:
        """Bring an archive back, by default the newest."""
        body = await fields_of(request, known=("archive", "force"))
        restored = await assets(request).arestore(
            AssetScope(number), archive=body.get("archive"), force=body.get("force", False)
        )
        return answer({"restored": restored})

    @routes.get(
        "/assets",
        dependencies=viewer,
        tags=["Assets"],
        operation_id="list_assets",
        responses={200: shapes.json_answer(shapes.record), **shapes.errors()},
    )
    async def list_assets(
        active: Annotated[bool | None, Query(description="Only active ones, or only deactivated ones.")] = None,
        dag_id: Annotated[str | None, Query(description="Only those that this DAG refers to.")] = None,
        prefix: Prefix = "",
        limit: Limit = 50,
        offset: Offset = 0,
        cursor: Cursor = None,
        count: Counted = True,
    ) -> Response:
        """List assets in the order of their numbers; `prefix` is of the name or of the URI."""
        after = 0
        if cursor is not None:
            if offset:
                raise InvalidValueError("give cursor or offset, not both")
            (after,) = cursor_after(cursor, (int,))
        dag = None if dag_id is None else check_text(dag_id, "dag_id", MAX_ID_CHARS)
        rows = size(limit)
        start = prefix and check_text(prefix, "prefix", MAX_ASSET_CHARS)
        counted = count and cursor is None
        found = await metastore.acall(calls.AssetPage(active, dag, start, after, offset, rows, counted))
        total = {} if found.total is None else {"total_entries": found.total}
        place = next_cursor([found.records[-1].id]) if len(found.records) == rows else None
        return answer({"assets": [plain(record) for record in found.records], **total, "next_cursor": place})

    async def record_of(request: Request, number: int) -> AssetRecord:
        record = await assets(request).aget(AssetScope(number))
        if record is None:
            raise AssetNotFoundError(f"there is no asset {number}")
        return record

    @routes.get(
        _ASSET,
        dependencies=viewer,
        tags=["Assets"],
        operation_id="get_asset",
        responses={200: shapes.json_answer(shapes.record), **shapes.errors(404)},
    )
    async def get_asset(request: Request, number: Number) -> Response:
        """Show an asset and who refers to it."""
        return answer(plain(await record_of(request, number)))

    switch: dict[str, Any] = {
        "dependencies": admin,
        "tags": ["Assets"],
        "responses": {200: shapes.json_answer(shapes.record), **shapes.errors(404, 409)},
    }

    @routes.post(f"{_ASSET}/activate", operation_id="activate_asset", **switch)
    async def activate(request: Request, number: Number) -> Response:
        """Let an asset be read and written again."""
        return answer(plain(await assets(request).aactivate(AssetScope(number))))

    @routes.post(f"{_ASSET}/deactivate", operation_id="deactivate_asset", **switch)
    async def deactivate(request: Request, number: Number) -> Response:
        """Let an asset be neither read nor written; its state stays for `orphan_grace_hours`."""
        return answer(plain(await assets(request).adeactivate(AssetScope(number))))

    return routes
