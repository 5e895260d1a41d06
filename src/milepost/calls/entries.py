"""Reads and writes of entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from milepost.calls.base import Call, Handle, Item, Stored
from milepost.retention import Retention
from milepost.scopes import TaskScope

__all__ = [
    "Clear",
    "Count",
    "Delete",
    "Get",
    "GetMany",
    "Increment",
    "Items",
    "Keys",
    "PastRun",
    "Put",
    "PutDefault",
    "PutIf",
    "Read",
    "Touch",
]


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
class GetMany(Call[list[tuple[Any, Any, Any]]]):
    """Key, text and encoding of those keys that are live, from one moment, in no order."""

    handle: Handle
    keys: Sequence[str]


@dataclass(eq=False, slots=True)
class Keys(Call[list[Any]]):
    """The live keys that start with ``prefix``, by code point. Never loads values."""

    handle: Handle
    prefix: str = ""


@dataclass(eq=False, slots=True)
class Items(Call[list[Stored]]):
    """The live rows whose keys start with ``prefix``, from one moment, by code point."""

    handle: Handle
    prefix: str = ""


@dataclass(eq=False, slots=True)
class Count(Call[int]):
    """The number of live keys."""

    handle: Handle


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
class Delete(Call[None]):
    """Drop a key; nothing if absent."""

    handle: Handle
    key: str


@dataclass(eq=False, slots=True)
class Clear(Call[None]):
    """Drop all keys of the owner; with ``all_map_indices`` those of every instance of this task in this run."""

    handle: Handle
    all_map_indices: bool = False


@dataclass(eq=False, slots=True)
class PastRun(Call[tuple[TaskScope, int]]):
    """The same task instance in an earlier run, and its number.

    Raises:
        KeyError: The run is this one, not earlier, unknown, without keys, or its mapped item differs.
    """

    handle: Handle
    run_id: str | None = None
