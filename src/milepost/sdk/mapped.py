"""Tasks that are mapped over lists: ``partial``, ``expand``, ``expand_kwargs``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from milepost.sdk.building import detached, place, prefixed
from milepost.sdk.errors import DagDefinitionError, reject_unknown
from milepost.sdk.expansion import Expansion, Mappable
from milepost.sdk.location import Location, call_site
from milepost.sdk.node import Task, link_sources
from milepost.sdk.operator import (
    BaseOperator,
    accepted_arguments,
    operator_arguments,
    refuse_templates,
)
from milepost.sdk.options import Options, options_of
from milepost.sdk.references import XComArg
from milepost.sdk.settings import TASK_ARGUMENTS, read_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["MappedTask", "Partial"]


class MappedTask(Task):
    """A task of which there is one instance for each item.

    Args:
        make: Makes the operator of one instance from its mapped arguments.
        expansion: What it is mapped over.
        shared: The arguments that all instances share, for finding references in them.
        options: Milepost's options.
        where: The line of the call.
    """

    is_mapped: ClassVar[bool] = True

    def __init__(
        self,
        make: Callable[[MappedTask, dict[str, Any]], BaseOperator],
        expansion: Expansion,
        shared: Any,
        options: Options,
        where: Location,
    ) -> None:
        self._make = make
        self.expansion = expansion
        self._shared = shared
        self.milepost_options = options
        self.defined_at = where

    def join(self, arguments: Mapping[str, Any], default_id: str | None, defaults_known: Mapping[str, Any]) -> None:
        """Take a place in the DAG.

        Args:
            arguments: The arguments of the call.
            default_id: The id if the arguments give none; a number is appended where it is taken.
            defaults_known: What ``default_args`` may hold beside the usual.
        """
        self.dag, self.task_group, defaults = place(arguments, self.defined_at)
        self.dag.known_defaults.update(defaults_known)
        task_id = arguments.get("task_id")
        if task_id is None and default_id is not None:
            task_id = self.dag.free_id(default_id, self.task_group.prefix if self.task_group else "")
        self.task_id = prefixed(task_id, self.task_group, self.defined_at)
        self._settle(read_settings(arguments, defaults, self.task_id, self.defined_at))
        self.defaults = defaults
        self.dag.add_task(self)
        link_sources(self)

    def _reference_values(self) -> list[Any]:
        """Return the shared arguments and what it is mapped over."""
        return [self._shared, self.expansion.given()]

    def unmap(self, mapped: dict[str, Any]) -> BaseOperator:
        """Return the operator of one instance.

        Args:
            mapped: Its mapped arguments.
        """
        with detached(self.dag, self.defined_at):
            operator = self._make(self, mapped)
        operator._settle(self._settings)
        operator.upstream_task_ids, operator.downstream_task_ids = (
            self.upstream_task_ids,
            self.downstream_task_ids,
        )
        return operator


class Partial(Mappable):
    """An operator class with the arguments that all mapped instances share.

    Args:
        operator_class: The class.
        arguments: The shared arguments.
        where: The line of ``partial``.

    .. versionadded:: 0.1
    """

    def __init__(self, operator_class: type[BaseOperator], arguments: Mapping[str, Any], where: Location) -> None:
        self.operator_class = operator_class
        self.arguments = dict(arguments)
        self.where = where
        self._extra = accepted_arguments(operator_class)
        known = operator_arguments() | set(self._extra)
        reject_unknown(f"{operator_class.__name__}.partial()", arguments, known, where)

    def _map(self, expansion: Expansion) -> XComArg:
        name, where = self.operator_class.__name__, call_site()
        for names in expansion.names():
            self._check_names(names)
        if self.operator_class.execute is BaseOperator.execute:
            raise DagDefinitionError(f"operator {name} has no execute()", where)
        task_id = str(self.arguments.get("task_id"))
        for values in (self.arguments, _first(expansion)):
            refuse_templates(self.operator_class, values, task_id, where)
        shared = {key: value for key, value in self.arguments.items() if key in self._extra}
        task = MappedTask(self._make, expansion, shared, options_of(self.operator_class), where)
        if "task_id" not in self.arguments:
            raise DagDefinitionError(f"{name}.partial() needs a task_id", where)
        task.join(self.arguments, None, self._extra)
        return XComArg(task)

    def _check_names(self, names: tuple[str, ...]) -> None:
        owner = self.operator_class.__name__
        for name in names:
            if name in self.arguments:
                raise DagDefinitionError(f"{owner}: {name!r} is given to partial() and mapped as well")
            if name in TASK_ARGUMENTS or name in operator_arguments():
                raise DagDefinitionError(f"{owner}: {name!r} is the same for all instances; give it to partial()")
        reject_unknown(f"{owner}.expand()", names, self._extra)
        for name, parameter in self._extra.items():
            if parameter.default is parameter.empty and name not in names and name not in self.arguments:
                raise DagDefinitionError(f"{owner}: the argument {name!r} is missing")

    def _make(self, task: MappedTask, mapped: dict[str, Any]) -> BaseOperator:
        arguments = {name: value for name, value in self.arguments.items() if name in self._extra}
        for name in mapped:
            if name in arguments or name not in self._extra:
                raise TypeError(f"task {task.task_id!r} cannot be mapped over {name!r}")
        defaults = {name: task.defaults[name] for name in self._extra if name in task.defaults}
        return self.operator_class(task_id=task.task_id, **{**defaults, **arguments, **mapped})


def _first(expansion: Expansion) -> dict[str, Any]:
    """Return the lists of an ``expand``, by name, where a template could stand."""
    given = expansion.given()
    return dict(given) if isinstance(given, dict) else {}
