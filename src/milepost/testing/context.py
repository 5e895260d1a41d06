"""The context of a task, for a test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from milepost.clock import from_micros
from milepost.entry import InstanceState, TaskOptions
from milepost.errors import UnsupportedTypeError
from milepost.scopes import TaskScope
from milepost.sdk.calling import awaited, call
from milepost.sdk.context import Context, current_context, set_current_context
from milepost.sdk.dag import DAG
from milepost.sdk.expansion import Mappable
from milepost.sdk.operator import BaseOperator, execute
from milepost.sdk.references import find_references
from milepost.sdk.task import TaskFunction
from milepost.store import Store

__all__ = ["TaskContext"]


class TaskContext(Context):
    """What a task gets from the local runner, for a test: a dict with the same keys, backed by a real store.

    Its attempt is open when it is made. `run` calls a task with it, as the runner does.

    Example::

        with milepost.connect("memory://") as store:
            context = TaskContext(store, TaskScope("dag", "run", "load"))
            context.run(load)  # a function under @task
            assert context.retry()["task_store"].get("page") == 3

    Args:
        store: Where the state is kept.
        scope: The task instance.
        attempt: The number of the attempt, 1 or more.
        inlets: Assets that the task reads.
        outlets: Assets that the task writes.
        params: The parameters of the run.
        item: The mapped arguments, if the task is mapped.
        options: ``clear_on_success`` and ``on_clear`` of the task.
        logical_date: The instant that the run stands for (aware); by default the time of the store.

    Raises:
        StaleAttemptError: A later attempt was opened before.

    .. versionadded:: 0.1
    """

    def __init__(
        self,
        store: Store,
        scope: TaskScope,
        *,
        attempt: int = 1,
        inlets: Iterable[Any] = (),
        outlets: Iterable[Any] = (),
        params: Mapping[str, Any] | None = None,
        item: Mapping[str, Any] | None = None,
        options: TaskOptions | None = None,
        logical_date: datetime | None = None,
    ) -> None:
        self.store = store
        self.scope = scope
        self.attempt = attempt
        moment = logical_date or from_micros(store.metastore.now())
        self._given: dict[str, Any] = {
            "inlets": list(inlets),
            "outlets": list(outlets),
            "params": dict(params or {}),
            "item": item,
            "options": options or TaskOptions(),
            "logical_date": moment,
        }
        opened = store.instances.open(
            scope,
            attempt,
            item=item,
            inlets=self._given["inlets"],
            outlets=self._given["outlets"],
            options=self._given["options"],
        )
        names = {"dag_id": scope.dag_id, "run_id": scope.run_id, "task_id": scope.task_id, "map_index": scope.map_index}
        task = SimpleNamespace(task_id=scope.task_id, inlets=self._given["inlets"], outlets=self._given["outlets"])
        super().__init__(
            task_store=opened["task_store"],
            task_state_store=opened["task_store"],
            asset_store=opened["asset_store"],
            asset_state_store=opened["asset_store"],
            ti=SimpleNamespace(**names, try_number=attempt, max_tries=attempt, task=task),
            task=task,
            dag=SimpleNamespace(dag_id=scope.dag_id),
            dag_run=SimpleNamespace(
                dag_id=scope.dag_id,
                run_id=scope.run_id,
                logical_date=moment,
                conf=self._given["params"],
                run_type="manual",
            ),
            run_id=scope.run_id,
            params=self._given["params"],
            logical_date=moment,
            ds=moment.date().isoformat(),
            map_index=scope.map_index,
            inlets=self._given["inlets"],
            outlets=self._given["outlets"],
        )

    def run(self, task: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a task as the runner does: what it does not get here comes from the context, by name.

        The attempt stays open, also if the task fails: `finish` or `retry` ends it. Meanwhile `get_current_context` returns
        this context.

        Args:
            task: A function, with or without ``@task``; an operator class; or an operator of a DAG, which then takes no
                arguments and must not refer to results of other tasks.
            args: Arguments of a function, in place of the results of other tasks.
            kwargs: The same by name; they win over ``item``, the mapped arguments of the context. The ``task_id`` of an
                operator is by default that of the context.

        Returns:
            What the task returned; of an ``async`` function what it returns in the end.

        Raises:
            TypeError: ``task`` is no task, or an operator is given arguments.
        """
        before = current_context()
        set_current_context(self)
        try:
            if isinstance(task, BaseOperator):
                return self._execute(task, args, kwargs)
            kwargs = {**(self._given["item"] or {}), **kwargs}
            if isinstance(task, type) and issubclass(task, BaseOperator):
                with DAG(self.scope.dag_id):
                    return self._execute(task(*args, **{"task_id": self.scope.task_id, **kwargs}), (), {})
            if isinstance(task, TaskFunction):
                return task.run(args, kwargs, self)
            if callable(task) and not isinstance(task, Mappable):
                return awaited(call(task, args, kwargs, self))
            raise UnsupportedTypeError(f"a function or an operator is needed here, not {task!r}")
        finally:
            set_current_context(before)

    def _execute(self, operator: BaseOperator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args or kwargs:
            raise UnsupportedTypeError("an operator gets its arguments when it is made; give run() its class to make one")
        if found := next(find_references(operator._reference_values()), None):
            raise UnsupportedTypeError(
                f"task {operator.task_id!r} needs {found!r}, which there is not in a test; give run() the function or the "
                "operator class, and values"
            )
        return execute(operator, self)

    def finish(self, state: InstanceState = "success") -> None:
        """End the attempt, as the host of a task does.

        Args:
            state: ``success``, ``failed``, ``skipped``, ``up_for_retry`` or ``deferred``.

        Raises:
            StaleAttemptError: The attempt is no longer the current one.
        """
        self.store.instances.finish(self.scope, self.attempt, state)

    def retry(self) -> TaskContext:
        """Fail the attempt and return the context of the next one. What the task stored is kept, this context is stale.

        Raises:
            StaleAttemptError: The attempt is no longer the current one.
        """
        self.finish("up_for_retry")
        return self.next_attempt()

    def next_attempt(self, *, item: Mapping[str, Any] | None = None) -> TaskContext:
        """Return the context of the next attempt without a word from this one, as after ``kill -9``.

        Args:
            item: Other mapped arguments, as when the list has changed; by default the same.
        """
        given = self._given if item is None else {**self._given, "item": item}
        return TaskContext(self.store, self.scope, attempt=self.attempt + 1, **given)

    def start_over(self, *, keep: bool | None = None, item: Mapping[str, Any] | None = None) -> TaskContext:
        """Clear the instance, as a person does to start it over, and return the context of the attempt after that.

        Args:
            keep: Keep the keys; by default as ``on_clear`` says.
            item: As in `next_attempt`.
        """
        self.store.instances.clear(self.scope, keep=keep)
        return self.next_attempt(item=item)
