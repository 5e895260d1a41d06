"""From a DAG to the plain data that planning works on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.runner.plan import Node
from milepost.sdk.mapped import MappedTask

if TYPE_CHECKING:
    from collections.abc import Iterable

    from milepost.sdk.dag import DAG

__all__ = ["after_all", "nodes_of"]


def nodes_of(dag: DAG) -> list[Node]:
    """Return the tasks of a DAG as nodes, each after those before it."""
    nodes = []
    for task in dag.ordered():
        lengths = task.expansion.length_sources() if isinstance(task, MappedTask) else []
        nodes.append(
            Node(
                task_id=task.task_id,
                upstream=tuple(task.upstream_task_ids),
                rule=task.trigger_rule,
                retries=task.retries,
                retry_delay=task.retry_delay.total_seconds(),
                mapped=task.is_mapped,
                length_sources=tuple(dict.fromkeys(source.operator.task_id for source in lengths)),
            )
        )
    return nodes


def after_all(dag: DAG, task_ids: Iterable[str]) -> list[str]:
    """Return the tasks that come after any of these, in the DAG's order."""
    named = set(task_ids)
    found = set(named)
    for task in dag.ordered():
        if not found.isdisjoint(task.upstream_task_ids):
            found.add(task.task_id)
    return [task.task_id for task in dag.ordered() if task.task_id in found - named]
