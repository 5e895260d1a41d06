"""Reads and writes of single entries: what most tasks do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from milepost.calls.base import Call, Handle, Item, Stored
from milepost.retention import Retention

__all__ = ["Delete", "Get", "Put", "Read"]


@dataclass(eq=False, slots=True)
class Get(Call[tuple[Any, Any] | None]):
    """Text and encoding of a live key, or `None`.

    An attempt that is stale never gets `None`: it gets a stored value or `StaleAttemptError`. This holds for all reads.
    """

    handle: Handle
    key: str


@dataclass(eq=False, slots=True)
class Read(Call[Stored | None]):
    """The whole row of a live key, or `None`."""

    handle: Handle
    key: str


@dataclass(eq=False, slots=True)
class Put(Call[None]):
    """Write or overwrite all items, or none. Durable when it returns.

    Raises:
        StaleAttemptError: The attempt is not the current one; nothing was written.
        AssetNotActiveError: The asset is deactivated.
    """

    handle: Handle
    items: Sequence[Item]
    retention: Retention = None


@dataclass(eq=False, slots=True)
class Delete(Call[None]):
    """Drop a key; nothing if absent."""

    handle: Handle
    key: str
