"""`DAG` and ``@dag``."""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, overload

from milepost.sdk.building import checked_id, enter_dag, leave_dag
from milepost.sdk.errors import DagDefinitionError, reject_unknown
from milepost.sdk.location import Location, call_site
from milepost.sdk.references import DagParam
from milepost.sdk.settings import SCHEDULER_ONLY, TASK_ARGUMENTS, check_params

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    from milepost.sdk.group import TaskGroup
    from milepost.sdk.node import Task

__all__ = ["DAG", "DagFactory", "collecting", "dag"]

_collectors: list[list[DAG]] = []


@contextmanager
def collecting() -> Iterator[list[DAG]]:
    """Gather the DAGs that are made inside the block, in the order of their making."""
    found: list[DAG] = []
    _collectors.append(found)
    try:
        yield found
    finally:
        _collectors.pop()


class DAG:
    """A directed acyclic graph of tasks.

    Args:
        dag_id: Its id, of at most 250 characters.
        default_args: Defaults for the arguments of its tasks.
        params: Parameters of its runs with their defaults.
        others: Arguments that only a scheduler reads (see `milepost.sdk.settings.SCHEDULER_ONLY`).

    Raises:
        DagDefinitionError: An argument is unknown or not what it takes; the message names the line.

    .. versionadded:: 0.1
    """

    def __init__(
        self,
        dag_id: str,
        *,
        default_args: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> None:
        self.where: Location = call_site()
        reject_unknown("DAG", others, SCHEDULER_ONLY | {"dag_id", "default_args", "params"}, self.where)
        self.dag_id = checked_id(dag_id, "dag_id", self.where)
        self.default_args = self._mapping("default_args", default_args)
        self.params = self._mapping("params", params)
        self.schedule = others.get("schedule")
        self.task_dict: dict[str, Task] = {}
        self.groups: dict[str, TaskGroup] = {}
        # What the tasks' classes take beyond the usual arguments; `check` compares `default_args` with it.
        self.known_defaults: set[str] = set()
        self._open_groups: list[TaskGroup | None] = []
        if _collectors:
            _collectors[-1].append(self)

    def _mapping(self, name: str, value: Any) -> dict[str, Any]:
        try:
            return check_params(value or {})
        except ValueError as error:
            raise DagDefinitionError(f"{name} of DAG {self.dag_id!r} takes {error}, not {value!r}", self.where) from None

    @property
    def tasks(self) -> list[Task]:
        """The tasks, in the order of the file."""
        return list(self.task_dict.values())

    @property
    def task_ids(self) -> list[str]:
        """The ids of the tasks, in the order of the file."""
        return list(self.task_dict)

    def get_task(self, task_id: str) -> Task:
        """Return a task by its id.

        Raises:
            KeyError: There is none.
        """
        return self.task_dict[task_id]

    def param(self, name: str, default: Any = None) -> DagParam:
        """Return a reference to a parameter of the run."""
        return DagParam(name, default)

    def free_id(self, task_id: str, prefix: str) -> str:
        """Return the id itself, or the first of ``id__1``, ``id__2``, … that is free under the prefix."""
        candidate, number = task_id, 0
        while prefix + candidate in self.task_dict:
            number += 1
            candidate = f"{task_id}__{number}"
        return candidate

    def add_task(self, task: Task) -> None:
        """Give a task its place.

        Raises:
            DagDefinitionError: The id is taken.
        """
        other = self.task_dict.get(task.task_id)
        if other is not None:
            raise DagDefinitionError(f"task id {task.task_id!r} is taken already, at {other.defined_at}", task.defined_at)
        self.task_dict[task.task_id] = task

    def add_group(self, group: TaskGroup) -> None:
        """Give a group its place.

        Raises:
            DagDefinitionError: The id is taken.
        """
        other = self.groups.get(group.group_id)
        if other is not None:
            raise DagDefinitionError(f"group id {group.group_id!r} is taken already, at {other.where}", group.where)
        self.groups[group.group_id] = group

    @property
    def open_group(self) -> TaskGroup | None:
        """The group whose ``with`` block is the innermost."""
        return self._open_groups[-1] if self._open_groups else None

    def enter_group(self, group: TaskGroup | None) -> None:
        """Begin a ``with`` block of a group."""
        self._open_groups.append(group)

    def leave_group(self) -> None:
        """End the innermost ``with`` block of a group."""
        self._open_groups.pop()

    def __enter__(self) -> DAG:
        enter_dag(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        leave_dag()

    def ordered(self) -> list[Task]:
        """Return the tasks so that each comes after those before it; otherwise in the file's order.

        Raises:
            DagDefinitionError: The tasks go round in a circle; the message names them.
        """
        done: dict[str, Task] = {}
        for task in self.task_dict.values():
            self._visit(task, done)
        return list(done.values())

    def _visit(self, start: Task, done: dict[str, Task]) -> None:
        # Not by recursion: a chain may be longer than Python's stack.
        path: dict[str, Iterator[str]] = {}
        todo = [start.task_id] if start.task_id not in done else []
        while todo:
            task_id = todo[-1]
            above = path.setdefault(task_id, iter(self.task_dict[task_id].upstream_task_ids))
            following = next((name for name in above if name not in done), None)
            if following is None:
                done[task_id] = self.task_dict[task_id]
                todo.pop()
                del path[task_id]
            elif following in path:
                circle = [*todo[todo.index(following) :], following]
                names = " >> ".join(reversed(circle))
                raise DagDefinitionError(f"DAG {self.dag_id!r} goes round in a circle: {names}", self.where)
            else:
                todo.append(following)

    def check(self) -> None:
        """Check what only the whole DAG shows.

        Raises:
            DagDefinitionError: A circle, or a default that no task takes.
        """
        self.ordered()
        known = TASK_ARGUMENTS | self.known_defaults
        reject_unknown(f"default_args of DAG {self.dag_id!r}", self.default_args, known, self.where)
        for group in self.groups.values():
            reject_unknown(f"default_args of group {group.group_id!r}", group.default_args, known, group.where)

    def __repr__(self) -> str:
        return f"<DAG {self.dag_id!r}>"


class DagFactory:
    """A function under ``@dag``: calling it makes the DAG.

    Args:
        function: Makes the tasks. Its arguments become parameters of the run.
        arguments: The arguments for `DAG`.
        where: The line of the decorator.
    """

    def __init__(self, function: Callable[..., Any], arguments: Mapping[str, Any], where: Location) -> None:
        self.function = function
        self.arguments = dict(arguments)
        self.where = where
        self.called = False
        update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> DAG:
        """Make the DAG.

        Args:
            args: Values for the function's parameters: the defaults of the run's parameters.
            kwargs: The same by name.

        Raises:
            DagDefinitionError: An argument does not fit the function.
        """
        self.called = True
        signature = inspect.signature(self.function)
        for parameter in signature.parameters.values():
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise DagDefinitionError(f"@dag function {self.function.__name__} may not take {parameter}", self.where)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise DagDefinitionError(f"@dag function {self.function.__name__}: {error}") from None
        bound.apply_defaults()
        arguments = {"dag_id": self.function.__name__, **self.arguments}
        made = DAG(**arguments)
        # The decorator's line says more than the line of the call.
        made.where = self.where
        made.params = {**bound.arguments, **made.params}
        with made:
            self.function(**{name: made.param(name, value) for name, value in bound.arguments.items()})
        return made


@overload
def dag(dag_id: Callable[..., Any], /) -> DagFactory: ...
@overload
def dag(dag_id: str | None = None, **arguments: Any) -> Callable[[Callable[..., Any]], DagFactory]: ...
def dag(
    dag_id: Callable[..., Any] | str | None = None, **arguments: Any
) -> DagFactory | Callable[[Callable[..., Any]], DagFactory]:
    """Make a function into one that makes a DAG; the function has to be called in the file.

    Args:
        dag_id: The id; by default the function's name.
        arguments: As for `DAG`.

    Raises:
        DagDefinitionError: An argument is unknown; the message names the line.

    .. versionadded:: 0.1
    """
    where = call_site()
    if dag_id is not None and not isinstance(dag_id, str):
        return DagFactory(dag_id, {}, where)
    reject_unknown("@dag", arguments, SCHEDULER_ONLY | {"dag_id", "default_args", "params"}, where)
    if dag_id is not None:
        arguments["dag_id"] = dag_id
    return lambda function: DagFactory(function, arguments, where)
