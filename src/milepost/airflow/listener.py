"""The listener: Airflow calls it where its parts start, and in the process of a task, right before the task's code runs."""

from __future__ import annotations

import sys
from typing import Any, Final

from pluggy import HookimplMarker

__all__ = ["on_starting", "on_task_instance_running"]

_SCHEDULER: Final = "airflow.jobs.scheduler_job_runner"
_TRIGGERER: Final = "airflow.jobs.triggerer_job_runner"

hookimpl = HookimplMarker("airflow")


@hookimpl  # type: ignore[untyped-decorator,unused-ignore]  # pluggy comes with Airflow
def on_task_instance_running(task_instance: Any) -> None:
    """Have the task's own code run with the stores in its context."""
    from milepost.airflow.wrapping import wrap

    wrap(task_instance)


@hookimpl  # type: ignore[untyped-decorator,unused-ignore]
def on_starting(component: Any) -> None:  # noqa: ARG001 - Airflow has not yet told it what it is
    """Have the triggerer give event triggers their stores, and the scheduler keep the store in line."""
    if _SCHEDULER in sys.modules:
        from milepost.airflow.keeping import keep_in_line

        keep_in_line()
    if _TRIGGERER in sys.modules:
        from milepost.airflow.triggers import install

        install()
