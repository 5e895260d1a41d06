"""Writes that depend on what is stored, those of all keys, and what they need: the time, and a check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from milepost.calls.base import Call, Handle, Item
from milepost.retention import Retention

__all__ = ["Check", "Clear", "Increment", "Now", "PutDefault", "PutIf", "Touch"]


@dataclass(eq=False, slots=True)
class Now(Call[int]):
    """The instant on the clock that expiry is counted on, in microseconds UTC."""


@dataclass(eq=False, slots=True)
class Check(Call[None]):
    """Make sure that the handle may write; ``record``: also record its instance if it is not recorded yet.

    Raises:
        StaleAttemptError: The attempt is not the current one.
    """

    handle: Handle
    record: bool = False


@dataclass(eq=False, slots=True)
class PutDefault(Call[tuple[Any, Any]]):
    """Write if absent; text and encoding of what is stored afterwards."""

    handle: Handle
    item: Item
    retention: Retention = None


@dataclass(eq=False, slots=True)
class PutIf(Call[None]):
    """Write only over the version ``expected`` (`None`: only if absent).

    Args:
        handle: Whose key.
        item: What to write.
        expected: The version that must be there.
        retention: As in `Put`, unless ``keep_expiry``.
        keep_expiry: Leave the expiry of a live key as it is.

    Raises:
        VersionConflictError: Another version is there; nothing was written.
    """

    repeatable: ClassVar[bool] = False

    handle: Handle
    item: Item
    expected: str | None
    retention: Retention = None
    keep_expiry: bool = False


@dataclass(eq=False, slots=True)
class Increment(Call[int | float]):
    """Add ``by``, exactly; absent counts from 0; the expiry stays. The new number.

    Raises:
        TypeError: The stored value is no number (`bool` is none).
        ValueError: The sum cannot be stored.
    """

    repeatable: ClassVar[bool] = False

    handle: Handle
    key: str
    by: int | float
    version: str


@dataclass(eq=False, slots=True)
class Touch(Call[bool]):
    """Move the expiry of a live key; whether there was one. Value and version stay."""

    handle: Handle
    key: str
    retention: Retention


@dataclass(eq=False, slots=True)
class Clear(Call[None]):
    """Drop all keys of the owner; with ``all_map_indices`` those of every instance of this task in this run."""

    handle: Handle
    all_map_indices: bool = False
