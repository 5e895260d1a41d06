"""Time as Milepost sees it: whole microseconds since 1970-01-01T00:00:00 UTC."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from typing import Protocol

__all__ = ["MAX_MICROS", "MIN_MICROS", "Clock", "ManualClock", "SystemClock", "from_micros", "to_micros"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)

MAX_MICROS = (datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=timezone.utc) - _EPOCH) // _MICROSECOND
"""The last instant that a `datetime` can show."""

MIN_MICROS = (datetime(1, 1, 1, tzinfo=timezone.utc) - _EPOCH) // _MICROSECOND
"""The first one."""


class Clock(Protocol):
    """Where a store takes the time from.

    .. versionadded:: 0.1
    """

    def now(self) -> int:
        """Return the present instant in microseconds UTC."""
        ...


class SystemClock:
    """The clock of this process.

    .. versionadded:: 0.1
    """

    __slots__ = ()

    def now(self) -> int:
        """Return the present instant in microseconds UTC."""
        return time.time_ns() // 1000


class ManualClock:
    """A clock that moves only when told to, for tests.

    Args:
        start: An aware datetime; by default 2026-01-01T00:00:00 UTC.

    .. versionadded:: 0.1
    """

    __slots__ = ("_micros",)

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=timezone.utc)) -> None:
        self._micros = to_micros(start)

    def now(self) -> int:
        """Return the instant that the clock stands at, in microseconds UTC."""
        return self._micros

    def advance(self, by: timedelta | None = None, /, **parts: float) -> None:
        """Move the clock; negative steps are allowed, as a system clock may step back.

        Args:
            by: How far.
            **parts: Or the parts of a `timedelta` by name, as in ``advance(days=31)``.
        """
        self._micros += (by if by is not None else timedelta(**parts)) // _MICROSECOND


def to_micros(moment: datetime) -> int:
    """Return an aware datetime as microseconds UTC.

    Args:
        moment: Any aware datetime; the offset is honoured.

    Returns:
        Whole microseconds since the epoch, negative before it.

    Raises:
        ValueError: The datetime is naive.
    """
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise ValueError(f"{moment.isoformat()} has no UTC offset; give an aware datetime")
    return (moment - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """Return microseconds UTC as an aware datetime in UTC."""
    return _EPOCH + timedelta(0, 0, micros)  # by position, which takes two thirds of the time
