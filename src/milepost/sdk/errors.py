"""The error for a DAG file that asks for something Milepost cannot do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.errors import MilepostError
from milepost.sdk.location import Location, call_site

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["DagDefinitionError", "reject_unknown"]


class DagDefinitionError(MilepostError, ValueError):
    """A DAG file is wrong, or uses something that the local runner does not have.

    Args:
        message: What is wrong with which thing.
        where: The line; by default the one that is being run.

    .. versionadded:: 0.1
    """

    def __init__(self, message: str, where: Location | None = None) -> None:
        self.reason = message
        self.where = where if where is not None else call_site()
        super().__init__(f"{self.where}: {message}")

    def __reduce__(self) -> tuple[type[DagDefinitionError], tuple[str, Location]]:
        return (type(self), (self.reason, self.where))


def reject_unknown(what: str, given: Iterable[str], known: Iterable[str], where: Location | None = None) -> None:
    """Raise if an argument is not among those that are known.

    Args:
        what: What the arguments were given to, as in ``"DAG"``.
        given: Their names.
        known: The names that it takes.
        where: The line; by default the one that is being run.

    Raises:
        DagDefinitionError: Names the first unknown argument, and the one that was probably meant.
    """
    allowed = set(known)
    for name in given:
        if name not in allowed:
            from difflib import get_close_matches

            close = get_close_matches(name, allowed, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise DagDefinitionError(f"{what} has no argument {name!r} in Milepost's local runner{hint}", where)
