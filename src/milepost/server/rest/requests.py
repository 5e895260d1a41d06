"""What requests to the REST API say: bodies, conditions, places in lists. Read strictly."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple

from fastapi import Query, Request
from pydantic import BeforeValidator

from milepost.clock import MAX_MICROS, to_micros
from milepost.errors import InvalidValueError
from milepost.scopes import MAX_ID_CHARS, MAX_KEY_CHARS, MAX_MAP_INDEX, check_text
from milepost.values import encode, loads_strict

__all__ = [
    "Condition",
    "Counted",
    "Cursor",
    "Limit",
    "MapIndex",
    "Offset",
    "OneKey",
    "Prefix",
    "Whole",
    "condition",
    "cursor_after",
    "fields_of",
    "instant_of",
    "next_cursor",
    "prefix_of",
    "refuse_condition",
    "size",
    "value_of",
]

_MOST_ROWS: Final = 1000


def _digits(raw: Any) -> Any:
    """Refuse what Python takes for a whole number, and others do not: 1_0, +1, spaces."""
    if isinstance(raw, str) and not re.fullmatch(r"-?[0-9]+", raw):
        raise ValueError("Input should be a valid integer")
    return raw


Whole = Annotated[int, BeforeValidator(_digits)]

MapIndex = Annotated[Whole, Query(ge=-1, le=MAX_MAP_INDEX, description="Position in a mapped task; -1: not mapped.")]
Limit = Annotated[Whole, Query(ge=0, description=f"The most rows of a page, up to {_MOST_ROWS}; 0 stands for 50.")]
Offset = Annotated[Whole, Query(ge=0, le=2**31 - 1, description="How many rows to leave out.")]
Cursor = Annotated[str | None, Query(description="The `next_cursor` of the page before: fast however far down the list.")]
Counted = Annotated[bool, Query(description="Whether to tell `total_entries`; counting takes as long as a list is long.")]
Prefix = Annotated[str, Query(description="Only what starts with this text.")]
OneKey = Annotated[str | None, Query(description="One key, whatever it is: `.` and `..` cannot stand in a path.")]


def size(limit: int) -> int:
    """Return how many rows a page has."""
    return min(limit, _MOST_ROWS) or 50


def prefix_of(prefix: str) -> str:
    """Return a prefix after a look at it."""
    return prefix and check_text(prefix, "prefix", MAX_KEY_CHARS)


def next_cursor(place: Sequence[Any]) -> str:
    """Return the cursor of the page that begins after a place."""
    return base64.urlsafe_b64encode(encode(list(place)).encode()).decode().rstrip("=")


def cursor_after(cursor: str, kinds: tuple[type, ...]) -> list[Any]:
    """Return the place after which a page begins.

    Raises:
        InvalidValueError: The cursor is not one of this list.
    """
    try:
        place = loads_strict(base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True))
    except (ValueError, binascii.Error):
        place = None
    if not isinstance(place, list) or tuple(map(type, place)) != kinds:
        raise InvalidValueError("the cursor is none of this list; begin without one")
    for one in place:
        if type(one) is int and not -1 <= one < 2**63:
            raise InvalidValueError("the cursor is none of this list; begin without one")
        if type(one) is str and one:
            check_text(one, "the cursor", MAX_KEY_CHARS)
    return place


async def fields_of(request: Request, *, needed: Sequence[str] = (), known: Sequence[str] = ()) -> dict[str, Any]:
    """Return the fields of a body.

    Args:
        request: The request.
        needed: Fields that must be there.
        known: Fields that may be there.

    Raises:
        InvalidValueError: It is no JSON object, a field is missing, or one is unknown.
    """
    raw = await request.body()
    if not raw and not needed:
        return {}
    body = loads_strict(raw)
    if type(body) is not dict:
        raise InvalidValueError("the body must be a JSON object")
    for name in needed:
        if name not in body:
            raise InvalidValueError(f"the body needs the field {name!r}")
    for name in body:
        if name not in (*needed, *known):
            raise InvalidValueError(f"the body has the field {name[:60]!r}; known: {', '.join((*needed, *known))}")
    return body


def value_of(body: dict[str, Any], limit: int) -> str:
    """Return the value in a body as text, type included.

    Raises:
        ValueError: It cannot be stored.
    """
    return encode(body["value"], limit)


_INSTANT: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?([Zz]|[+-]\d\d:\d\d|[+-]\d\d(?:\d\d)?)", re.ASCII
)


def instant_of(raw: Any) -> int:
    """Return an instant in ISO 8601 with an offset, in microseconds UTC.

    Raises:
        InvalidValueError: It is none, has no offset, or lies beyond the years.
    """
    found = _INSTANT.fullmatch(raw) if type(raw) is str and len(raw) < 50 else None
    if found is None:
        raise InvalidValueError(
            'expires_at must be "default", null (never) or an instant in ISO 8601 with an offset, as in 2030-01-01T00:00:00Z'
        )
    day, time, seconds, fraction, offset = found.groups()
    offset = "+00:00" if offset in "Zz" else f"{offset[:3]}:{offset[3:].lstrip(':') or '00'}"
    text = f"{day}T{time}:{seconds or '00'}.{(fraction or '0')[:6]:0<6}{offset}"
    try:
        micros = to_micros(datetime.fromisoformat(text))
    except (ValueError, OverflowError) as error:
        raise InvalidValueError(f"expires_at is no instant: {error}") from None
    if not 0 <= micros <= MAX_MICROS:
        raise InvalidValueError("expires_at is before 1970 or after 9999; null keeps a key for good")
    return micros


class Condition(NamedTuple):
    """What a request expects to find.

    Args:
        versions: The key with one of these versions.
        present: `True`: the key; `False`: no such key.
    """

    versions: tuple[str, ...] = ()
    present: bool | None = None

    @property
    def given(self) -> bool:
        """Whether the request said anything."""
        return bool(self.versions) or self.present is not None


_TAG: Final = re.compile(r'(?:W/)?"([\x21\x23-\x7e]*)"')


def condition(request: Request) -> Condition:
    """Read ``If-Match`` and ``If-None-Match: *``.

    Raises:
        InvalidValueError: They cannot be read, or say too much.
    """
    wanted = [value.strip() for value in request.headers.getlist("if-match")]
    unwanted = [value.strip() for value in request.headers.getlist("if-none-match")]
    if wanted and unwanted:
        raise InvalidValueError("give If-Match or If-None-Match, not both")
    if unwanted:
        if unwanted != ["*"]:
            raise InvalidValueError("a write takes If-None-Match: * only, for: if the key is absent")
        return Condition(present=False)
    if not wanted:
        return Condition()
    if wanted == ["*"]:
        return Condition(present=True)
    parts = [part.strip() for value in wanted for part in value.split(",")]
    found = [_TAG.fullmatch(part) for part in parts]
    if not all(found):
        raise InvalidValueError('If-Match must be * or entity tags, as in "0123456789abcdef"')
    # Proxies that compress make tags weak. A version is that of the value, whatever was done to its bytes on the way.
    return Condition(tuple(check_text(one[1] or "-", "If-Match", MAX_ID_CHARS) for one in found if one))


def refuse_condition(request: Request) -> None:
    """Make sure that a clear comes without a condition.

    Raises:
        InvalidValueError: It has one.
    """
    if "if-match" in request.headers or "if-none-match" in request.headers:
        raise InvalidValueError("a clear takes no condition: versions are those of single keys")
