"""What Airflow says of the attempt that runs, and how it ends.

Airflow 2 runs a task with the metadata database at hand, from ``TaskInstance``; Airflow 3 runs it with what the API server
sent, from ``RuntimeTaskInstance``.
"""

from __future__ import annotations

import inspect
import logging
import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from milepost.entry import InstanceState

__all__ = [
    "Identity",
    "cleared_in_run",
    "has_a_past",
    "identity",
    "in_process",
    "is_incarnation",
    "leave_if_superseded",
    "state_after",
]

_log = logging.getLogger("milepost.airflow")
_INCARNATION: Final = re.compile(r"[0-9]+|[0-9T:.+-]+/[0-9T:.+-]+")


class Identity(NamedTuple):
    """What Airflow says of the attempt that is about to run.

    Args:
        scope: DAG, run, task and map index.
        attempt: The number of the attempt. A deferral and a reschedule go on with it.
        incarnation: Tells the run from an earlier one of the same id.
        run_clears: How often the run was cleared, where a clear may give it another incarnation.
        max_tries: How many tries are granted; a clear grants others.
        test: Whether it is run by ``dag.test()`` or ``airflow tasks test``.
        mapped: The mapped arguments, `None` if the task is not mapped.
    """

    scope: tuple[str, str, str, int]
    attempt: int
    incarnation: str | None
    run_clears: int | None
    max_tries: int | None
    test: bool
    mapped: Mapping[str, Any] | None

    @property
    def run(self) -> tuple[str, str, str | None]:
        """The run, apart from others of its name."""
        return self.scope[0], self.scope[1], self.incarnation


def is_incarnation(text: str | None) -> bool:
    """Tell whether a run's incarnation is one that `identity` makes.

    Args:
        text: The incarnation.
    """
    return bool(_INCARNATION.fullmatch(text or ""))


def identity(task_instance: Any, task: Any, context: Any, number: int) -> Identity:
    """Return what Airflow says of an attempt.

    Args:
        task_instance: Airflow's.
        task: The operator, unmapped.
        context: The task's context.
        number: The number that Airflow gave the attempt as it began.
    """
    sent = _from_server(task_instance)
    map_index = task_instance.map_index if task_instance.map_index is not None else -1
    mapped = _mapped_arguments(task, context) if map_index >= 0 else None
    scope = (task_instance.dag_id, task_instance.run_id, task_instance.task_id, map_index)
    # A dry start of old versions counts from 0.
    attempt = max(1, number)
    run = context["dag_run"]
    max_tries = (
        task_instance.max_tries if isinstance(task_instance.max_tries, int) and task_instance.max_tries >= 0 else None
    )
    if sent is None:
        test = bool(getattr(task_instance, "test_mode", False)) or task_instance.job_id is None
        if not test:
            return Identity(scope, attempt, str(run.id), None, max_tries, test, mapped)
        # `dag.test()` deletes the run before, and SQLite may give its number to the next one.
        incarnation = f"{run.id}/{_instant(run.start_date)}"
        return Identity(scope, attempt, incarnation, run.clear_number or 0, max_tries, test, mapped)
    # A worker of Airflow 3 does not see the number of the run. A run that had ended starts anew when it is cleared; one that
    # still runs (3.2 counts that clear, too) goes on, and so do its tasks that know of no clear.
    incarnation = f"{_instant(run.run_after)}/{_instant(run.start_date)}"
    return Identity(scope, attempt, incarnation, run.clear_number or 0, max_tries, in_process(), mapped)


def _from_server(task_instance: Any) -> Any:
    """Return what the API server sent (Airflow 3), `None` on Airflow 2."""
    return getattr(task_instance, "_ti_context_from_server", None)


def has_a_past(task_instance: Any, task: Any) -> bool:
    """Tell whether a task instance ran before, so that it may have state, or runs in an event loop, which must not wait.

    Args:
        task_instance: Airflow's.
        task: The operator, unmapped.
    """
    if task_instance.try_number > 1 or getattr(task, "reschedule", False):
        return True
    sent = _from_server(task_instance)
    if getattr(sent, "task_reschedule_count", None):
        return True
    return inspect.iscoroutinefunction(getattr(task, "python_callable", None))


def _instant(moment: Any) -> str:
    return "-" if moment is None else moment.isoformat()


def in_process() -> bool:
    """Tell whether Airflow 3 runs the task without a supervisor, as ``dag.test()`` and ``tasks test`` do."""
    runner = sys.modules.get("airflow.sdk.execution_time.task_runner")
    return type(getattr(runner, "SUPERVISOR_COMMS", None)).__name__ == "InProcessSupervisorComms"


def _mapped_arguments(task: Any, context: Any) -> dict[str, Any] | None:
    """Return the mapped arguments of a task instance, those of a mapped task group too; `None` if they cannot be told."""
    try:
        original = context["dag"].get_task(task.task_id)
        found: dict[str, Any] = {}
        group = original.get_closest_mapped_task_group()
        if group is not None:
            found |= _resolve(group._expand_input, context)
        if hasattr(original, "_get_specified_expand_input"):
            found |= _resolve(original._get_specified_expand_input(), context)
    except Exception as error:  # noqa: BLE001 - these are private to Airflow, and a lost guard fails no task
        _log.warning(
            "the mapped arguments of %s cannot be told (%s: %s), so a changed list cannot be noticed",
            task.task_id, type(error).__name__, error, extra={"action": "item_unguarded"},
        )  # fmt: skip
        return None
    return found or None


def _resolve(expand_input: Any, context: Any) -> dict[str, Any]:
    if _from_server(context["ti"]) is not None:
        resolved = expand_input.resolve(context)
    else:
        from airflow.utils.session import create_session

        with create_session() as session:
            resolved = expand_input.resolve(context, session)
    # With the identities of what needs no rendering.
    return dict(resolved[0] if isinstance(resolved, tuple) else resolved)


def state_after(error: BaseException, task_instance: Any, task: Any) -> InstanceState:
    """Return the state in which an exception leaves the task instance, as Airflow will judge it.

    Args:
        error: What the task raised.
        task_instance: Airflow's.
        task: The operator.
    """
    names = {cls.__name__ for cls in type(error).__mro__}
    sent = _from_server(task_instance)
    if names & {"TaskDeferred", "AirflowRescheduleException"}:
        return "deferred"
    if "AirflowSkipException" in names:
        return "skipped"
    # The work of the task is done; Airflow skips others, or starts a run.
    if names & {"DownstreamTasksSkipped", "DagRunTriggerException"}:
        return "success"
    if sent is None and isinstance(error, SystemExit) and error.code in (None, 0):
        return "success"
    final = {"AirflowFailException", "AirflowSensorTimeout"} | ({"AirflowTaskTerminated"} if sent is not None else set())
    if names & final:
        return "failed"
    if sent is not None:
        again = bool(sent.should_retry)
    else:
        again = bool(task.retries) and task_instance.try_number <= task_instance.max_tries
    return "up_for_retry" if again else "failed"


def cleared_in_run(error: BaseException, task_instance: Any) -> bool:
    """Tell whether Airflow ends a task because a person cleared it.

    Only Airflow 2 is asked: it grants no more tries then. Airflow 3 does, and the next attempt notices.

    Args:
        error: What the task raised.
        task_instance: Airflow's.
    """
    return type(error).__name__ == "AirflowTaskTerminated" and _recorded(task_instance)[0] == "restarting"


def leave_if_superseded(error: BaseException, task_instance: Any) -> None:
    """End this process if its attempt is stale and Airflow, too, has begun another one.

    Airflow 2 would record the failure of this attempt for that other one, and end it. Airflow 3 refuses what this one says.

    Args:
        error: What the task raised.
        task_instance: Airflow's.
    """
    if type(error).__name__ != "StaleAttemptError":
        return
    _, job = _recorded(task_instance)
    if job is None or str(job) == str(task_instance.job_id):
        return
    _log.error("%s; this process ends, and Airflow hears nothing of it", error, extra={"action": "airflow_superseded"})
    logging.shutdown()
    os._exit(1)


def _recorded(task_instance: Any) -> tuple[str | None, int | None]:
    """Return what Airflow 2 has on record of a task instance: its state, and the job that runs it; `None` elsewhere."""
    if _from_server(task_instance) is not None or task_instance.job_id is None:
        return None, None
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session

    same = {name: getattr(task_instance, name) for name in ("dag_id", "run_id", "task_id", "map_index")}
    try:
        with create_session() as session:
            state, job = session.query(TaskInstance.state, TaskInstance.job_id).filter_by(**same).one()
    except Exception as error:  # noqa: BLE001 - the task ends anyhow, and it is its own error that counts
        _log.warning(
            "Airflow's record of %s cannot be read (%s: %s)",
            task_instance.task_id, type(error).__name__, error, extra={"action": "airflow_record_unknown"},
        )  # fmt: skip
        return None, None
    return state, job
