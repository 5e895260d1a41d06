"""Wraps the code of one task: gives it its stores before, opens its attempt, records how it ended after."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from milepost.airflow import compat
from milepost.airflow.attempt import Attempt, attempt_of

if TYPE_CHECKING:
    from milepost.entry import InstanceState

__all__ = ["Given", "given", "wrap"]

_METHODS = ("execute", "resume_execution")


class Given:
    """The stores of a task that Airflow has begun with, before its own code runs: its templates may use them.

    Args:
        attempt: The attempt.
    """

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    def put_into(self, context: Any) -> None:
        """Put the stores into another context of the task."""
        for name, store in self._attempt.stores.items():
            if name not in context:
                context[name] = store

    def left_as(self, state: InstanceState, error: BaseException | None = None) -> None:
        """Record how the attempt ended, unless that was done: its own code did not run, or not to the end."""
        if not self._attempt.ended:
            self._attempt.end(state, error)


@contextmanager
def given(task_instance: Any, context: Any) -> Iterator[Given]:
    """Give a task its stores while Airflow runs all of it.

    Args:
        task_instance: Airflow's.
        context: The task's context.
    """
    entered = Given(_attempt(task_instance, context))
    try:
        yield entered
    except BaseException as error:
        entered.left_as(compat.state_after(error, task_instance, context["task"]), error)
        raise


def _attempt(task_instance: Any, context: Any) -> Attempt:
    """Return the attempt whose stores stand in a context; put them there first, unless they do."""
    present = attempt_of(context.get("task_store"))
    if present is not None and present.task_instance is task_instance:
        return present
    attempt = Attempt(task_instance, context)
    native = [name for name in attempt.stores if name in context and attempt_of(context[name]) is None]
    for name, store in attempt.stores.items():
        if name not in native:
            context[name] = store
    if native:  # Airflow 3.3 and later
        from milepost.airflow.beside import stand_beside

        stand_beside(attempt, task_instance, context, native)
    return attempt


def wrap(task_instance: Any) -> None:
    """Replace ``execute`` and ``resume_execution`` on the operator object of a task instance that is about to run.

    Args:
        task_instance: Airflow's.
    """
    task = task_instance.task
    state = _State(task_instance, task)
    for name in _METHODS:
        method = getattr(task, name, None)
        # Past the operator's own `__setattr__`, which takes what is set for an argument.
        if method is not None and not hasattr(method, "__milepost__"):
            task.__dict__[name] = state.around(name, method)


class _State:
    """One run of one operator object: the outermost of its two methods opens and ends the attempt."""

    def __init__(self, task_instance: Any, task: Any) -> None:
        self.task_instance = task_instance
        self.task = task
        self.entered = False

    def around(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)  # Airflow 2 looks at the name of the function
        def run(*args: Any, **kwargs: Any) -> Any:
            context = kwargs.get("context", args[0] if args else None)
            # An operator may call its own `execute`, and resuming may lead there.
            if self.entered or context is None:
                return method(*args, **kwargs)
            self.entered = True
            try:
                return self.run(name, method, context, args, kwargs)
            finally:
                self.entered = False
                for wrapped in _METHODS:
                    self.task.__dict__.pop(wrapped, None)

        run.__milepost__ = True  # type: ignore[attr-defined]
        return run

    def run(self, entered: str, method: Callable[..., Any], context: Any, args: Any, kwargs: Any) -> Any:
        attempt = _attempt(self.task_instance, context)
        # Something may be left of an earlier process: an attempt that still runs, keys to drop, values that are staged.
        if entered == "resume_execution" or compat.has_a_past(self.task_instance, self.task):
            attempt.open()
        compat.let_coroutines_run(self.task)
        try:
            result = method(*args, **kwargs)
            attempt.end("success")
        except BaseException as error:
            attempt.end(compat.state_after(error, self.task_instance, self.task), error)
            if compat.cleared_in_run(error, self.task_instance):
                attempt.clear()
            compat.leave_if_superseded(error, self.task_instance)
            raise
        return result
