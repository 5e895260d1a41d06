"""Reads of several entries, and of an earlier run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from milepost.calls.base import Call, Handle, Stored
from milepost.scopes import TaskScope

__all__ = ["Count", "GetMany", "Items", "Keys", "PastRun"]


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
class PastRun(Call[tuple[TaskScope, int]]):
    """The same task instance in an earlier run, and its number.

    Raises:
        KeyError: The run is this one, not earlier, unknown, without keys, or its mapped item differs.
    """

    handle: Handle
    run_id: str | None = None
