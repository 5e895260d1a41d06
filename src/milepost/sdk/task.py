"""``@task``: a function as a task."""

from __future__ import annotations

from functools import update_wrapper
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, overload

from milepost.sdk.building import place
from milepost.sdk.calling import awaited, call, check_call, returns_dict
from milepost.sdk.errors import DagDefinitionError, reject_unknown
from milepost.sdk.expansion import Expansion, Mappable
from milepost.sdk.location import Location, call_site
from milepost.sdk.mapped import MappedTask
from milepost.sdk.operator import BaseOperator, operator_arguments, refuse_template
from milepost.sdk.options import options_of
from milepost.sdk.references import XComArg

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from milepost.sdk.context import Context

__all__ = ["FunctionOperator", "TaskFunction", "task"]


class FunctionOperator(BaseOperator):
    """The operator behind ``@task``.

    Args:
        function: The task's function.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        arguments: As for `BaseOperator`.
    """

    def __init__(
        self,
        *,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        **arguments: Any,
    ) -> None:
        super().__init__(**arguments)
        self.function = function
        self.args = list(args)
        self.kwargs = dict(kwargs)
        self.milepost_options = options_of(function)

    def execute(self, context: Context) -> Any:
        """Call the function."""
        return call(self.function, self.args, self.kwargs, context)


class TaskFunction(Mappable):
    """A function under ``@task``: calling it in a DAG makes a task.

    Args:
        function: The function.
        arguments: The arguments of the task.
        shared: Arguments of the function that all mapped instances share (``partial``).

    .. versionadded:: 0.1
    """

    is_task_function: ClassVar[bool] = True

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Mapping[str, Any],
        shared: Mapping[str, Any] | None = None,
    ) -> None:
        self.function = function
        self._arguments = dict(arguments)
        self._shared = dict(shared or {})
        update_wrapper(self, function)

    def run(self, args: Sequence[Any], kwargs: Mapping[str, Any], context: Context) -> Any:
        """Do what an instance of the task does, outside of any DAG.

        Args:
            args: The positional arguments of the function.
            kwargs: The same by name.
            context: The context.

        Returns:
            What the function returned.
        """
        return awaited(call(self.function, args, {**self._shared, **kwargs}, context))

    @property
    def _name(self) -> str:
        return str(self._arguments.get("task_id") or self.function.__name__)

    def _task_arguments(self) -> dict[str, Any]:
        arguments = dict(self._arguments)
        if arguments.get("multiple_outputs") is None:
            # Not False: `default_args` may still say otherwise.
            arguments["multiple_outputs"] = returns_dict(self.function) or None
        return arguments

    def __call__(self, *args: Any, **kwargs: Any) -> XComArg:
        """Make a task of this function.

        Args:
            args: Arguments of the function; results of other tasks may be among them.
            kwargs: The same by name.

        Returns:
            The task's result, to be passed on.

        Raises:
            DagDefinitionError: The arguments do not fit the function, or there is no DAG.
        """
        where = call_site()
        if self._shared:
            raise DagDefinitionError(f"task {self._name!r}: after partial() comes expand() or expand_kwargs()", where)
        check_call(self.function, args, kwargs, self._name, where)
        refuse_template([*args, kwargs], f"an argument of task {self._name!r}", where)
        arguments = self._task_arguments()
        dag, group, _ = place(arguments, where)
        # Airflow numbers the calls of one function; an id can only be given once to an operator class.
        arguments["task_id"] = dag.free_id(self._name, group.prefix if group else "")
        return XComArg(FunctionOperator(function=self.function, args=args, kwargs=kwargs, **arguments))

    def partial(self, **kwargs: Any) -> TaskFunction:
        """Give the arguments that all mapped instances share; `expand` gives the others."""
        check_call(self.function, (), kwargs, self._name, call_site(), complete=False)
        return TaskFunction(self.function, self._arguments, {**self._shared, **kwargs})

    def override(self, **arguments: Any) -> TaskFunction:
        """Return the same function with other arguments of the task.

        Raises:
            DagDefinitionError: An argument is unknown.
        """
        reject_unknown("@task", arguments, operator_arguments())
        return TaskFunction(self.function, {**self._arguments, **arguments}, self._shared)

    def _map(self, expansion: Expansion) -> XComArg:
        where = call_site()
        for names in expansion.names():
            for name in names:
                if name in self._shared:
                    raise DagDefinitionError(f"task {self._name!r}: {name!r} is given to partial() and mapped as well")
            check_call(self.function, (), {*self._shared, *names}, self._name, where)
        refuse_template([self._shared, expansion.given()], f"an argument of task {self._name!r}", where)
        made = MappedTask(self._make, expansion, self._shared, options_of(self.function), where)
        made.join({**self._task_arguments(), "task_id": None}, self._name, {})
        return XComArg(made)

    def _make(self, task: MappedTask, mapped: dict[str, Any]) -> BaseOperator:
        for name in mapped:
            if name in self._shared:
                raise TypeError(f"task {task.task_id!r}: {name!r} is given to partial() and mapped as well")
        return FunctionOperator(function=self.function, args=(), kwargs={**self._shared, **mapped}, task_id=task.task_id)


class _TaskDecorator:
    """The type of `task`."""

    @overload
    def __call__(self, function: Callable[..., Any], /) -> TaskFunction: ...
    @overload
    def __call__(self, **arguments: Any) -> Callable[[Callable[..., Any]], TaskFunction]: ...
    def __call__(  # type: ignore[misc] # an argument of that name is in `arguments`
        self, function: Callable[..., Any] | None = None, /, **arguments: Any
    ) -> TaskFunction | Callable[[Callable[..., Any]], TaskFunction]:
        """Make a function, plain or ``async``, into a task.

        Args:
            function: The function, where the decorator has no parentheses.
            arguments: As for `BaseOperator`; ``task_id`` is by default the function's name.

        Raises:
            DagDefinitionError: An argument is unknown; the message names the line.
        """
        where = call_site()
        reject_unknown("@task", arguments, operator_arguments(), where)
        if function is None:
            return lambda target: self._decorate(target, arguments, where)
        return self._decorate(function, arguments, where)

    def _decorate(self, function: Any, arguments: Mapping[str, Any], where: Location) -> TaskFunction:
        if not callable(function) or isinstance(function, (type, TaskFunction)):
            raise DagDefinitionError(f"@task goes on a function, not on {function!r}", where)
        if not hasattr(function, "__name__"):
            raise DagDefinitionError(
                f"@task goes on a function, and {function!r} has no name; write a function that calls it", where
            )
        return TaskFunction(function, arguments)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise DagDefinitionError(f"@task.{name} is not part of Milepost's local runner; use @task")


task = _TaskDecorator()
