"""When a value expires: pure decisions.

A caller's ``retention`` travels as a small integer (microseconds, `NEVER` or `None`), because the instant of expiry
is counted on the metastore's clock, which the caller does not have.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from milepost.clock import MAX_MICROS
from milepost.errors import InvalidValueError, UnsupportedTypeError

__all__ = ["DAY", "NEVER", "NEVER_EXPIRE", "Retention", "expiry", "parse_retention"]

NEVER_EXPIRE: Final = timedelta.max
"""Keep the entry until it is deleted. Whatever equals it is it, as in Airflow 3.3.

.. versionadded:: 0.1
"""

DAY: Final = 86_400_000_000
"""Microseconds in a day."""

NEVER: Final = -1
Retention = int | None
"""Microseconds from the write on, `NEVER`, or `None` for the default of the configuration."""

_MICROSECOND = timedelta(microseconds=1)


def parse_retention(retention: timedelta | None) -> Retention:
    """Check what a caller gave as ``retention``.

    Args:
        retention: A positive `timedelta`, `NEVER_EXPIRE` or `None`.

    Returns:
        The form that calls carry.

    Raises:
        TypeError: Not a `timedelta`.
        ValueError: Zero or negative.
    """
    if retention is None:
        return None
    if not isinstance(retention, timedelta):
        raise UnsupportedTypeError(
            f"retention must be a timedelta, NEVER_EXPIRE or None, not {type(retention).__name__}; "
            "say what the number means, as in timedelta(seconds=…)"
        )
    if retention == NEVER_EXPIRE:
        return NEVER
    micros = retention // _MICROSECOND
    if micros <= 0:
        raise InvalidValueError(f"retention must be longer than zero, got {retention}; delete the key instead")
    return micros


def expiry(retention: Retention, now: int) -> tuple[int | None, int | None]:
    """Return the two columns that say how long a row lives.

    Args:
        retention: What `parse_retention` returned.
        now: The instant of the write on the metastore's clock, in microseconds.

    Returns:
        ``(expires_at, default_day)``: the instant of expiry or `None`; the UTC day of the write where the default
        retention governs, otherwise `None`. Both `None`: never.

    Raises:
        ValueError: The instant lies beyond the year 9999.
    """
    if retention is None:
        return None, now // DAY
    if retention == NEVER:
        return None, None
    expires_at = now + retention
    if expires_at > MAX_MICROS:
        raise InvalidValueError("retention reaches beyond the year 9999; use NEVER_EXPIRE to keep a key for good")
    return expires_at, None
