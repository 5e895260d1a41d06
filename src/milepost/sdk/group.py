"""Task groups: a prefix for the ids of the tasks in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from milepost.sdk.building import checked_id, current_dag
from milepost.sdk.errors import DagDefinitionError, reject_unknown
from milepost.sdk.linking import Linkable
from milepost.sdk.location import Location, call_site

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from milepost.sdk.dag import DAG
    from milepost.sdk.node import Task

__all__ = ["TaskGroup"]


class TaskGroup(Linkable):
    """Tasks under a common prefix: the task ``t`` in the group ``g`` has the id ``g.t``.

    Args:
        group_id: The group's id.
        prefix_group_id: Whether the ids of its tasks get the prefix.
        default_args: Defaults for the tasks in it, over those of the DAG.
        dag: The DAG; by default the one whose ``with`` block this is in.
        parent_group: The group around it; by default the one whose ``with`` block this is in.
        unknown: Nothing else is known.

    Raises:
        DagDefinitionError: An argument is unknown, the id is taken, or there is no DAG.

    .. versionadded:: 0.1
    """

    def __init__(
        self,
        group_id: str,
        *,
        prefix_group_id: bool = True,
        default_args: Mapping[str, Any] | None = None,
        dag: DAG | None = None,
        parent_group: TaskGroup | None = None,
        **unknown: Any,
    ) -> None:
        reject_unknown("TaskGroup", unknown, ("group_id", "prefix_group_id", "default_args", "dag", "parent_group"))
        self.where: Location = call_site()
        owner = dag or (parent_group.dag if parent_group is not None else current_dag())
        if owner is None:
            raise DagDefinitionError("a TaskGroup needs a DAG: make it inside `with DAG(…):` or give dag=…", self.where)
        self.dag: DAG = owner
        self.parent_group: TaskGroup | None = parent_group if parent_group is not None else owner.open_group
        self.default_args = dict(default_args or {})
        above = self.parent_group.prefix if self.parent_group is not None else ""
        self.group_id = checked_id(above + checked_id(group_id, "group_id", self.where), "group_id", self.where)
        self.prefix: str = f"{self.group_id}." if prefix_group_id else above
        owner.add_group(self)

    def defaults(self) -> dict[str, Any]:
        """Return the ``default_args`` of this group over those of the groups around it."""
        above = self.parent_group.defaults() if self.parent_group is not None else {}
        return {**above, **self.default_args}

    def tasks(self) -> list[Task]:
        """Return the tasks in it, those of inner groups included."""
        return [task for task in self.dag.tasks if self._holds(task.task_group)]

    def _holds(self, group: TaskGroup | None) -> bool:
        while group is not None and group is not self:
            group = group.parent_group
        return group is self

    def roots(self) -> list[Task]:
        """Return the tasks that nothing in the group comes before."""
        tasks = self.tasks()
        ids = {task.task_id for task in tasks}
        return [task for task in tasks if not ids & task.upstream_task_ids.keys()]

    def leaves(self) -> list[Task]:
        """Return the tasks that nothing in the group comes after."""
        tasks = self.tasks()
        ids = {task.task_id for task in tasks}
        return [task for task in tasks if not ids & task.downstream_task_ids.keys()]

    def __enter__(self) -> TaskGroup:
        self.dag.enter_group(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.dag.leave_group()

    def __repr__(self) -> str:
        return f"<group {self.group_id!r} of DAG {self.dag.dag_id!r}>"
