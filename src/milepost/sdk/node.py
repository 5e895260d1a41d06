"""What every task of a DAG is, mapped or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from milepost.sdk.linking import Linkable
from milepost.sdk.references import XComArg, find_references

if TYPE_CHECKING:
    from datetime import timedelta

    from milepost.sdk.dag import DAG
    from milepost.sdk.group import TaskGroup
    from milepost.sdk.location import Location
    from milepost.sdk.options import Options
    from milepost.sdk.rules import TriggerRule
    from milepost.sdk.settings import TaskSettings

__all__ = ["Task", "link_sources", "sources_of"]


class Task(Linkable):
    """A task as it stands in a DAG.

    .. versionadded:: 0.1
    """

    is_mapped: ClassVar[bool] = False

    task_id: str
    dag: DAG
    task_group: TaskGroup | None
    defined_at: Location
    milepost_options: Options
    retries: int
    retry_delay: timedelta
    execution_timeout: timedelta | None
    trigger_rule: TriggerRule
    inlets: list[Any]
    outlets: list[Any]
    params: dict[str, Any]
    multiple_outputs: bool
    _settings: TaskSettings
    # Dicts as ordered sets: the order of the file is the order in which tasks run.
    upstream_task_ids: dict[str, None]
    downstream_task_ids: dict[str, None]

    def _settle(self, settings: TaskSettings) -> None:
        """Take over the settings, and begin without neighbours."""
        self._settings = settings
        self.retries = settings.retries
        self.retry_delay = settings.retry_delay
        self.execution_timeout = settings.execution_timeout
        self.trigger_rule = settings.trigger_rule
        self.inlets = list(settings.inlets)
        self.outlets = list(settings.outlets)
        self.params = dict(settings.params or {})
        self.multiple_outputs = settings.multiple_outputs
        self.upstream_task_ids = {}
        self.downstream_task_ids = {}

    def _reference_values(self) -> list[Any]:
        """Return the values in which references to other tasks may stand."""
        raise NotImplementedError

    @property
    def output(self) -> XComArg:
        """The task's result."""
        return XComArg(self)

    @property
    def dag_id(self) -> str:
        """The id of the DAG."""
        return self.dag.dag_id

    def roots(self) -> list[Task]:
        """Return this task."""
        return [self]

    def leaves(self) -> list[Task]:
        """Return this task."""
        return [self]

    def __repr__(self) -> str:
        return f"<task {self.task_id!r} of DAG {self.dag.dag_id!r}>"


# Functions, not methods: an operator is its author's class, where `sources` is a likely name.


def sources_of(task: Task) -> list[Task]:
    """Return the tasks whose results a task takes, each once."""
    tasks: dict[int, Task] = {}
    for found in find_references(task._reference_values()):
        if isinstance(found, XComArg):
            tasks.setdefault(id(found.operator), found.operator)
    return list(tasks.values())


def link_sources(task: Task) -> None:
    """Put the tasks whose results a task takes before it."""
    for source in sources_of(task):
        task.set_upstream(source)
