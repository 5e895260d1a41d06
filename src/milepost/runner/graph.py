"""From a DAG to the plain data that planning works on, and to what a run has beyond it."""

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


def left_over(dag: DAG, recorded: Iterable[tuple[str, int]]) -> list[str]:
    """Return what is recorded of a run and has no place in its DAG any more, in words.

    Args:
        dag: The DAG as the file has it now.
        recorded: Task id and map index of the recorded instances.
    """
    known = list(recorded)
    said = []
    gone = sorted({task_id for task_id, _ in known} - dag.task_dict.keys())
    if gone:
        said.append(f"no longer in the file, left as recorded: {', '.join(gone)}")
    for task_id, task in dag.task_dict.items():
        if any(name == task_id and (index >= 0) != task.is_mapped for name, index in known):
            before, now = ("not mapped", "mapped") if task.is_mapped else ("mapped", "not mapped")
            said.append(f"{task_id}: was {before} and is {now} now; it starts empty, and its earlier state is left")
    return said
