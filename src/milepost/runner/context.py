"""The context of an attempt: what a task knows about its run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from milepost.sdk.context import Context

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from milepost.sdk.dag import DAG
    from milepost.sdk.operator import BaseOperator

__all__ = ["DagRun", "TaskInstance", "build_context"]


@dataclass(frozen=True)
class DagRun:
    """The run, as ``context["dag_run"]``.

    Args:
        dag_id: The DAG.
        run_id: The run.
        logical_date: The instant that the run stands for.
        conf: The parameters that the run was started with.
        run_type: ``asset_triggered`` where an event of an asset started it, otherwise ``manual``.

    .. versionadded:: 0.1
    """

    dag_id: str
    run_id: str
    logical_date: datetime
    conf: Mapping[str, Any]
    run_type: str = "manual"

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"dag_run.{name} is not part of Milepost's local runner")


@dataclass(frozen=True)
class TaskInstance:
    """The task instance, as ``context["ti"]``.

    Args:
        dag_id: The DAG.
        run_id: The run.
        task_id: The task.
        map_index: The position, -1 if not mapped.
        try_number: The number of the attempt, from 1; it goes on over clears and resumed runs.
        max_tries: How often the task is tried again in one budget, as Airflow counts it.
        task: The operator.

    .. versionadded:: 0.1
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int
    max_tries: int
    task: BaseOperator

    def __getattr__(self, name: str) -> NoReturn:
        hint = "; pass results between tasks as arguments" if name.startswith("xcom") else ""
        raise AttributeError(f"ti.{name} is not part of Milepost's local runner{hint}")


def build_context(
    dag: DAG,
    operator: BaseOperator,
    instance: TaskInstance,
    run: DagRun,
    opened: Mapping[str, Any],
) -> Context:
    """Return the context of an attempt.

    Args:
        dag: The DAG.
        operator: The operator.
        instance: The task instance.
        run: The run.
        opened: What `milepost.Instances.open` returned: the two stores.
    """
    return Context(
        task_store=opened["task_store"],
        task_state_store=opened["task_store"],
        asset_store=opened["asset_store"],
        asset_state_store=opened["asset_store"],
        ti=instance,
        task=operator,
        dag=dag,
        dag_run=run,
        run_id=run.run_id,
        params={**dag.params, **operator.params, **run.conf},
        logical_date=run.logical_date,
        ds=run.logical_date.date().isoformat(),
        map_index=instance.map_index,
        inlets=operator.inlets,
        outlets=operator.outlets,
    )
