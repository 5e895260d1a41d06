"""How Airflow makes operators and runs tasks."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from milepost.entry import InstanceState

__all__ = ["let_coroutines_run", "run_tasks_in", "takes_default_args"]


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


def run_tasks_in(module: Any, around: Callable[[Any, Any], AbstractContextManager[Any]]) -> None:
    """Have Airflow run all of a task, from its templates on, in a context manager.

    Args:
        module: The module that has what runs tasks, of Airflow 2 or 3.
        around: Makes it, for a task instance and a context. Airflow 3 catches what the task raises: what is entered is then
            told the state, by ``left_as``. Before 3.1, more contexts are made on the way: it is shown them, by ``put_into``.
    """
    run = getattr(module, "run", None)
    if run is None:
        _around_tasks_of_2(module.TaskInstance, around)
        return

    @functools.wraps(run)
    def run_task(ti: Any, context: Any, log: Any) -> Any:
        with around(ti, context) as entered, _showing_contexts(ti, entered):
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
        with around(self, context) as entered, _showing_contexts(self, entered):
            return execute(self, context, *args, **kwargs)

    task_instance._execute_task_with_callbacks = run_task


@contextmanager
def _showing_contexts(task_instance: Any, entered: Any) -> Iterator[None]:
    """Show what was entered the contexts that are made for what is rendered anew, such as the command of `@task.bash`."""
    if hasattr(task_instance, "_cached_template_context"):  # 3.1 and later make one
        yield
        return
    make = task_instance.get_template_context

    @functools.wraps(make)
    def make_context(*args: Any, **kwargs: Any) -> Any:
        made = make(*args, **kwargs)
        entered.put_into(made)
        return made

    task_instance.__dict__["get_template_context"] = make_context
    try:
        yield
    finally:
        del task_instance.__dict__["get_template_context"]
