"""Runs and their task instances, numbers of the store, and the token itself."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from milepost import calls
from milepost.checks import RunState
from milepost.entry import InstanceState
from milepost.errors import RunNotFoundError
from milepost.instances import Instances
from milepost.scopes import MAX_ID_CHARS, check_text
from milepost.server.rest import shapes
from milepost.server.rest.access import needs, token_of, writer_of
from milepost.server.rest.answers import answer, plain, run_entry
from milepost.server.rest.paths import decoded
from milepost.server.rest.requests import Cursor, Limit, Prefix, cursor_after, fields_of, next_cursor, prefix_of, size
from milepost.store import Store

__all__ = ["router"]

_RUNS: Final = "/dags/{dag_id}/dagRuns"
_RUN: Final = "/dags/{dag_id}/dagRuns/{dag_run_id}"
_ANY: Final = "~"
_InState = Query(description="Only those in this state.")


async def dag_named(dag_id: str) -> str:
    """Return the DAG that a request names."""
    return _dag(dag_id)


def _dag(dag_id: str) -> str:
    return check_text(decoded(dag_id, "dag_id"), "dag_id", MAX_ID_CHARS)


async def run_named(dag_id: str, dag_run_id: str) -> tuple[str, str]:
    """Return the run that a request names."""
    return _dag(dag_id), check_text(decoded(dag_run_id, "dag_run_id"), "dag_run_id", MAX_ID_CHARS)


Run = Annotated[tuple[str, str], Depends(run_named)]


def router(store: Store) -> APIRouter:
    """Return the routes."""
    metastore = store.metastore
    routes = APIRouter(tags=["Runs"])
    viewer, admin = needs("viewer"), needs("admin")

    def instances(request: Request) -> Instances:
        return Instances(metastore, writer_of(request), store.settings.max_value_bytes)

    @routes.get(
        _RUNS,
        dependencies=viewer,
        operation_id="list_runs",
        responses={200: shapes.json_answer(shapes.runs), **shapes.errors()},
    )
    async def list_runs(
        dag_id: Annotated[str, Depends(dag_named)],
        state: Annotated[RunState | None, _InState] = None,
        prefix: Prefix = "",
        limit: Limit = 50,
        cursor: Cursor = None,
    ) -> Response:
        """List runs, latest first; `~` for `dag_id`: of all DAGs. `prefix` is of the run id."""
        before = None if cursor is None else cursor_after(cursor, (int,))[0]
        rows = size(limit)
        dag = None if dag_id == _ANY else dag_id
        found = await metastore.acall(calls.RunPage(dag, state, prefix_of(prefix), before, rows))
        place = next_cursor([found[-1].number]) if len(found) == rows else None
        return answer({"dag_runs": [run_entry(row.record) for row in found], "next_cursor": place})

    @routes.get(
        _RUN,
        dependencies=viewer,
        operation_id="get_run",
        responses={200: shapes.json_answer(shapes.run), **shapes.errors(404)},
    )
    async def get_run(run: Run) -> Response:
        """Show a run."""
        found = await metastore.acall(calls.ListRuns(*run))
        if not found:
            raise RunNotFoundError(f"no run {run[0]}/{run[1]} is recorded")
        return answer(run_entry(found[0]))

    @routes.delete(
        _RUN,
        dependencies=admin,
        status_code=204,
        operation_id="delete_run",
        responses=shapes.errors(404, 409),
    )
    async def delete_run(request: Request, run: Run) -> Response:
        """Remove a run with all its task rows; asset state stays."""
        await instances(request).adelete_run(*run)
        return Response(status_code=204)

    @routes.post(
        f"{_RUN}/clear",
        dependencies=admin,
        operation_id="clear_run",
        responses={200: shapes.json_answer(shapes.record), **shapes.errors(404, 409)},
        openapi_extra=shapes.body(keep={"type": ["boolean", "null"]}),
    )
    async def clear_run(request: Request, run: Run) -> Response:
        """Start all task instances of a run over: attempts become stale, keys are archived or kept."""
        body = await fields_of(request, known=("keep",))
        return answer({"instances": await instances(request).aclear_run(*run, keep=body.get("keep"))})

    @routes.get(
        f"{_RUN}/taskInstances",
        dependencies=viewer,
        operation_id="list_task_instances",
        responses={200: shapes.json_answer(shapes.record), **shapes.errors(404)},
    )
    async def list_instances(
        run: Run,
        task_id: Annotated[str | None, Query(description="Only of this task.")] = None,
        state: Annotated[InstanceState | None, _InState] = None,
        limit: Limit = 50,
        cursor: Cursor = None,
    ) -> Response:
        """List the task instances of a run by task and map index."""
        task, index = ("", -2) if cursor is None else cursor_after(cursor, (str, int))
        if not await metastore.acall(calls.ListRuns(*run)):
            raise RunNotFoundError(f"no run {run[0]}/{run[1]} is recorded")
        rows = size(limit)
        wanted = None if task_id is None else check_text(task_id, "task_id", MAX_ID_CHARS)
        found = await metastore.acall(calls.InstancePage(*run, wanted, state, task, index, rows))
        scope = found[-1].scope if len(found) == rows else None
        place = None if scope is None else next_cursor([scope.task_id, scope.map_index])
        return answer({"task_instances": [plain(one) for one in found], "next_cursor": place})

    @routes.get(
        "/stats",
        dependencies=viewer,
        tags=["Store"],
        operation_id="get_stats",
        responses={200: shapes.json_answer(shapes.record), **shapes.errors()},
    )
    async def stats() -> Response:
        """Tell how much the store holds. Reads whole tables."""
        return answer(plain(await store.astats()))

    @routes.get(
        "/token",
        dependencies=viewer,
        tags=["Store"],
        operation_id="get_token",
        responses={200: shapes.json_answer(shapes.record), **shapes.errors()},
    )
    async def own_token(request: Request) -> Response:
        """Tell the name and the role of the token that the request shows."""
        return answer(plain(token_of(request)))

    return routes
