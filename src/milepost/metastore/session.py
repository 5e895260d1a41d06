"""What a user's backend gets as ``session``."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from milepost import calls
from milepost.abc import Metastore
from milepost.calls import Call, Handle
from milepost.retention import Retention

__all__ = ["Gathering", "Session"]

R = TypeVar("R")


class Session(NamedTuple):
    """What the adapter passes as ``session``: enough for a wrapped `MetastoreStateBackend` to work, fence included."""

    metastore: Metastore
    handle: Handle
    retention: Retention = None


class Gathering(Metastore):
    """What several ``set`` calls of a backend write to, so that all of it goes into one transaction afterwards.

    Args:
        inner: Answers everything else.
        now: The one instant from which expiries are counted.
    """

    def __init__(self, inner: Metastore, now: int) -> None:
        self.inner = inner
        self._now = now
        self.found_schema = inner.found_schema
        self.puts: list[calls.Put] = []

    def call(self, call: Call[R], /) -> R:
        """Keep a `Put` for later; hand on all else."""
        if isinstance(call, calls.Put):
            self.puts.append(call)
            return None  # type: ignore[return-value]
        return self.inner.call(call)

    async def acall(self, call: Call[R], /) -> R:
        """As `call`."""
        if isinstance(call, calls.Put):
            self.puts.append(call)
            return None  # type: ignore[return-value]
        return await self.inner.acall(call)

    def now(self) -> int:
        """Return the one instant."""
        return self._now

    def verify(self) -> None:
        """Check the metastore's schema."""
        self.inner.verify()

    def close(self) -> None:
        """Leave the metastore open: it is not this object's."""

    async def aclose(self) -> None:
        """As `close`."""
