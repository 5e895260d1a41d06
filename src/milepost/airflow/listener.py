"""The listener: Airflow calls it in the process of a task, right before the task's code runs."""

from __future__ import annotations

from typing import Any

from pluggy import HookimplMarker

__all__ = ["on_task_instance_running"]

hookimpl = HookimplMarker("airflow")


@hookimpl  # type: ignore[untyped-decorator,unused-ignore]  # pluggy comes with Airflow
def on_task_instance_running(task_instance: Any) -> None:
    """Have the task's own code run with the stores in its context."""
    from milepost.airflow.wrapping import wrap

    wrap(task_instance)
