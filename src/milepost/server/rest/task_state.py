"""``/dags/{dag_id}/dagRuns/{dag_run_id}/taskInstances/{task_id}/state-store``: the keys of task instances."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from milepost import calls
from milepost.abc import Metastore
from milepost.calls import Handle
from milepost.errors import InstanceNotFoundError, InvalidValueError
from milepost.instances import Instances
from milepost.scopes import MAX_MAP_INDEX, TaskScope
from milepost.server.rest import shapes
from milepost.server.rest.access import needs, writer_of
from milepost.server.rest.answers import answer, plain, task_entry
from milepost.server.rest.entries import Target, add_edits, key_in_path, read, remove
from milepost.server.rest.paths import decoded
from milepost.server.rest.requests import (
    Counted,
    Cursor,
    Limit,
    MapIndex,
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

_INSTANCE: Final = "/dags/{dag_id}/dagRuns/{dag_run_id}/taskInstances/{task_id}"
_AllIndices = Annotated[bool, Query(description="Of every instance of the mapped task; `map_index` is not looked at then.")]


async def task_scope(dag_id: str, dag_run_id: str, task_id: str, map_index: MapIndex = -1) -> TaskScope:
    """Return the task instance that a request names."""
    return TaskScope(decoded(dag_id, "dag_id"), decoded(dag_run_id, "dag_run_id"), decoded(task_id, "task_id"), map_index)


Scope = Annotated[TaskScope, Depends(task_scope)]


async def find_instance(metastore: Metastore, scope: TaskScope) -> None:
    """Make sure that a task instance is recorded.

    Raises:
        InstanceNotFoundError: It is not.
    """
    if not await metastore.acall(calls.ListInstances(scope.dag_id, scope.run_id, scope.task_id, scope.map_index)):
        raise InstanceNotFoundError(f"no task instance {scope} is recorded")


async def target(request: Request, scope: Scope) -> Target:
    """Return the keys of the task instance that a request names."""
    store: Store = request.app.state.store
    await find_instance(store.metastore, scope)
    handle = Handle(scope, writer_of(request).encode(scope), logged=True)
    return Target(store.metastore, handle, store.settings.max_value_bytes)


Known = Annotated[Target, Depends(target)]


def router(store: Store) -> APIRouter:  # noqa: PLR0915  (a list of routes)
    """Return the routes."""
    metastore, limit = store.metastore, store.settings.max_value_bytes
    routes = APIRouter(tags=["Task State Store"])

    async def page(
        scope: TaskScope, indices: list[int] | None, prefix: str, limit: int, offset: int, cursor: str | None, counted: bool
    ) -> Response:
        index, after = -1, None
        if cursor is not None:
            if offset:
                raise InvalidValueError("give cursor or offset, not both")
            index, after = cursor_after(cursor, (int, str))
        rows = size(limit)
        found = await metastore.acall(
            calls.EntryPage(scope, indices, prefix_of(prefix), index, after, offset, rows, counted and cursor is None)
        )
        shown = [
            task_entry(row, TaskScope(scope.dag_id, scope.run_id, scope.task_id, index), whole=False)
            for index, row in found.rows
        ]
        place = None
        if len(found.rows) == rows:  # a damaged key is no place to go on from
            places = [[index, row.key] for index, row in found.rows if type(row.key) is str]
            place = next_cursor(places[-1]) if places else None
        total = {} if found.total is None else {"total_entries": found.total}
        return answer({"task_state_store": shown, **total, "next_cursor": place})

    base, one = f"{_INSTANCE}/state-store", f"{_INSTANCE}/state-store/{{key:key}}"
    viewer, editor = needs("viewer"), needs("editor")

    def show(scope: TaskScope) -> Any:
        return lambda row: task_entry(row, scope)

    @routes.get(
        base,
        dependencies=viewer,
        operation_id="list_task_state_store",
        responses={200: shapes.json_answer(shapes.task_collection), **shapes.errors(404)},
    )
    async def list_keys(
        request: Request,
        scope: Scope,
        limit: Limit = 50,
        offset: Offset = 0,
        cursor: Cursor = None,
        prefix: Prefix = "",
        count: Counted = True,
        map_indices: Annotated[
            list[Annotated[Whole, Query(ge=-1, le=MAX_MAP_INDEX)]] | None, Query(description="Of these instances.")
        ] = None,
        all_map_indices: _AllIndices = False,
        key: OneKey = None,
    ) -> Response:
        """List the keys of a task instance, or of several instances of one task; with `key`: one of them."""
        if key is not None:
            return await read(await target(request, scope), key, request, show(scope))
        indices = None if all_map_indices else map_indices or [scope.map_index]
        return await page(scope, indices, prefix, limit, offset, cursor, count)

    @routes.get(
        one,
        dependencies=viewer,
        operation_id="get_task_state_store",
        responses={200: shapes.json_answer(shapes.task), **shapes.errors(404, 409)},
    )
    async def get_key(request: Request, key: str, known: Known) -> Response:
        """Get one key."""
        scope = known.handle.scope
        assert isinstance(scope, TaskScope)
        return await read(known, key_in_path(key), request, show(scope))

    add_edits(routes, base, "task", target, expires=True)

    @routes.delete(
        base,
        dependencies=editor,
        status_code=204,
        operation_id="clear_task_state_store",
        responses=shapes.errors(404, 409, 412),
    )
    async def clear(request: Request, scope: Scope, all_map_indices: _AllIndices = False, key: OneKey = None) -> Response:
        """Delete all keys of a task instance, or of all instances of a task; with `key`: that one. They can be restored."""
        if key is not None:
            if all_map_indices:
                raise InvalidValueError("give key or all_map_indices, not both")
            return await remove(await target(request, scope), key, request)
        refuse_condition(request)
        if all_map_indices:
            if not await metastore.acall(calls.ListInstances(scope.dag_id, scope.run_id, scope.task_id)):
                raise InstanceNotFoundError(f"no task instance {scope} is recorded, with whatever map index")
        else:
            await find_instance(metastore, scope)
        handle = Handle(scope, writer_of(request).encode(scope), logged=True)
        await metastore.acall(calls.Clear(handle, all_map_indices))
        return Response(status_code=204)

    # -- beyond Airflow ---------------------------------------------------------------------------------------------

    def instances(request: Request) -> Instances:
        return Instances(metastore, writer_of(request), limit)

    @routes.get(
        f"{_INSTANCE}/state-store-archives",
        dependencies=viewer,
        operation_id="list_task_archives",
        responses={200: shapes.json_answer(shapes.record), **shapes.errors(404)},
    )
    async def archives(request: Request, scope: Scope) -> Response:
        """List what was set aside, newest first."""
        found = await instances(request).aarchives(scope)
        return answer({"archives": [plain(archive) for archive in found]})

    @routes.post(
        f"{_INSTANCE}/state-store-restore",
        dependencies=editor,
        operation_id="restore_task_archive",
        responses={200: shapes.json_answer(shapes.record), **shapes.errors(404, 409)},
        openapi_extra=shapes.body(archive={"type": ["integer", "null"]}, force={"type": "boolean"}),
    )
    async def restore(request: Request, scope: Scope) -> Response:
        """Bring an archive back, by default the newest."""
        body = await fields_of(request, known=("archive", "force"))
        restored = await instances(request).arestore(scope, archive=body.get("archive"), force=body.get("force", False))
        return answer({"restored": restored})

    @routes.get(
        _INSTANCE,
        dependencies=viewer,
        tags=["Runs"],
        operation_id="get_task_instance",
        responses={200: shapes.json_answer(shapes.record), **shapes.errors(404)},
    )
    async def get_instance(request: Request, scope: Scope) -> Response:
        """Show a task instance."""
        record = await instances(request).aget(scope)
        if record is None:
            raise InstanceNotFoundError(f"no task instance {scope} is recorded")
        return answer(plain(record))

    @routes.post(
        f"{_INSTANCE}/clear",
        dependencies=needs("admin"),
        tags=["Runs"],
        operation_id="clear_task_instance",
        responses={200: shapes.json_answer(shapes.record), **shapes.errors(404, 409)},
        openapi_extra=shapes.body(keep={"type": ["boolean", "null"]}),
    )
    async def clear_instance(request: Request, scope: Scope) -> Response:
        """Start a task instance over: its attempts become stale, its keys are archived or kept."""
        body = await fields_of(request, known=("keep",))
        await instances(request).aclear(scope, keep=body.get("keep"))
        return answer({"instances": 1})

    return routes
