"""What the tests of external jobs share."""

from __future__ import annotations

from typing import Any

from tests.contract.conftest import SCOPE

__all__ = ["VARIANTS", "attempt"]

VARIANTS = [
    "sqlite-direct-sync",
    "sqlite-operations-async",
    "memory-direct-async",
    "postgres-direct-sync",
    "postgres-operations-async",
    "mysql-direct-sync",
    "http-direct-sync",
    "http-operations-async",
]
"""The calls have no direct path, so that two ways of each kind go through all of it."""


def attempt(store: Any, number: int, **options: Any) -> Any:
    """Open an attempt and return its task store."""
    return store.instances.open(SCOPE, number, **options)["task_store"]
