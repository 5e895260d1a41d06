"""The execution API as routes, for a server of its own and for an application that another one mounts."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from milepost import calls
from milepost.errors import MilepostError
from milepost.server.auth import WorkerAuth
from milepost.server.execution import Execution, problem
from milepost.server.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from milepost.config import ServerSettings
    from milepost.store import Store

__all__ = ["HANDLERS", "execution_app", "execution_routes", "http_problem", "ready_route", "unexpected"]

_READY_SECONDS = 5.0


def execution_app(store: Store, settings: ServerSettings, secrets: Sequence[str]) -> ASGIApp:
    """Return the execution API as an application to be mounted: it needs no lifespan events, and does not collect.

    Args:
        store: The store.
        settings: Limits.
        secrets: The worker secret, then older ones that are still accepted.
    """
    execution = Execution(store, WorkerAuth(secrets, settings.token_seconds))
    app = Starlette(routes=[*execution_routes(execution), ready_route(store)], exception_handlers=HANDLERS)
    app.router.redirect_slashes = False
    return Limits(app, max_bytes=settings.max_request_bytes, seconds=settings.request_seconds)


def execution_routes(execution: Execution) -> list[Route]:
    """Return the routes of the execution API."""
    return [
        Route("/execution/v1/call", execution, methods=["POST"]),
        Route("/execution/v1/token", execution.token, methods=["POST"]),
        Route("/execution/v1/renew", execution.renew, methods=["POST"]),
        Route("/execution/v1/verify", execution.verify, methods=["POST"]),
    ]


def ready_route(store: Store) -> Route:
    """Return the route that says whether the store can be reached."""

    async def ready(_: Request) -> Response:
        try:
            async with asyncio.timeout(_READY_SECONDS) if hasattr(asyncio, "timeout") else contextlib.nullcontext():
                await store.metastore.acall(calls.Now())
        except (MilepostError, TimeoutError) as error:
            return JSONResponse({"status": "unavailable", "detail": type(error).__name__}, 503)
        return JSONResponse({"status": "ready"})

    return Route("/ready", ready)


async def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, MilepostError)
    return problem(error)


async def http_problem(_: Request, error: Exception) -> Response:
    """Answer to a request that the framework refuses."""
    assert isinstance(error, HTTPException)
    name = {404: "NotFoundError", 405: "MethodNotAllowed", 413: "RequestTooLarge"}.get(error.status_code, "HTTPError")
    return JSONResponse({"error": name, "detail": error.detail}, error.status_code, dict(error.headers or {}))


async def unexpected(_: Request, error: Exception) -> Response:
    """Answer to what is our fault; Starlette raises the error again, and the server logs it with its traceback."""
    return JSONResponse(
        {"error": "InternalError", "detail": f"the server failed ({type(error).__name__}); its log says more"}, 500
    )


HANDLERS: Final[dict[Any, Any]] = {MilepostError: _problem, HTTPException: http_problem, Exception: unexpected}
