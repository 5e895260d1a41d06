"""What `/metrics` tells of requests."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import Response

from milepost.server.metrics import Metrics


async def nothing(*_: Any) -> Any:
    """Take and give nothing."""


def test_methods_of_one_route_are_told_apart() -> None:
    """Requests and durations are counted by method; words that are no methods of HTTP count as one, `other`."""
    metrics = Metrics()
    app = metrics.around(Response(status_code=204))
    for method in ("GET", "PUT", "PUT", "BREW", "get", "x" * 9):
        asyncio.run(app({"type": "http", "method": method, "path": "/health"}, nothing, nothing))  # type: ignore[arg-type,func-returns-value]
    lines = metrics.text().decode().splitlines()
    counted = [line for line in lines if line.startswith("milepost_http_requests_total")]
    assert counted == [
        f'milepost_http_requests_total{{method="{method}",route="/health",status="204"}} {count}.0'
        for method, count in (("GET", 1), ("PUT", 2), ("other", 3))
    ]
    timed = [line for line in lines if line.startswith("milepost_http_request_seconds_count")]
    assert timed == [
        f'milepost_http_request_seconds_count{{method="{method}",route="/health"}} {count}.0'
        for method, count in (("GET", 1), ("PUT", 2), ("other", 3))
    ]
