"""The strict JSON codec: what goes in comes back, type included.

The common case takes one walk over the value that only looks at exact types, one run of the C encoder and one look at
the text. Whenever one of the three objects, `_explain` walks again, slowly, to find the path of the bad element.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, Final, NoReturn

from milepost.errors import InvalidValueError, UnsupportedTypeError, ValueTooLargeError

__all__ = [
    "DEFAULT_MAX_BYTES",
    "MAX_DEPTH",
    "MOST_BYTES",
    "JSONValue",
    "canonical",
    "check_json",
    "decode",
    "encode",
    "loads_strict",
]

JSONValue = Any
"""``str | int | float | bool | list | dict``, exactly these types, `None` allowed inside."""

MAX_DEPTH: Final = 200
DEFAULT_MAX_BYTES: Final = 65_536
MOST_BYTES: Final = 64 * 1024 * 1024
"""No value has more, also where the limit is off: a small object that refers to its parts again and again can be text
without end."""

_FEW: Final = 50
_MANY: Final = 1_000_000
"""Containers on one level of a value from which on it is worth while to see which are the same."""

_SCALARS: Final = frozenset((str, int, float, bool, type(None)))


def _make_encoder() -> Callable[[Any], str]:
    """Return a function from a checked value to compact JSON text with non-ASCII characters as they are."""
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # another interpreter than CPython
        return json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode

    def refuse(thing: object) -> NoReturn:
        raise TypeError(type(thing).__name__)

    # No markers: the depth check has already found every cycle.
    chunks = make(None, refuse, json.encoder.encode_basestring, None, ":", ",", False, False, False)
    join = "".join

    def run(value: Any) -> str:
        return join(chunks(value, 0))

    return run


_to_text = _make_encoder()


def _plain(value: Any, limit: int) -> bool:
    """Tell at one look that a container holds nothing but the exact JSON types, not too deep, and may fit the limit.

    It goes level by level and counts the least bytes that each part can have, so a small object that refers to its parts
    again and again, and would be huge as text, ends the walk early.
    """
    if type(value) is dict and len(value) < _FEW:  # flat, as most are: nothing to count
        for key, item in value.items():
            if type(key) is not str or type(item) not in _SCALARS:
                break
        else:
            return True
    room = limit
    level = [value]
    for _ in range(MAX_DEPTH):
        deeper: list[Any] = []
        for box in level:
            room -= _least(box, deeper)
            if room < 0 or len(deeper) > _MANY:
                return False
        if not deeper:
            return True
        level = deeper
    return False


def _least(box: Any, deeper: list[Any]) -> int:
    """Add the containers in a container to a list; return the least bytes of all else there, a huge number if it is bad."""
    size = len(box) + 1
    items = box
    if type(box) is dict:
        for key in box:
            if type(key) is not str:
                return MOST_BYTES + 1
            size += len(key) + 3
        items = box.values()
    for item in items:
        kind = type(item)
        if kind is str:
            size += len(item) + 1
        elif kind not in _SCALARS:
            if kind is not dict and kind is not list:
                return MOST_BYTES + 1
            deeper.append(item)
    return size


def _size(value: Any, known: dict[int, int]) -> int:
    """Return the bytes of a sound value as text without making the text; each part is looked at once, wherever it recurs.

    Args:
        value: It has passed `_explain`.
        known: Sizes of parts by their identity.
    """
    kind = type(value)
    if kind is not str and kind is not list and kind is not dict:
        return len(_to_text(value))
    size = known.get(id(value))
    if size is None:
        if kind is str:
            size = len(_to_text(value).encode())
        elif kind is list:
            size = 1 + max(1, sum(_size(item, known) + 1 for item in value))
        else:
            size = 1 + max(1, sum(_size(key, known) + _size(item, known) + 2 for key, item in value.items()))
        known[id(value)] = size
    return size


def encode(value: JSONValue, limit: int = DEFAULT_MAX_BYTES) -> str:
    """Return a value as compact JSON text.

    Args:
        value: Exactly ``str``, ``int``, ``float``, ``bool``, ``list`` or ``dict``; `None` inside only.
        limit: The most bytes that the text may have in UTF-8; 0 means no limit but `MOST_BYTES`.

    Returns:
        The text, non-ASCII characters unescaped.

    Raises:
        ValueError: `None`, NaN, an infinity, a lone surrogate, a cycle, more than 200 levels, or an integer above
            Python's own digit limit; the message names the path.
        TypeError: Any other type, subclasses of the six included; the message names the cast.
        ValueTooLargeError: More bytes than ``limit``.
    """
    limit = min(limit, MOST_BYTES) or MOST_BYTES
    kind = type(value)
    if kind is dict or kind is list:
        if not _plain(value, limit):
            _explain(value)
            if (size := _size(value, {})) > limit:
                raise _too_large(size, limit)
    elif value is None or kind not in _SCALARS:
        _explain(value)
    try:
        text = _to_text(value)
        size = len(text) if text.isascii() else len(text.encode())
    except ValueError:  # NaN, infinity, too many digits, a lone surrogate
        _explain(value)
        raise  # not reached unless the walk above missed a fault
    if size > limit:
        raise _too_large(size, limit)
    return text


def _too_large(size: int, limit: int) -> ValueTooLargeError:
    if limit == MOST_BYTES:
        return ValueTooLargeError(size, limit, "the most that any value may have", None)
    return ValueTooLargeError(size, limit)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits} is beyond all floats")
    return number


_scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder(  # type: ignore[attr-defined]
    parse_constant=_refuse_constant, parse_float=_float
).scan_once


def decode(text: Any) -> JSONValue:
    """Return the value that a stored text stands for.

    Args:
        text: What `encode` returned, or what a database gave back for it.

    Returns:
        The value, with the types it was stored with.

    Raises:
        ValueError: The text is damaged; the message says how. The caller knows the key and names it.
    """
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        raise ValueError("the text is not JSON") from None
    except TypeError:
        raise ValueError(f"the value is {type(text).__name__}, not text") from None
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    if end != len(text) and text[end:].strip(" \t\r\n"):
        raise ValueError("there is text behind the JSON value")
    if value is None:
        raise ValueError("the value is null")
    return value


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the object has the key {twice!r} twice")
    return result


_strict = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_unique_pairs)


def loads_strict(text: str | bytes) -> JSONValue:
    """Return a value that came from outside as JSON text (the command line, HTTP, a file).

    Args:
        text: JSON text, or its UTF-8 bytes without a byte order mark.

    Returns:
        The value; it may be `None` or break other rules of `encode`, which the caller applies next.

    Raises:
        ValueError: Not JSON, not UTF-8, a BOM, NaN or an infinity as a literal, or an object with a key twice.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidValueError(f"not UTF-8 at byte {error.start}") from None
    if text.startswith("\ufeff"):
        raise InvalidValueError("the JSON text starts with a byte order mark; remove it")
    try:
        return _strict.decode(text)
    except RecursionError:
        raise InvalidValueError(f"the JSON is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise InvalidValueError(f"not valid JSON: {error}") from None


def canonical(value: JSONValue) -> str:
    """Return the one text that equal values share: compact JSON with sorted keys.

    Args:
        value: As in `encode`.

    Raises:
        ValueError: As in `encode`, without a size limit.
        TypeError: As in `encode`.
    """
    encode(value, 0)
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True)


_CASTS: Final = {
    "tuple": "list(…)",
    "set": "sorted(…) or list(…)",
    "frozenset": "sorted(…) or list(…)",
    "bytes": ".decode() or base64",
    "bytearray": ".decode() or base64",
    "memoryview": ".tobytes() and base64",
    "datetime": ".isoformat()",
    "date": ".isoformat()",
    "time": ".isoformat()",
    "timedelta": ".total_seconds()",
    "Decimal": "str(…), or float(…) if it may lose digits",
    "Fraction": "str(…)",
    "UUID": "str(…)",
    "Path": "str(…)",
    "ndarray": ".tolist()",
    "DataFrame": '.to_dict("records")',
}


def _cast_for(value: object) -> str:
    for cls in type(value).__mro__:
        if cls in (str, int, float, list, dict):
            return f"{cls.__name__}(…)"
        if cls.__name__ in _CASTS:
            return _CASTS[cls.__name__]
    if hasattr(value, "item") and hasattr(value, "dtype"):  # a NumPy scalar
        return ".item()"
    return "a cast to str, int, float, bool, list or dict"


def _explain(value: Any) -> None:
    """Walk depth first without recursion and raise for the first bad element.

    A part that was seen at this depth or deeper is not looked at again, so that parts which recur cost no more than once.
    """
    if value is None:
        raise InvalidValueError("the value is None (null in JSON), which means absent here; delete the key instead")
    seen: dict[int, int] = {}
    todo: list[tuple[Any, str, int, tuple[int, ...]]] = [(value, "value", 0, ())]
    while todo:
        item, path, depth, above = todo.pop()
        kind = type(item)
        if kind is dict or kind is list:
            if id(item) in above:
                raise InvalidValueError(f"{path} contains itself")
            if depth >= MAX_DEPTH:
                raise InvalidValueError(f"{_short(path)} is nested deeper than {MAX_DEPTH} levels")
            if seen.get(id(item), -1) >= depth:
                continue
            seen[id(item)] = depth
            todo += reversed(_children(item, path, depth + 1, (*above, id(item))))
        else:
            _explain_scalar(item, path)


def _short(path: str) -> str:
    return path if len(path) <= 80 else f"{path[:40]}…{path[-20:]}"


def _children(item: Any, path: str, depth: int, above: tuple[int, ...]) -> list[tuple[Any, str, int, tuple[int, ...]]]:
    if type(item) is list:
        return [(child, f"{path}[{index}]", depth, above) for index, child in enumerate(item)]
    for key in item:
        if type(key) is not str:
            raise UnsupportedTypeError(
                f"{_short(path)} has the key {key!r} of type {type(key).__name__}; JSON object keys are str: use str(…)"
            )
        _explain_scalar(key, f"the key {key!r} of {_short(path)}")
    return [(child, f"{path}[{key!r}]", depth, above) for key, child in item.items()]


def _explain_scalar(item: Any, path: str) -> None:
    kind = type(item)
    if kind not in _SCALARS:
        raise UnsupportedTypeError(
            f"{_short(path)} is a {kind.__name__}, which JSON would not give back as it is; use {_cast_for(item)}"
        )
    if kind is float and not math.isfinite(item):
        raise InvalidValueError(f"{_short(path)} is {item!r}, which JSON has no number for")
    if kind is str and not item.isascii():
        try:
            item.encode()
        except UnicodeEncodeError as error:
            raise InvalidValueError(f"{_short(path)} has a lone surrogate at position {error.start}") from None
    if kind is int:
        try:
            str(item)
        except ValueError as error:
            raise InvalidValueError(f"{_short(path)} is too large an integer: {error}") from None


def check_json(text: str, limit: int) -> str:
    """Return JSON text in the one form that rows hold.

    Args:
        text: JSON text of a value.
        limit: The most bytes that it may have; 0: no limit.

    Raises:
        ValueError: It is no JSON, or a value that cannot be stored.
    """
    return encode(loads_strict(text), limit)
