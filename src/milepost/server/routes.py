"""The execution API as routes, for a server of its own and for an application that another one mounts."""

from __future__ import annotations

import asyncio
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
from milepost.server.openapi import document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from milepost.config import ServerSettings
    from milepost.store import Store

__all__ = ["HANDLERS", "execution_app", "execution_routes", "http_problem", "ready_route", "unexpected"]

_READY_SECONDS = 0.8
"""How long a probe waits for the store. Kubernetes waits one second for a probe, unless it is told otherwise."""


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
        Route("/execution/v1/openapi.json", _openapi),
    ]


async def _openapi(_: Request) -> Response:
    return JSONResponse(document())


def ready_route(store: Store) -> Route:
    """Return the route that says whether the store can be reached."""
    looking: asyncio.Task[str | None] | None = None

    async def look() -> str | None:
        """Return what is wrong with the store, if anything."""
        try:
            await store.metastore.acall(calls.Now())
        except MilepostError as error:
            return type(error).__name__
        return None

    async def ready(_: Request) -> Response:
        # One look at a time, whoever asks: what a call on a store that is gone holds, a thread or a connection, it holds
        # until it has given up.
        nonlocal looking
        if looking is None or looking.done():
            looking = asyncio.create_task(look())
        joined = looking  # another probe may begin the next one before this one is told of the end
        await asyncio.wait({joined}, timeout=_READY_SECONDS)
        wrong = joined.result() if joined.done() else "TimeoutError"
        if wrong is not None:
            return JSONResponse({"status": "unavailable", "detail": wrong}, 503)
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
