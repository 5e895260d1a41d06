"""The items of a run's mapped tasks, and what becomes of instances whose list was computed anew."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from milepost.runner import results
from milepost.runner.progress import label
from milepost.runner.spec import MappedItem
from milepost.runner.view import mapped_arguments
from milepost.sdk.mapped import MappedTask
from milepost.sdk.node import sources_of
from milepost.sdk.references import Reference, RunView, resolve

if TYPE_CHECKING:
    from collections.abc import Callable

    from milepost.run_records import RunRecord
    from milepost.runner.plan import Plan
    from milepost.sdk.expansion import Expansion
    from milepost.sdk.node import Task
    from milepost.store import Store

__all__ = ["Expansions"]


class Expansions:
    """What the mapped tasks of a run are mapped over.

    Args:
        store: The store.
        run: The record of the run.
        plan: Tells how the tasks stand that a list comes from.
        view: Results and parameters of the run.
        note: Shows a line to the user.
    """

    def __init__(self, store: Store, run: RunRecord, plan: Plan, view: RunView, note: Callable[[str], None]) -> None:
        self._store = store
        self._run = run
        self._plan = plan
        self._view = view
        self._note = note
        self._known: dict[str, Expansion] = {}

    def expand(self, task: MappedTask) -> tuple[int, list[int]]:
        """Compute the list of a task; if it was computed anew, start instances over that stand for other items now.

        Returns:
            The number of items, and the positions that start over.

        Raises:
            NotMappableError: What it is mapped over is no list and no dict.
            LookupError: A result lacks the item that is taken from it.
            ResultDamagedError: A result cannot be read.
        """
        expansion = self._known[task.task_id] = task.expansion.expand(self._view)
        instances, names = self._store.instances, (self._run.dag_id, self._run.run_id, task.task_id)
        instances.expand(
            *names,
            expansion=self._name(task),
            length=len(expansion),
            item=lambda index: self._identity(task, index),
        )
        cleared = [record.scope.map_index for record in instances.list(*names, state="cleared")]
        return len(expansion), cleared

    def _name(self, task: MappedTask) -> str:
        """Return a text that changes whenever the list that a task is mapped over may have changed.

        That is when a task that it takes results from has succeeded anew, or when the list in the file is another one. It
        does not depend on how items are told apart (``map_key``), so that retries of one expansion are never compared.
        """
        plan = self._plan
        attempts = [
            [source.task_id, [[n, plan.instance(source.task_id, n).attempt] for n in plan.successes(source.task_id)]]
            for source in sources_of(task)
        ]
        given = json.dumps(task.expansion.given(), default=_stand_in, skipkeys=True)
        whole = json.dumps([self._run.incarnation, attempts, given])
        return blake2b(whole.encode(), digest_size=16).hexdigest()

    def _identity(self, task: MappedTask, map_index: int) -> dict[str, Any] | None:
        """Return what identifies a mapped item; `None` if that cannot be told."""
        try:
            return task.milepost_options.item(self.mapped(task, map_index) or {})
        except Exception as error:  # noqa: BLE001 - map_key is the user's code
            self._note(f"{label(task.task_id, map_index)}: not compared with its earlier item: {error!r}")
            return None

    def item(self, task_id: str, map_index: int) -> MappedItem | None:
        """Return the mapped arguments of an instance, those that the codec cannot hold as positions; `None`: not mapped."""
        expansion = self._known.get(task_id)
        if expansion is None:
            return None
        item = MappedItem({}, {})
        positions = expansion.positions(map_index)
        for name, value in expansion.at(positions).items():
            try:
                item.sent[name] = results.encode(value, task_id)
            except (TypeError, ValueError):  # a reference, or an object: the attempt has its own list
                item.own[name] = positions[name]
        return item

    def mapped(self, task: Task, map_index: int) -> dict[str, Any] | None:
        """Return the mapped arguments of an instance as its attempt sees them; `None` if it is not mapped."""
        item = self.item(task.task_id, map_index)
        if item is None or not isinstance(task, MappedTask):
            return None
        found: dict[str, Any] = resolve(mapped_arguments(task, item), self._view)
        return found


def _stand_in(thing: Any) -> str:
    """Return a text for what JSON has not; the same in every process."""
    return repr(thing) if isinstance(thing, Reference) else f"<{type(thing).__module__}.{type(thing).__qualname__}>"
