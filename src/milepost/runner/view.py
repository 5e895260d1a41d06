"""The run as references to results and parameters see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from milepost.runner import results

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from milepost.runner.spec import MappedItem
    from milepost.sdk.mapped import MappedTask
    from milepost.sdk.node import Task
    from milepost.store import Store

__all__ = ["StoreView", "mapped_arguments"]


class StoreView:
    """Results and parameters of a run, from the store. See `milepost.sdk.references.RunView`.

    Args:
        store: The store.
        dag_id: The DAG.
        run_id: The run.
        indices: Tells the successful map indices of a task: results of others do not count.
        params: The run's parameters.
    """

    def __init__(
        self,
        store: Store,
        dag_id: str,
        run_id: str,
        indices: Callable[[str], Sequence[int]],
        params: Mapping[str, Any],
    ) -> None:
        self._store = store
        self._run = (dag_id, run_id)
        self._indices = indices
        self._params = params

    def result(self, task: Task) -> Any:
        """Return what a task returned, a list by map index if it is mapped; `None` if it has no result."""
        indices = self._indices(task.task_id)
        texts = self._store.runs.get_results(*self._run, task.task_id) if indices else {}
        found = [results.decode(texts[index]) if index in texts else None for index in indices]
        if task.is_mapped:
            return found
        return found[0] if found else None

    def param(self, name: str, default: Any) -> Any:
        """Return a parameter of the run."""
        return self._params.get(name, default)


def mapped_arguments(task: MappedTask, item: MappedItem) -> dict[str, Any]:
    """Return the mapped arguments of one instance; references may still stand inside.

    Args:
        task: The task.
        item: What the runner knows of them.

    Raises:
        LookupError: The list in the file has become shorter since the task was expanded.
    """
    found = {name: results.decode(text) for name, text in item.sent.items()}
    found.update(task.expansion.at(item.own))
    # expand_kwargs() has one list without a name, whose items are the arguments.
    return found.pop("") if "" in found else found
