"""Values that are known only when a run is under way: results of tasks, parameters of the run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from milepost.sdk.errors import DagDefinitionError
from milepost.sdk.linking import Linkable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from milepost.sdk.node import Task

__all__ = ["DagParam", "Reference", "RunView", "XComArg", "find_references", "resolve"]


class RunView(Protocol):
    """What a reference is resolved against."""

    def result(self, task: Task) -> Any:
        """Return what a task returned, a list by map index if it is mapped; `None` if it has no result."""
        ...

    def param(self, name: str, default: Any) -> Any:
        """Return a parameter of the run."""
        ...


class Reference(ABC):
    """A value that is known only in a run."""

    __slots__ = ()

    @abstractmethod
    def resolve(self, view: RunView) -> Any:
        """Return the value in that run."""

    def __str__(self) -> NoReturn:
        # Airflow makes a template of it, which Milepost would not render: wrong in silence.
        raise DagDefinitionError(f"{self!r} has no text while the file is loaded; pass it to a task as it is")

    def __format__(self, spec: str) -> str:
        return str(self)


class XComArg(Reference, Linkable):
    """The result of a task, to be passed to other tasks.

    Args:
        operator: The task.
        key: One item of the dict that a task with ``multiple_outputs`` returns; `None` is the whole.

    .. versionadded:: 0.1
    """

    __slots__ = ("key", "operator")

    def __init__(self, operator: Task, key: str | None = None) -> None:
        self.operator = operator
        self.key = key

    def __getitem__(self, key: str) -> XComArg:
        task = self.operator
        if self.key is not None:
            raise DagDefinitionError(f"{self!r} cannot be taken apart further; return its parts from the task")
        if not isinstance(key, str):
            raise DagDefinitionError(f"the result of task {task.task_id!r} takes a str in brackets, not {key!r}")
        if not task.multiple_outputs:
            raise DagDefinitionError(
                f"task {task.task_id!r} has no multiple_outputs=True, so its result has no item {key!r}"
            )
        return XComArg(task, key)

    def __iter__(self) -> NoReturn:
        raise DagDefinitionError(f"{self!r} is not known yet; use expand() to go through it")

    def resolve(self, view: RunView) -> Any:
        """Return the task's result in that run, or the item of it."""
        value = view.result(self.operator)
        if self.key is None or value is None:
            return value
        if self.operator.is_mapped:
            return [None if part is None else part[self.key] for part in value]
        return value[self.key]

    def roots(self) -> list[Task]:
        """Return the task."""
        return [self.operator]

    def leaves(self) -> list[Task]:
        """Return the task."""
        return [self.operator]

    def __repr__(self) -> str:
        item = "" if self.key is None else f"[{self.key!r}]"
        return f"<the result of task {self.operator.task_id!r}{item}>"


class DagParam(Reference):
    """A parameter of the run; what the arguments of a function under ``@dag`` are.

    Args:
        name: Its name.
        default: The value where the run gives none.

    .. versionadded:: 0.1
    """

    __slots__ = ("default", "name")

    def __init__(self, name: str, default: Any) -> None:
        self.name = name
        self.default = default

    def __iter__(self) -> NoReturn:
        raise DagDefinitionError(f"{self!r} is not known while the file is loaded")

    def resolve(self, view: RunView) -> Any:
        """Return the parameter's value in that run."""
        return view.param(self.name, self.default)

    def __repr__(self) -> str:
        return f"<the parameter {self.name!r}>"


def find_references(value: Any) -> Iterator[Reference]:
    """Go through all references in a value, inside dicts, lists, tuples and sets.

    Raises:
        DagDefinitionError: One hides in a container that `resolve` cannot build anew.
    """
    if isinstance(value, Reference):
        yield value
        return
    if isinstance(value, dict):
        parts: Any = value.values()
    elif isinstance(value, (list, tuple, set, frozenset)):
        parts = value
    else:
        return
    for part in parts:
        for found in find_references(part):
            if type(value) not in (dict, list, tuple, set):
                raise DagDefinitionError(f"{found!r} stands in a {type(value).__name__}; use a list or a dict")
            yield found


def resolve(value: Any, view: RunView) -> Any:
    """Return a value with every reference in it replaced; what holds none is returned as it is."""
    if isinstance(value, Reference):
        return value.resolve(view)
    kind = type(value)
    if kind not in (dict, list, tuple, set) or next(find_references(value), None) is None:
        return value
    if kind is dict:
        return {key: resolve(part, view) for key, part in value.items()}
    return kind(resolve(part, view) for part in value)
