"""How ``expand`` and ``expand_kwargs`` turn lists into mapped arguments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from milepost.sdk.errors import DagDefinitionError
from milepost.sdk.references import RunView, XComArg

__all__ = ["Expansion", "Mappable", "NotMappableError", "Product", "Rows", "elements"]


class NotMappableError(TypeError):
    """What a task was to be mapped over is no list and no dict."""


def elements(value: Any) -> list[Any] | None:
    """Return the items to map over: those of a list, the pairs of a dict; `None` if it is neither."""
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray)):
        return list(value)
    return None


class Expansion(ABC):
    """What a task is mapped over."""

    @abstractmethod
    def given(self) -> Any:
        """Return the values as they stand in the file, references included."""

    @abstractmethod
    def length_sources(self) -> list[XComArg]:
        """Return the references whose values decide how many instances there are."""

    @abstractmethod
    def names(self) -> list[tuple[str, ...]]:
        """Return the sets of mapped arguments that the file shows; none where only a run shows them."""

    @abstractmethod
    def expand(self, view: RunView) -> Expansion:
        """Return the same with every reference that decides the length replaced by its list.

        Raises:
            NotMappableError: A value is no list and no dict.
        """

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of instances; only of an expanded one."""

    @abstractmethod
    def positions(self, index: int) -> dict[str, int]:
        """Return for each list the position that an instance takes from it; only of an expanded one."""

    @abstractmethod
    def at(self, positions: Mapping[str, int]) -> dict[str, Any]:
        """Return what stands at these positions, by the name of the list.

        Raises:
            LookupError: A list is shorter than that, or is not known from the file.
        """


def _checked(value: Any, what: str) -> list[Any]:
    items = elements(value)
    if items is None:
        raise NotMappableError(f"{what} is of type {type(value).__name__}; a task is mapped over a list or a dict")
    return items


class Product(Expansion):
    """``expand(x=[…], y=[…])``: every combination; the last argument changes fastest."""

    def __init__(self, lists: Mapping[str, Any]) -> None:
        for name, value in lists.items():
            if not isinstance(value, XComArg) and elements(value) is None:
                raise DagDefinitionError(
                    f"expand() got {value!r} for {name!r}; it takes a list, a dict or the result of a task"
                )
        self.lists = dict(lists)

    def given(self) -> Any:
        """Return the arguments of ``expand``."""
        return self.lists

    def length_sources(self) -> list[XComArg]:
        """Return the arguments that are results of tasks."""
        return [value for value in self.lists.values() if isinstance(value, XComArg)]

    def names(self) -> list[tuple[str, ...]]:
        """Return the names of the arguments."""
        return [tuple(self.lists)]

    def expand(self, view: RunView) -> Product:
        """Return the same with lists in place of results."""
        return Product(
            {
                name: _checked(value.resolve(view), f"{value!r}, for {name!r},") if isinstance(value, XComArg) else value
                for name, value in self.lists.items()
            }
        )

    def __len__(self) -> int:
        count = 1
        for value in self.lists.values():
            count *= len(value)
        return count

    def positions(self, index: int) -> dict[str, int]:
        """Return the position in each argument's list."""
        places: dict[str, int] = {}
        for name in reversed(self.lists):
            index, places[name] = divmod(index, len(self.lists[name]))
        return {name: places[name] for name in self.lists}

    def at(self, positions: Mapping[str, int]) -> dict[str, Any]:
        """Return the arguments at these positions."""
        found: dict[str, Any] = {}
        for name, position in positions.items():
            items = elements(self.lists.get(name))
            if items is None or position >= len(items):
                raise LookupError(f"the list for {name!r} in the file has changed: it has no position {position}")
            found[name] = items[position]
        return found


class Rows(Expansion):
    """``expand_kwargs([{…}, {…}])``: one instance for each dict."""

    def __init__(self, rows: Any) -> None:
        if not isinstance(rows, XComArg):
            if not isinstance(rows, (list, tuple)):
                raise DagDefinitionError(f"expand_kwargs() takes a list of dicts or the result of a task, not {rows!r}")
            for row in rows:
                if not isinstance(row, (dict, XComArg)):
                    raise DagDefinitionError(f"expand_kwargs() takes dicts in its list, not {row!r}")
        self.rows = rows

    def given(self) -> Any:
        """Return the argument of ``expand_kwargs``."""
        return self.rows

    def length_sources(self) -> list[XComArg]:
        """Return the argument if it is the result of a task."""
        return [self.rows] if isinstance(self.rows, XComArg) else []

    def names(self) -> list[tuple[str, ...]]:
        """Return the keys of each dict that is known."""
        known = [] if isinstance(self.rows, XComArg) else self.rows
        return list(dict.fromkeys(tuple(row) for row in known if isinstance(row, dict)))

    def expand(self, view: RunView) -> Rows:
        """Return the same with a list in place of a result."""
        if not isinstance(self.rows, XComArg):
            return self
        rows = self.rows.resolve(view)
        if not isinstance(rows, (list, tuple)) or not all(isinstance(row, dict) for row in rows):
            raise NotMappableError(f"{self.rows!r} is no list of dicts, which expand_kwargs() needs")
        return Rows(list(rows))

    def __len__(self) -> int:
        return len(self.rows)

    def positions(self, index: int) -> dict[str, int]:
        """Return the one position; the list has no name."""
        return {"": index}

    def at(self, positions: Mapping[str, int]) -> dict[str, Any]:
        """Return the row at that position, under no name; nothing if no position is asked for."""
        if not positions:
            return {}
        position = positions[""]
        if isinstance(self.rows, XComArg) or position >= len(self.rows):
            raise LookupError(f"the list for expand_kwargs() in the file has changed: it has no position {position}")
        return {"": self.rows[position]}


class Mappable(ABC):
    """Something that a DAG file maps over lists: a function under ``@task``, or an operator's ``partial``."""

    def expand(self, **lists: Any) -> XComArg:
        """Map over lists: one instance for every combination; the last argument changes fastest.

        Args:
            lists: For each argument a list, a dict (its pairs) or the result of a task.

        Raises:
            DagDefinitionError: An argument is unknown, not mappable, missing, or given by ``partial`` too.
        """
        if not lists:
            raise DagDefinitionError("expand() needs at least one argument to map over")
        return self._map(Product(lists))

    def expand_kwargs(self, rows: Any) -> XComArg:
        """Map over dicts of arguments: one instance for each.

        Args:
            rows: A list of dicts, or the result of a task that returns one.

        Raises:
            DagDefinitionError: As `expand`.
        """
        return self._map(Rows(rows))

    @abstractmethod
    def _map(self, expansion: Expansion) -> XComArg:
        """Make the mapped task."""
