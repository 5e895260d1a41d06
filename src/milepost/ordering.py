"""Which of two values is further: how `advance` compares."""

from __future__ import annotations

import re
from datetime import date
from typing import Any, Final, Literal

from milepost.errors import InvalidValueError, UnsupportedTypeError

__all__ = ["Order", "check_order", "is_further"]

Order = Literal["datetime"] | None
"""`None`: numbers by their exact value, strings by code point. ``"datetime"``: ISO 8601 texts by their instant."""

_INSTANT: Final = (
    r"(\d{4})-?(\d\d)-?(\d\d)[Tt ](\d\d)(?::?(\d\d)(?::?(\d\d)(?:[.,](\d+))?)?)?"
    r"(?:([Zz])|([+-])(\d\d)(?::?(\d\d)(?::?(\d\d))?)?)"
)
_BOUNDS: Final = (23, 59, 59)


def check_order(order: object) -> None:
    """Check what a caller gave as ``order``.

    Raises:
        ValueError: Neither `None` nor ``"datetime"``.
    """
    if order is not None and order != "datetime":
        raise InvalidValueError(f'order must be None or "datetime", got {order!r}')


def is_further(value: Any, old: Any, order: Order, key: str) -> bool:
    """Tell whether ``value`` lies beyond ``old``.

    Args:
        value: The new value.
        old: What is there.
        order: How to compare.
        key: Whose values they are, for messages.

    Raises:
        TypeError: One of them cannot be compared so, or they are of different kinds.
    """
    if order is not None:
        return _instant(value, key) > _instant(old, key)
    kinds = _kind(value, key), _kind(old, key)
    if kinds[0] != kinds[1]:
        raise UnsupportedTypeError(f"cannot advance {key!r}: it holds a {kinds[1]} and the new value is a {kinds[0]}")
    return bool(value > old)  # an int and a float are compared exactly


def _kind(value: Any, key: str) -> str:
    if type(value) in (int, float):
        return "number"
    if type(value) is str:
        return "string"
    raise UnsupportedTypeError(
        f"cannot advance {key!r}: only numbers and strings have an order, not {type(value).__name__}; use update()"
    )


def _instant(value: Any, key: str) -> tuple[int, str]:
    """Return an ISO 8601 text as whole seconds and the digits behind them."""
    match = re.fullmatch(_INSTANT, value, re.ASCII) if type(value) is str else None
    if match is not None:
        year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
        offset = [int(part or 0) for part in match.groups()[9:]]
        try:
            days = date(year, month, day).toordinal()
        except ValueError:
            days = 0
        if days and all(part <= most for part, most in zip((hour, minute, second, *offset), _BOUNDS * 2, strict=True)):
            ahead = (offset[0] * 60 + offset[1]) * 60 + offset[2]
            seconds = days * 86_400 + (hour * 60 + minute) * 60 + second - (-ahead if match[9] == "-" else ahead)
            return seconds, (match[7] or "").rstrip("0")
    shown = repr(value) if type(value) is str and len(value) <= 40 else f"a {type(value).__name__}"
    raise UnsupportedTypeError(
        f'cannot advance {key!r} with order="datetime": {shown} is no ISO 8601 time with offset, '
        "as in 2026-01-31T12:00:00+00:00"
    )
