"""`BaseOperator`: a task written as a class."""

from __future__ import annotations

import inspect
from abc import ABCMeta
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

from milepost.sdk.building import current_build, place, prefixed
from milepost.sdk.calling import awaited
from milepost.sdk.errors import DagDefinitionError, reject_unknown
from milepost.sdk.exceptions import AirflowFailException
from milepost.sdk.location import call_site
from milepost.sdk.node import Task, link_sources
from milepost.sdk.options import options_of
from milepost.sdk.references import RunView, resolve
from milepost.sdk.settings import TASK_ARGUMENTS, read_settings

if TYPE_CHECKING:
    import logging
    from collections.abc import Mapping
    from datetime import timedelta

    from milepost.sdk.context import Context
    from milepost.sdk.dag import DAG
    from milepost.sdk.group import TaskGroup
    from milepost.sdk.location import Location
    from milepost.sdk.mapped import Partial
    from milepost.sdk.rules import TriggerRule

__all__ = [
    "BaseOperator",
    "OperatorMeta",
    "accepted_arguments",
    "execute",
    "operator_arguments",
    "refuse_template",
    "refuse_templates",
    "resolve_references",
]

T = TypeVar("T")
Op = TypeVar("Op", bound="BaseOperator")
_Placed = tuple["DAG", "TaskGroup | None", dict[str, Any]]

_OWN_ARGUMENTS = frozenset({"task_id", "dag", "task_group", "default_args"})


def operator_arguments() -> frozenset[str]:
    """Return the names that `BaseOperator` itself takes."""
    return TASK_ARGUMENTS | _OWN_ARGUMENTS


def accepted_arguments(cls: type) -> dict[str, inspect.Parameter]:
    """Return the arguments that an operator class adds to those of `BaseOperator`.

    Classes up the inheritance count as long as each passes on what it does not know (``**kwargs``).
    """
    found: dict[str, inspect.Parameter] = {}
    for base in cls.__mro__:
        if base is BaseOperator:
            break
        init = base.__dict__.get("__init__")
        if init is None:
            continue
        parameters = list(inspect.signature(init).parameters.values())[1:]
        for parameter in parameters:
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                found.setdefault(parameter.name, parameter)
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            break
    return found


class OperatorMeta(ABCMeta):
    """Gives each operator its line, its ``default_args`` and its place in the DAG."""

    def __call__(cls: type[T], *args: Any, **kwargs: Any) -> T:
        """Make an operator; inside `milepost.sdk.building.detached`, one that stands in no DAG."""
        if not issubclass(cls, BaseOperator):  # pragma: no cover - the metaclass belongs to that class alone
            raise TypeError(f"{cls.__name__} is no operator")
        extra = accepted_arguments(cls)
        build = current_build()
        if build is not None:
            return _construct(cls, args, kwargs, build.where, (build.dag, None, {}))
        where = call_site()
        dag, group, defaults = place(kwargs, where)
        reject_unknown("default_args", kwargs.get("default_args") or {}, TASK_ARGUMENTS | set(extra), where)
        filled = list(inspect.signature(cls.__init__).parameters)[1 : len(args) + 1]
        inherited = {name: defaults[name] for name in extra if name in defaults and name not in filled}
        task = _construct(cls, args, {**inherited, **kwargs}, where, (dag, group, defaults))
        task._check()
        dag.known_defaults.update(extra)
        dag.add_task(task)
        link_sources(task)
        return task


def _construct(cls: type[Op], args: tuple[Any, ...], kwargs: dict[str, Any], where: Location, placed: _Placed) -> Op:
    task = cls.__new__(cls)
    # Before __init__, which needs both.
    task.defined_at = where
    task._placed = placed
    task.__init__(*args, **kwargs)  # type: ignore[misc] # what `type.__call__` does
    if not hasattr(task, "task_id"):
        raise DagDefinitionError(f"{cls.__name__}.__init__ does not call super().__init__(**kwargs)", where)
    return task


class BaseOperator(Task, metaclass=OperatorMeta):
    """A task written as a class with `execute`.

    Args:
        task_id: The task's id in its DAG, of at most 250 characters.
        retries: How often it is tried again after a failed attempt; default 0.
        retry_delay: The wait before each retry, a `timedelta` or seconds; default none.
        execution_timeout: How long an attempt may run, a `timedelta` or seconds.
        trigger_rule: When it runs, in terms of the tasks directly before it; default ``all_success``.
        inlets: Assets that it reads.
        outlets: Assets that it writes.
        params: Parameters of this task, over those of the DAG.
        multiple_outputs: Whether it returns a dict whose items other tasks take one by one.
        default_args: Defaults for this task, over those of its DAG and group.
        dag: The DAG; by default the one whose ``with`` block this is in.
        task_group: The group; by default the one whose ``with`` block this is in.
        others: Arguments that only a scheduler reads (see `milepost.sdk.settings.SCHEDULER_ONLY`).

    Raises:
        DagDefinitionError: An argument is unknown or not what it takes; the message names the line.

    .. versionadded:: 0.1
    """

    template_fields: ClassVar[tuple[str, ...] | list[str] | str] = ()
    template_ext: ClassVar[tuple[str, ...] | list[str]] = ()

    _placed: _Placed

    def __init__(
        self,
        *,
        task_id: str,
        retries: int | None = None,
        retry_delay: timedelta | float | None = None,
        execution_timeout: timedelta | float | None = None,
        trigger_rule: TriggerRule | str | None = None,
        inlets: Any = None,
        outlets: Any = None,
        params: Mapping[str, Any] | None = None,
        multiple_outputs: bool | None = None,
        default_args: Mapping[str, Any] | None = None,  # noqa: ARG002 - read before __init__ runs; so are the next two
        dag: DAG | None = None,  # noqa: ARG002
        task_group: TaskGroup | None = None,  # noqa: ARG002
        **others: Any,
    ) -> None:
        reject_unknown(
            type(self).__name__,
            others,
            operator_arguments() | set(accepted_arguments(type(self))),
            self.defined_at,
        )
        self.dag, self.task_group, defaults = self._placed
        self.task_id = prefixed(task_id, self.task_group, self.defined_at)
        given = {
            "retries": retries,
            "retry_delay": retry_delay,
            "execution_timeout": execution_timeout,
            "trigger_rule": trigger_rule,
            "inlets": inlets,
            "outlets": outlets,
            "params": params,
            "multiple_outputs": multiple_outputs,
        }
        self._settle(read_settings(given, defaults, task_id, self.defined_at))
        self.milepost_options = options_of(type(self))

    def execute(self, context: Context) -> Any:
        """Do the work; subclasses define it.

        Args:
            context: What the task knows about its run; the stores are in it.

        Returns:
            The task's result, or `None`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no execute(context)")

    def pre_execute(self, context: Context) -> None:
        """Run right before `execute`."""

    def post_execute(self, context: Context, result: Any = None) -> None:
        """Run right after `execute` returned."""

    def on_kill(self) -> None:
        """Run when the attempt is told to stop: by its time-out, or because the runner is stopped."""

    def defer(self, **_: Any) -> NoReturn:
        """Refuse: in Airflow this frees the worker until a trigger fires, and the local runner has no triggerer.

        Raises:
            AirflowFailException: Always; the attempt fails at once and is not retried.
        """
        raise AirflowFailException(
            f"task {self.task_id!r} calls defer(), and deferrable operators are not supported by Milepost's local runner; "
            "wait inside execute(), or take the operator's variant that does not defer"
        )

    @property
    def log(self) -> logging.Logger:
        """A logger named after the class."""
        import logging

        return logging.getLogger(f"{type(self).__module__}.{type(self).__qualname__}")

    @classmethod
    def partial(cls, **kwargs: Any) -> Partial:
        """Give the arguments that all mapped instances share; `Partial.expand` gives the others."""
        from milepost.sdk.mapped import Partial

        return Partial(cls, kwargs, call_site())

    def _reference_values(self) -> list[Any]:
        """Return the attributes in which references to other tasks may stand."""
        return [value for name, value in vars(self).items() if name not in _STRUCTURE]

    def _check(self) -> None:
        """Refuse what would go wrong in silence.

        Raises:
            DagDefinitionError: There is no `execute`, or a template that nothing would render.
        """
        kind = type(self)
        if kind.execute is BaseOperator.execute:
            raise DagDefinitionError(f"operator {kind.__name__} of task {self.task_id!r} has no execute()", self.defined_at)
        if getattr(kind, "start_from_trigger", False):
            raise DagDefinitionError(
                f"task {self.task_id!r}: {kind.__name__} has start_from_trigger, and the local runner has no triggerer",
                self.defined_at,
            )
        refuse_templates(kind, vars(self), self.task_id, self.defined_at)


_STRUCTURE = frozenset({"dag", "task_group", "_placed", "defined_at", "milepost_options"})


def refuse_templates(cls: type[BaseOperator], values: Mapping[str, Any], task_id: str, where: Location) -> None:
    """Refuse what Airflow would render, or replace by a file, before the task runs.

    Args:
        cls: The operator class; its ``template_fields`` and ``template_ext`` say what that is.
        values: The fields by name.
        task_id: The task's id, for messages.
        where: The line, for messages.

    Raises:
        DagDefinitionError: A field holds a template.
    """
    fields = (cls.template_fields,) if isinstance(cls.template_fields, str) else cls.template_fields
    for name in fields:
        refuse_template(values.get(name), f"{name!r} of task {task_id!r}", where, tuple(cls.template_ext))


def refuse_template(value: Any, what: str, where: Location, endings: tuple[str, ...] = ()) -> None:
    """Refuse a value that Airflow would render as a template.

    Args:
        value: Texts in it, also in containers, are looked at.
        what: What it is, for messages.
        where: The line, for messages.
        endings: Endings of texts that name template files.

    Raises:
        DagDefinitionError: There is a template in it.
    """
    if isinstance(value, str):
        if "{{" in value or "{%" in value or (endings and value.endswith(endings)):
            raise DagDefinitionError(
                f"{what} holds a template, {value!r}, and the local runner renders none; "
                "take the value from the context in the task",
                where,
            )
    elif isinstance(value, dict):
        refuse_template(list(value.values()), what, where, endings)
    elif isinstance(value, (list, tuple, set)):
        for part in value:
            refuse_template(part, what, where, endings)


def execute(operator: BaseOperator, context: Context) -> Any:
    """Run an operator with what goes before and after it, and return its result."""
    operator.pre_execute(context)
    result = awaited(operator.execute(context))
    operator.post_execute(context, result)
    return result


def resolve_references(operator: BaseOperator, view: RunView) -> None:
    """Put values in place of the references in an operator's attributes.

    Args:
        operator: The operator, in the process that will run it.
        view: The run.
    """
    for name, value in list(vars(operator).items()):
        if name not in _STRUCTURE:
            resolved = resolve(value, view)
            if resolved is not value:
                setattr(operator, name, resolved)
