"""The application: routes, errors, limits, what runs beside the requests."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from milepost.errors import MilepostError
from milepost.server.auth import WorkerAuth
from milepost.server.execution import Execution
from milepost.server.limits import Limits
from milepost.server.metrics import Metrics
from milepost.server.rest import create_rest
from milepost.server.routes import HANDLERS, execution_routes, http_problem, ready_route, unexpected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

    from milepost.config import ServerSettings
    from milepost.store import Store

__all__ = ["create_app"]

_log = logging.getLogger("milepost.server")


def create_app(store: Store, settings: ServerSettings, secrets: Sequence[str], *, rest: bool = True) -> ASGIApp:
    """Return the application that serves a store. It closes the store when it shuts down.

    Args:
        store: The store.
        settings: Limits and intervals.
        secrets: The worker secret, then older ones that are still accepted.
        rest: Whether people's REST API is there, too.
    """
    execution = Execution(store, WorkerAuth(secrets, settings.token_seconds))
    metrics = Metrics()

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def show_metrics(_: Request) -> Response:
        return PlainTextResponse(metrics.text(), media_type=metrics.media_type)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        collector = asyncio.create_task(_collect(store, settings.cleanup_interval)) if settings.cleanup_interval else None
        try:
            yield
        finally:
            if collector is not None:
                collector.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await collector
            await store.aclose()

    app = Starlette(
        routes=[
            *execution_routes(execution),
            Route("/health", health),
            ready_route(store),
            Route("/metrics", show_metrics),
            *([create_rest(store)] if rest else []),
        ],
        exception_handlers=HANDLERS,
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False

    async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/execution/v1/call" and scope["method"] == "POST":
            # Without Starlette's layers; it would come to the same.
            try:
                await execution(scope, receive, send)
            except HTTPException as error:
                await (await http_problem(Request(scope), error))(scope, receive, send)
            except Exception as error:
                await (await unexpected(Request(scope), error))(scope, receive, send)
                raise
        else:
            await app(scope, receive, send)

    return metrics.around(Limits(dispatch, max_bytes=settings.max_request_bytes, seconds=settings.request_seconds))


async def _collect(store: Store, interval: int) -> None:
    """Collect again and again; one of all processes works at a time (there is a lease)."""
    while True:
        await asyncio.sleep(interval)
        try:
            report = await store.aclean()
        except MilepostError as error:
            _log.warning("collection failed: %s", error, extra={"action": "collect"})
        else:
            _log.info(
                "collected",
                extra={
                    "action": "collect",
                    "expired": report.expired,
                    "retired": report.retired,
                    "changes": report.changes,
                    "orphans": report.orphans,
                    "swept": list(report.swept),
                    "held_by": report.held_by,
                },
            )
