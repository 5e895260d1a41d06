"""How a server reads the calls that come in."""

from __future__ import annotations

import functools
from typing import Any, Final

from milepost import calls
from milepost.calls import Call
from milepost.errors import InvalidValueError
from milepost.remote.checks import CHECKS
from milepost.remote.wire import Load, Types
from milepost.values import loads_strict

__all__ = ["CALLS", "Reader"]

CALLS: Final[dict[str, type[Call[Any]]]] = {
    name: thing
    for name in calls.__all__
    if isinstance(thing := getattr(calls, name), type) and issubclass(thing, Call) and thing is not Call
}
"""Every call by its name."""


@functools.cache
def _loads_of(limit: int) -> dict[str, Load]:
    made = Types(limit, CHECKS)
    return {name: made.of(cls).load for name, cls in CALLS.items()}


class Reader:
    """Reads calls that come in at a server.

    Args:
        limit: The most bytes of a value; 0: no limit.
    """

    def __init__(self, limit: int) -> None:
        self._loads = _loads_of(limit)

    def call(self, raw: Any) -> Call[Any]:
        """Return the call that parsed JSON stands for.

        Raises:
            ValueError: It is none; the message names the place.
            TypeError: A part has the wrong type.
        """
        if type(raw) is not list or not raw or type(raw[0]) is not str:
            raise InvalidValueError('a call is a list of its name and its fields, as in ["Now"]')
        load = self._loads.get(raw[0])
        if load is None:
            raise InvalidValueError(f"there is no call {raw[0][:60]!r}; known: {', '.join(CALLS)}")
        return load(raw[1:], raw[0])  # type: ignore[no-any-return]

    def body(self, data: bytes) -> tuple[list[Call[Any]], bool]:
        """Return the calls of a request, and whether it is a batch.

        Raises:
            ValueError: It holds none; the message says why.
            TypeError: A part has the wrong type.
        """
        raw = loads_strict(data)
        if type(raw) is list and raw and type(raw[0]) is list:
            return [self.call(one) for one in raw], True
        return [self.call(raw)], False
