"""Which route a request counts for."""

from __future__ import annotations

import pytest

from milepost.server.metrics import route_of


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/health", "/health"),
        ("/healthz", "other"),
        ("/ready/x", "other"),
        ("/execution/v1/call", "/execution/v1/call"),
        ("/execution/v1/nothing", "/execution/v1/"),
        ("/api/v2/dags/d", "/api/v2/"),
        ("/", "other"),
    ],
)
def test_what_is_no_route_counts_for_none(path: str, route: str) -> None:
    """Paths that only begin like a route are not counted as that route, and what is named in a path makes no route."""
    assert route_of({"path": path}) == route
