"""Reads and edits of single keys, the same for task instances and assets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from milepost import calls
from milepost.abc import Metastore
from milepost.calls import PLAIN, Handle, Item, Stored, new_version
from milepost.errors import InstanceNotFoundError, NotFoundError, VersionConflictError
from milepost.retention import NEVER, Retention
from milepost.scopes import check_key
from milepost.server.rest import shapes
from milepost.server.rest.access import needs
from milepost.server.rest.answers import answer, etag
from milepost.server.rest.paths import decoded
from milepost.server.rest.requests import condition, fields_of, instant_of, value_of

__all__ = ["Target", "add_edits", "key_in_path", "read", "remove"]


class Target(NamedTuple):
    """Whose keys a request is about.

    Args:
        metastore: Where they are.
        handle: Opens them, as the user of the request.
        limit: The most bytes of a value.
    """

    metastore: Metastore
    handle: Handle
    limit: int


def key_in_path(key: str) -> str:
    """Return the key in a path, decoded once."""
    return check_key(decoded(key, "the key"))


async def read(target: Target, key: str, request: Request, show: Callable[[Stored], Any]) -> Response:
    """Answer with an entry and its tag."""
    row = await target.metastore.acall(calls.Read(target.handle, check_key(key)))
    if row is None:
        raise NotFoundError(f"{target.handle.scope} has no key {key!r}")
    shown = show(row)
    tag = etag(row.version)
    known = [part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")]
    if tag in known or "*" in known:
        return Response(status_code=304, headers={"etag": tag})
    return answer(shown, headers={"etag": tag})


async def _expected(target: Target, key: str, versions: tuple[str, ...]) -> str | None:
    """Return the one of some versions to expect: the current one, if it is among them."""
    if len(versions) < 2:
        return versions[0] if versions else None
    row = await target.metastore.acall(calls.Read(target.handle, key))
    return row.version if row is not None and row.version in versions else versions[0]


async def put(target: Target, key: str, request: Request, *, expires: bool) -> Response:
    """Create or overwrite a key; ``expires``: whether it may expire."""
    wanted = condition(request)
    body = await fields_of(request, needed=("value",), known=("expires_at",) if expires else ())
    text = value_of(body, target.limit)
    at = body.get("expires_at", "default")
    retention: Retention = None if at == "default" else NEVER
    item = Item(check_key(key), text, PLAIN, new_version())
    edit = calls.Edit(
        target.handle,
        item,
        retention,
        expires_at=None if at in ("default", None) else instant_of(at),
        expected=await _expected(target, item.key, wanted.versions),
        present=wanted.present,
    )
    try:
        await target.metastore.acall(edit)
    except InstanceNotFoundError:
        raise
    except NotFoundError as error:  # If-Match: *
        raise VersionConflictError(str(error)) from error
    return Response(status_code=204, headers={"etag": etag(item.version)})


async def change(target: Target, key: str, request: Request) -> Response:
    """Give a key that is there another value, and leave its expiry as it is."""
    wanted = condition(request)
    text = value_of(await fields_of(request, needed=("value",)), target.limit)
    item = Item(check_key(key), text, PLAIN, new_version())
    expected = await _expected(target, item.key, wanted.versions)
    present = True if wanted.present is None else wanted.present
    await target.metastore.acall(calls.Edit(target.handle, item, keep_expiry=True, expected=expected, present=present))
    return answer(None, headers={"etag": etag(item.version)})


async def remove(target: Target, key: str, request: Request) -> Response:
    """Delete a key; nothing if it is absent, unless the request expects it."""
    wanted = condition(request)
    check_key(key)
    expected = await _expected(target, key, wanted.versions)
    if wanted.present is not None:
        row = await target.metastore.acall(calls.Read(target.handle, key))
        if (row is not None) is not wanted.present:
            raise VersionConflictError(f"{key!r} of {target.handle.scope} is {'absent' if row is None else 'there'}")
        expected = None if row is None else row.version
    call = calls.Delete(target.handle, key) if expected is None else calls.DeleteIf(target.handle, key, expected)
    await target.metastore.acall(call)
    return Response(status_code=204)


def add_edits(routes: APIRouter, base: str, kind: str, target: Callable[..., Any], *, expires: bool) -> None:
    """Add the routes that edit single keys, each by path and, but for the deletion, by query.

    Args:
        routes: Where to add them.
        base: The path of the list of keys.
        kind: ``task`` or ``asset``, for the names of operations.
        target: The dependency that finds the keys.
        expires: Whether keys may expire.
    """
    one, editor, found = f"{base}/{{key:key}}", needs("editor"), Depends(target)
    setting: dict[str, Any] = {
        "dependencies": editor,
        "status_code": 204,
        "responses": shapes.errors(404, 409, 412, 413),
        "openapi_extra": shapes.conditional(shapes.body(expires=True) if expires else shapes.body()),
    }
    patching: dict[str, Any] = {
        "dependencies": editor,
        "responses": {200: shapes.json_answer({}), **shapes.errors(404, 409, 412, 413)},
        "openapi_extra": shapes.conditional(shapes.body()),
    }
    stays = "; its expiry stays" if expires else ""

    @routes.put(one, operation_id=f"set_{kind}_state_store", **setting)
    async def set_key(request: Request, key: str, known: Target = found) -> Response:
        """Create or overwrite a key."""
        return await put(known, key_in_path(key), request, expires=expires)

    @routes.put(base, operation_id=f"set_{kind}_state_store_by_query", **setting)
    async def set_any_key(request: Request, key: Annotated[str, Query()], known: Target = found) -> Response:
        """Create or overwrite a key of any form."""
        return await put(known, key, request, expires=expires)

    @routes.patch(
        one,
        operation_id=f"patch_{kind}_state_store",
        description=f"Give a key that is there another value{stays}.",
        **patching,
    )
    async def patch_key(request: Request, key: str, known: Target = found) -> Response:
        return await change(known, key_in_path(key), request)

    @routes.patch(
        base,
        operation_id=f"patch_{kind}_state_store_by_query",
        description=f"Give a key of any form another value{stays}.",
        **patching,
    )
    async def patch_any_key(request: Request, key: Annotated[str, Query()], known: Target = found) -> Response:
        return await change(known, key, request)

    @routes.delete(
        one,
        dependencies=editor,
        status_code=204,
        operation_id=f"delete_{kind}_state_store",
        responses=shapes.errors(404, 409, 412),
        openapi_extra=shapes.conditional(),
    )
    async def delete_key(request: Request, key: str, known: Target = found) -> Response:
        """Delete a key; nothing if it is absent."""
        return await remove(known, key_in_path(key), request)
