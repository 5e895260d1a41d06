"""The application of the REST API: routes, errors, the OpenAPI document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Match, Route

from milepost import __version__
from milepost.errors import InvalidValueError, MilepostError
from milepost.server.metrics import ROUTE
from milepost.server.rest import asset_state, runs, task_state
from milepost.server.rest.access import TokenAuth
from milepost.server.rest.answers import problem, refusal
from milepost.server.rest.paths import Below, Front, check_query

if TYPE_CHECKING:
    from starlette.routing import Mount

    from milepost.store import Store

__all__ = ["create_rest"]


def create_rest(store: Store) -> Mount:
    """Return the REST API as a route of the server's application.

    Args:
        store: The store that is served.
    """
    parameters: dict[tuple[str, str], dict[str, bool]] = {}

    async def strict(request: Request) -> None:
        """Refuse what a route does not know, so that a mistyped name does not widen what is deleted."""
        if not parameters:
            parameters.update(_parameters(app.openapi()))
        path = request.scope["route"].path_format
        request.scope[ROUTE].append(f"/api/v2{path}")
        check_query(request.scope["query_string"])
        known = parameters[path, request.method.lower()]
        for name in request.query_params:
            if name not in known:
                raise InvalidValueError(
                    f"unknown query parameter {name[:60]!r}; known: {', '.join(sorted(known)) or 'none'}"
                )
            if not known[name] and len(request.query_params.getlist(name)) > 1:
                raise InvalidValueError(f"the query parameter {name!r} is there more than once")

    app = FastAPI(
        title="Milepost",
        version=__version__,
        summary="The task store and the asset store for data pipelines.",
        openapi_url="/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[Depends(strict)],
        exception_handlers={
            MilepostError: _problem,
            RequestValidationError: _invalid,
            HTTPException: _http_problem,
            ClientDisconnect: _gone,
            Exception: _unexpected,
        },
    )
    app.state.store = store
    app.state.routes = list(app.routes)
    for module in (task_state, asset_state, runs):
        router = module.router(store)
        app.state.routes += router.routes
        app.include_router(router)
    return Below("/api/v2", Front(app, TokenAuth(store.metastore)))


def _parameters(document: dict[str, Any]) -> dict[tuple[str, str], dict[str, bool]]:
    """Return, by path and method, the query parameters of each route and whether they may be repeated."""
    found: dict[tuple[str, str], dict[str, bool]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            given = [one for one in operation.get("parameters", ()) if one["in"] == "query"]
            found[path, method] = {one["name"]: "array" in str(one["schema"]) for one in given}
    return found


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, MilepostError)
    conditional = "if-match" in request.headers or "if-none-match" in request.headers
    return problem(error, conditional=conditional)


async def _invalid(_: Request, error: Exception) -> Response:
    """Answer to a parameter that is wrong: as FastAPI does, without what was sent."""
    assert isinstance(error, RequestValidationError)
    detail = [{"loc": list(one["loc"]), "msg": one["msg"], "type": one["type"]} for one in error.errors()]
    message = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in detail)
    return refusal(422, "InvalidValueError", message, detail)


async def _http_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    name = {404: "NotFoundError", 405: "MethodNotAllowed"}.get(error.status_code, "HTTPError")
    message = "there is no such path" if error.status_code == 404 else str(error.detail)
    if error.status_code == 404 and request.scope["path"].endswith("/"):  # clients make that of the keys . and ..
        message += "; the keys . and .. go into ?key="
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["allow"] = ", ".join(sorted(_allowed(request)))
    return refusal(error.status_code, name, message, None, headers)


def _allowed(request: Request) -> set[str]:
    """Return the methods that the path of a request has: several routes have one path."""
    found: set[str] = set()
    for route in request.app.state.routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return found


async def _gone(_: Request, __: Exception) -> Response:
    """Answer to a client that went away in the middle of its request, for the log; nobody reads it."""
    return refusal(400, "ClientGone", "the request ended in the middle")


async def _unexpected(_: Request, error: Exception) -> Response:
    """Answer to what is our fault; it is raised again, and the server logs it with its traceback."""
    return refusal(500, "InternalError", f"the server failed ({type(error).__name__}); its log says more")
