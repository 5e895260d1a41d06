"""The execution API in Airflow's API server, for workers that have no database (Airflow 3)."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Final

from milepost.airflow import configuration

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["PREFIX", "Serving", "apps"]

PREFIX: Final = "/milepost"
"""Where it is mounted; what comes after it is as with ``milepost serve``."""

_log = logging.getLogger("milepost.airflow")


def apps() -> list[dict[str, Any]]:
    """Return what Airflow's API server is to mount: nothing, unless ``[milepost] served_url`` is set.

    Where ``[milepost]`` is wrong, that is logged, and what is mounted says that the store cannot be reached.
    """
    found = configuration.sources(configuration.OURS)
    if not found:
        return []
    from milepost.airflow.settings import check
    from milepost.errors import ConfigurationError

    try:
        check()
    except ConfigurationError as error:
        _log.error("Milepost cannot be used: %s", error, extra={"action": "airflow_configuration"})
    else:
        if "served_url" not in found:
            return []
    return [{"app": Serving(), "url_prefix": PREFIX, "name": "milepost"}]


class Serving:
    """An application that opens the store at the first request: mounted ones get no lifespan events."""

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            return
        import asyncio

        from milepost.errors import MilepostError

        try:
            app = await asyncio.to_thread(self._open) if self._app is None else self._app
        except MilepostError as error:
            from starlette.responses import JSONResponse

            _log.error("the store cannot be opened to workers: %s", error, extra={"action": "airflow_serve"})
            told = {"error": "StoreUnreachableError", "detail": "the store cannot be opened; the log of the server says why"}
            await JSONResponse(told, 503, {"retry-after": "1"})(scope, receive, send)
            return
        await app(scope, receive, send)

    def _open(self) -> ASGIApp:
        """Open the store, once in a process.

        Raises:
            MilepostError: It cannot be opened, or there is no worker secret.
        """
        with self._gate:
            if self._app is None:
                import atexit

                from milepost.airflow.settings import load
                from milepost.config import load_server_settings
                from milepost.errors import ConfigurationError
                from milepost.server.routes import execution_app
                from milepost.store import connect

                settings = load()
                place = settings.places.get("served_url", "Airflow's configuration [milepost]")
                if settings.secret is None:
                    raise ConfigurationError(f"{place}: served_url needs [milepost] secret, which workers show")
                if (settings.served_url or "http").startswith(("http", "memory:")):
                    raise ConfigurationError(f"{place}: served_url names a file or a database, not memory or another server")
                limits = load_server_settings({"secret": settings.secret})
                store = connect(**{**settings.arguments, "url": settings.served_url})
                atexit.register(store.close)
                self._app = execution_app(store, limits, [settings.secret])
            opened: ASGIApp = self._app
            return opened
