"""The strict codec for what tasks return: JSON, and seven more types under tags.

A tagged value is an object with the key `TAG` and, beside it, ``value``.
A user's own object that has that key is written as a list of pairs under the tag ``dict``,
so that no text is read as something else than what was written.
"""

from __future__ import annotations

import json
import math
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NoReturn

from milepost.runner.errors import ResultDamagedError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MAX_BYTES", "MAX_DEPTH", "TAG", "decode", "encode"]

TAG: Final = "__milepost__"
MAX_BYTES: Final = 64 * 1024 * 1024
MAX_DEPTH: Final = 200

_SCALARS: Final = frozenset((str, int, float, bool, type(None)))


def _tagged(tag: str, value: Any) -> dict[str, Any]:
    return {TAG: tag, "value": value}


def _datetime(value: datetime) -> Any:
    key = getattr(value.tzinfo, "key", None)  # of a ZoneInfo
    if isinstance(key, str):
        return _tagged("datetime", [value.isoformat(), key])
    return _tagged("datetime", value.isoformat())


def _leaf(value: Any) -> Any:
    """Return the tagged form of a value without parts; `None` for one of another type."""
    kind = type(value)
    if kind is datetime:
        return _datetime(value)
    if kind is date:
        return _tagged("date", value.isoformat())
    if kind is timedelta:
        return _tagged("timedelta", [value.days, value.seconds, value.microseconds])
    # Imported where they are needed: every attempt imports this module, and few results hold them.
    if kind.__name__ == "Decimal":
        from decimal import Decimal

        return _tagged("decimal", str(value)) if kind is Decimal else None
    if kind.__name__ == "UUID":
        from uuid import UUID

        return _tagged("uuid", str(value)) if kind is UUID else None
    return None


def _plain(value: Any, path: str, depth: int) -> Any:
    """Return the value with tags in place of what JSON has not."""
    kind = type(value)
    if kind in _SCALARS:
        if kind is float and not math.isfinite(value):
            raise ValueError(f"{path} is {value!r}, which JSON has no number for")
        return value
    leaf = _leaf(value)
    if leaf is not None:
        return leaf
    if depth >= MAX_DEPTH:
        raise ValueError(f"{path[:80]} is nested deeper than {MAX_DEPTH} levels, or contains itself")
    if kind is list:
        return _items(value, path, depth)
    if kind is tuple:
        return _tagged("tuple", _items(value, path, depth))
    if kind is set:
        # In the order of their texts, so that equal sets have one text.
        return _tagged("set", sorted(_items(list(value), path, depth), key=json.dumps))
    if kind is dict:
        return _object(value, path, depth)
    raise TypeError(f"{path} is a {kind.__module__}.{kind.__qualname__}, which cannot be passed between tasks")


def _items(value: Any, path: str, depth: int) -> list[Any]:
    # One look at the types in C spares the slow walk over long lists of numbers or texts.
    types = set(map(type, value))
    if types <= _SCALARS and (float not in types or all(map(math.isfinite, _floats(value)))):
        return list(value)
    return [_plain(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]


def _floats(value: Any) -> list[float]:
    return [item for item in value if type(item) is float]


def _object(value: dict[Any, Any], path: str, depth: int) -> Any:
    for key in value:
        if type(key) is not str:
            raise TypeError(f"{path} has the key {key!r} of type {type(key).__name__}; keys must be str")
    plain = {key: _plain(item, f"{path}[{key!r}]", depth + 1) for key, item in value.items()}
    return _tagged("dict", [list(pair) for pair in plain.items()]) if TAG in plain else plain


def encode(value: Any, task: str) -> str:
    """Return a task's result as text.

    Args:
        value: JSON values, tuples, sets, datetimes, dates, timedeltas, Decimals and UUIDs, nested as you like.
            Exactly these types: a subclass would not come back as what it was.
        task: The task, for messages.

    Returns:
        JSON text.

    Raises:
        TypeError: Another type; the message names the task and the path of the element.
        ValueError: NaN, an infinity, an integer above Python's digit limit,
            more than `MAX_DEPTH` levels, or more than `MAX_BYTES` bytes.
    """
    try:
        plain = _plain(value, "it", 0)
        text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    except TypeError as error:
        raise TypeError(f"the result of task {task!r}: {error}") from None
    except ValueError as error:
        raise ValueError(f"the result of task {task!r}: {error}") from None
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        # Half a surrogate pair, as in odd file names: it survives as an escape.
        text = json.dumps(plain, separators=(",", ":"))
        size = len(text)
    if size > MAX_BYTES:
        raise ValueError(
            f"the result of task {task!r} has {size:,} bytes and may have {MAX_BYTES:,}; "
            "write it to a file or an object store and return where it is"
        )
    return text


def _read_datetime(value: Any) -> datetime:
    if isinstance(value, str):
        return datetime.fromisoformat(value)
    from zoneinfo import ZoneInfo

    return datetime.fromisoformat(value[0]).astimezone(ZoneInfo(value[1]))


def _read_decimal(value: str) -> Any:
    from decimal import Decimal

    return Decimal(value)


def _read_uuid(value: str) -> Any:
    from uuid import UUID

    return UUID(value)


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "tuple": tuple,
    "set": set,
    "datetime": _read_datetime,
    "date": date.fromisoformat,
    "timedelta": lambda value: timedelta(*value),
    "decimal": _read_decimal,
    "uuid": _read_uuid,
    "dict": dict,
}


def _untag(found: dict[str, Any]) -> Any:
    tag = found.get(TAG)
    if tag is None:
        return found
    reader = _READERS.get(tag)
    if reader is None:
        raise ResultDamagedError(f"the stored result has the tag {tag!r}, which this Milepost does not know")
    return reader(found["value"])


def _refuse_constant(name: str) -> NoReturn:
    raise ResultDamagedError(f"{name} is not JSON")


_decoder: Final = json.JSONDecoder(object_hook=_untag, parse_constant=_refuse_constant)


def decode(text: str) -> Any:
    """Return the value that `encode` wrote.

    Args:
        text: What is stored.

    Raises:
        ResultDamagedError: The text is not what `encode` writes.
    """
    try:
        return _decoder.decode(text)
    except ResultDamagedError:
        raise
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError) as error:
        raise ResultDamagedError(f"the stored result cannot be read: {error}") from None
