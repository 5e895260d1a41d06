"""What differs between the versions of Airflow: all of it is here.

Airflow 2 runs a task with the metadata database at hand, from ``TaskInstance``; Airflow 3 runs it with what the API server
sent, from ``RuntimeTaskInstance``.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from milepost.airflow.configuration import configured

if TYPE_CHECKING:
    from milepost.entry import InstanceState

__all__ = [
    "Identity",
    "alias_rows",
    "cleared_in_run",
    "dag_is_active",
    "has_a_past",
    "identity",
    "in_process",
    "is_incarnation",
    "leave_if_superseded",
    "let_coroutines_run",
    "native_asset_accessors",
    "native_retention",
    "run_tasks_in",
    "state_after",
    "takes_default_args",
    "triggerer_classes",
    "watched_assets",
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


def _from_server(task_instance: Any) -> Any:
    """Return what the API server sent (Airflow 3), `None` on Airflow 2."""
    return getattr(task_instance, "_ti_context_from_server", None)


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


def let_coroutines_run(task: Any) -> None:
    """Have an ``async`` function under ``@task`` run in an event loop where Airflow would not: before 3.2.

    Args:
        task: The operator, unmapped.
    """
    function = getattr(task, "python_callable", None)
    if not inspect.iscoroutinefunction(function):
        return
    try:
        from airflow.sdk.bases.operator import BaseAsyncOperator  # noqa: F401 - it says whether Airflow does
    except ImportError:
        pass
    else:
        return

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        import asyncio

        return asyncio.run(function(*args, **kwargs))

    # For Airflow, which finds arguments by it and would follow `__wrapped__` to what it refuses.
    run.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    del run.__wrapped__
    task.__dict__["python_callable"] = run


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


def takes_default_args(init: Callable[..., None]) -> Callable[..., None]:
    """Let an ``__init__`` of a class that is mixed into operators take its arguments from ``default_args``.

    Args:
        init: The method.
    """
    try:
        from airflow.sdk.bases.operator import BaseOperatorMeta
    except ImportError:
        from airflow.models.baseoperator import BaseOperatorMeta
    return BaseOperatorMeta._apply_defaults(init)  # type: ignore[no-any-return]


# -- around tasks ---------------------------------------------------------------------------------------------------------


def run_tasks_in(module: Any, around: Callable[[Any, Any], AbstractContextManager[Any]]) -> None:
    """Have Airflow run all of a task, from its templates on, in a context manager.

    Args:
        module: The module that has what runs tasks, of Airflow 2 or 3.
        around: Makes it, for a task instance and a context. Airflow 3 catches what the task raises: what is entered is then
            told the state, by ``left_as``. Airflow 2 makes more contexts on the way: it is shown them, by ``put_into``.
    """
    run = getattr(module, "run", None)
    if run is None:
        _around_tasks_of_2(module.TaskInstance, around)
        return

    @functools.wraps(run)
    def run_task(ti: Any, context: Any, log: Any) -> Any:
        with around(ti, context) as entered:
            answer = run(ti, context, log)
            entered.left_as(_STATES.get(str(getattr(answer[0], "value", answer[0])), "failed"))
            return answer

    module.run = run_task


_STATES: Final[Mapping[str, InstanceState]] = {
    "success": "success", "skipped": "skipped", "up_for_retry": "up_for_retry",
    "deferred": "deferred", "up_for_reschedule": "deferred",
}  # fmt: skip
"""What states of Airflow are; all others are failures."""


def _around_tasks_of_2(task_instance: Any, around: Callable[[Any, Any], AbstractContextManager[Any]]) -> None:
    execute = getattr(task_instance, "_execute_task_with_callbacks", None)
    if execute is None:  # that of Airflow 3
        return

    @functools.wraps(execute)
    def run_task(self: Any, context: Any, *args: Any, **kwargs: Any) -> Any:
        make = self.get_template_context

        def make_context(*args: Any, **kwargs: Any) -> Any:
            made = make(*args, **kwargs)
            entered.put_into(made)
            return made

        with around(self, context) as entered:
            # What is rendered anew, such as the command that `@task.bash` returned, has a context of its own.
            self.__dict__["get_template_context"] = make_context
            try:
                return execute(self, context, *args, **kwargs)
            finally:
                del self.__dict__["get_template_context"]

    task_instance._execute_task_with_callbacks = run_task


# -- the metadata database ------------------------------------------------------------------------------------------------


def is_incarnation(text: str | None) -> bool:
    """Tell whether a run's incarnation is one that `identity` makes.

    Args:
        text: The incarnation.
    """
    return bool(_INCARNATION.fullmatch(text or ""))


def dag_is_active(model: Any) -> Any:
    """Return what says in a query whether a DAG's file has it.

    Args:
        model: Airflow's model of a DAG.
    """
    return ~model.is_stale if hasattr(model, "is_stale") else model.is_active


def native_asset_accessors(stores: Any) -> list[Any]:
    """Return the accessors behind Airflow 3.3's own ``asset_state_store`` of a task.

    Args:
        stores: What stands in the context.
    """
    return [one for name in ("_by_name", "_by_uri") for one in getattr(stores, name, {}).values()]


def native_retention() -> timedelta | None:
    """Return how long Airflow 3.3's own store keeps a key that says nothing of it; `None`: for good."""
    days = int(configured("state_store", "default_retention_days") or 0)
    return timedelta(days=days) if days else None


def alias_rows(session: Any) -> list[tuple[str, str, str]]:
    """Return the assets that aliases stand for: the alias, and name and URI of the asset; there are none before 2.10.

    Args:
        session: A session of Airflow's.
    """
    try:
        from airflow.models.asset import AssetAliasModel as Model
    except ImportError:
        try:
            from airflow.models.dataset import DatasetAliasModel as Model
        except ImportError:
            return []
    return [
        (alias.name, getattr(asset, "name", asset.uri), asset.uri)
        for alias in session.query(Model)
        for asset in (alias.assets if hasattr(alias, "assets") else alias.datasets)
    ]


# -- the triggerer --------------------------------------------------------------------------------------------------------


def triggerer_classes() -> tuple[Any, Any] | None:
    """Return the classes of the triggerer and of the child in which triggers run; `None` on Airflow 2."""
    try:
        from airflow.jobs.triggerer_job_runner import TriggerRunner, TriggerRunnerSupervisor
    except ImportError:
        return None
    return TriggerRunnerSupervisor, TriggerRunner


def watched_assets(triggers: list[int]) -> dict[int, list[tuple[str | None, str, str]]]:
    """Return the assets that triggers watch: the name of the watcher, from 3.2 on, and name and URI of the asset.

    Args:
        triggers: Numbers of triggers.
    """
    from airflow.models.trigger import Trigger
    from airflow.utils.session import create_session

    found: dict[int, list[tuple[str | None, str, str]]] = {}
    with create_session() as session:
        for trigger in session.query(Trigger).filter(Trigger.id.in_(triggers)):
            if hasattr(trigger, "asset_watchers"):
                rows = [(one.name, one.asset.name, one.asset.uri) for one in trigger.asset_watchers]
            else:
                rows = [(None, asset.name, asset.uri) for asset in trigger.assets]
            if rows:
                found[trigger.id] = rows
    return found
