"""What the server counts, for Prometheus, and its log of requests. Neither has keys, values or credentials."""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING, Final

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["METHODS", "ROUTE", "Metrics", "route_of"]

_log = logging.getLogger("milepost.server.requests")
_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
ROUTE: Final = "milepost.route"
"""Where the scope of a request holds a list to which a router adds the route that it found."""

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"})
"""The methods that are told apart: a client may send any word."""

_PATHS = ("/health", "/ready", "/metrics")
_PREFIXES = ("/execution/v1/", "/api/v2/")


class Metrics:
    """Counts requests by method, route and status and measures how long they take.

    Several processes of one server share their numbers where ``PROMETHEUS_MULTIPROC_DIR`` names a folder.
    """

    media_type = prometheus_client.CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._shared = "PROMETHEUS_MULTIPROC_DIR" in os.environ
        self._requests = Counter(
            "milepost_http_requests", "Requests answered.", ["method", "route", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "milepost_http_request_seconds",
            "How long requests took.",
            ["method", "route"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._running = Gauge(
            "milepost_http_requests_running",
            "Requests being answered.",
            registry=self._registry,
            multiprocess_mode="livesum",
        )

    def text(self) -> bytes:
        """Return the numbers in the format of Prometheus."""
        if not self._shared:
            return prometheus_client.generate_latest(self._registry)
        from prometheus_client.multiprocess import MultiProcessCollector

        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return prometheus_client.generate_latest(registry)

    def around(self, app: ASGIApp) -> ASGIApp:
        """Return an application that counts what another one answers."""
        cached: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            status = 500
            began = time.perf_counter()

            async def noted(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                await send(message)

            self._running.inc()
            try:
                await app(scope, receive, noted)
            finally:
                seconds = time.perf_counter() - began
                route = route_of(scope)
                self._running.dec()
                method = scope["method"] if scope["method"] in METHODS else "other"
                if (found := cached.get((method, route, status))) is None:
                    found = self._requests.labels(method, route, str(status)), self._seconds.labels(method, route)
                    cached[method, route, status] = found
                count, duration = found
                count.inc()
                duration.observe(seconds)
                if _log.isEnabledFor(logging.INFO):
                    told = {"action": "request", "method": scope["method"], "route": route, "status": status}
                    told["milliseconds"] = round(seconds * 1000, 3)
                    told["calls"] = scope.get("milepost.calls")
                    _log.info("request", extra=told)

        return counted


def route_of(scope: Scope) -> str:
    """Return the route of a request that was answered: its path without what it names, be it a run or a key."""
    known = scope.get(ROUTE)
    if known:
        return known[0]  # type: ignore[no-any-return]
    path: str = scope["path"]
    if path in ("/execution/v1/call", "/execution/v1/token", "/execution/v1/renew", "/execution/v1/verify"):
        return path
    return path if path in _PATHS else next((prefix for prefix in _PREFIXES if path.startswith(prefix)), "other")
