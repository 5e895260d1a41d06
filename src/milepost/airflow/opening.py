"""Opens an attempt inside Airflow, and records how it ended. Loaded where a task uses its stores."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from milepost import tries
from milepost.airflow import compat, process
from milepost.airflow.settings import AirflowSettings
from milepost.airflow.unreachable import Watched, unreachable_stores
from milepost.config import load_settings, mask_url
from milepost.entry import InstanceState, TaskOptions, Writer
from milepost.errors import MilepostError, StoreError, StoreUnreachableError
from milepost.instances import Instances
from milepost.scopes import TaskScope

__all__ = ["Opened", "within"]

T = TypeVar("T")

_OPTIONS: Final = "__milepost_options__"
_NO_SCOPE: Final = TaskScope("-", "-", "-")
"""Of an instance that cannot be named; it stands in no store."""
_log = logging.getLogger("milepost.airflow")


class Opened:
    """An attempt that was opened, or that could not be.

    Where the store cannot be had, the task gets stores that raise the reason at their first call.

    Attributes:
        stores: ``task_store`` and ``asset_store``.
    """

    def __init__(self, scope: TaskScope, number: int, stores: Mapping[str, Any]) -> None:
        self.scope = scope
        self.number = number
        self.stores = stores
        self._instances: Instances | None = None
        self._watched: Watched | None = None
        self._incarnation: str | None = None

    @classmethod
    def begin(cls, task_instance: Any, task: Any, context: Any, number: int) -> Opened:
        """Open the attempt of a task instance.

        Args:
            task_instance: Airflow's.
            task: The operator, unmapped.
            context: The task's context.
            number: The number that Airflow gave the attempt as it began.
        """
        inlets, outlets = (list(getattr(task, name, None) or ()) for name in ("inlets", "outlets"))
        position = task_instance.map_index
        index = "" if position is None or position < 0 else f"[{position}]"
        label = f"{task_instance.dag_id}/{task_instance.run_id}/{task_instance.task_id}{index}"  # as `TaskScope` has it
        scope = _NO_SCOPE
        try:
            identity = compat.identity(task_instance, task, context, number)
            scope = TaskScope(*identity.scope)
            return cls._open(scope, identity, task, inlets, outlets)
        except Exception as error:  # noqa: BLE001 - the stores raise it, and only a task that uses them fails of it
            kept = error if isinstance(error, MilepostError) else StoreError(f"{type(error).__name__}: {error}")
            kept.__cause__ = error.__cause__ if kept is error else error
            _log.error(
                "Milepost's stores cannot be used by %s: %s", label, kept, extra={"action": "airflow_store_unavailable"}
            )
        return cls(scope, 1, unreachable_stores(kept, scope, inlets, outlets))

    @classmethod
    def _open(cls, scope: TaskScope, identity: compat.Identity, task: Any, inlets: list[Any], outlets: list[Any]) -> Opened:
        settings = process.settings()
        options, item, name = _options(task, identity.mapped)

        def connect_and_open() -> tuple[Instances, Watched, Mapping[str, Any]]:
            store = process.store(settings, test=identity.run if identity.test and not settings.keep_test_state else None)
            watched = Watched(store.metastore)
            instances = Instances(watched, Writer("python"), store.settings.max_value_bytes)
            opened = instances.open(
                scope,
                identity.attempt,
                incarnation=identity.incarnation,
                item=item,
                item_name=name,
                inlets=inlets,
                outlets=outlets,
                options=options,
                max_tries=identity.max_tries,
                run_clears=identity.run_clears,
            )
            watched.used = False
            return instances, watched, opened

        instances, watched, opened = within(settings, connect_and_open)
        found = cls(scope, identity.attempt, opened)
        found._instances, found._watched, found._incarnation = instances, watched, identity.incarnation
        return found

    def end(self, state: InstanceState, error: BaseException | None = None) -> None:
        """Record how the attempt ended, before Airflow hears of it.

        Args:
            state: How.
            error: What ended it.

        Raises:
            MilepostError: The task used the stores, and its success cannot be recorded: what it staged may not be seen.
        """
        if self._instances is None or self._watched is None:
            return
        used = self._watched.used
        reason = f"{type(error).__name__}: {error}" if error is not None and state in ("failed", "up_for_retry") else None
        try:
            self._instances.finish(self.scope, self.number, state, incarnation=self._incarnation, error=reason)
        except MilepostError as failure:
            if state == "success" and used:
                raise
            _log.warning(
                "the end of %s (%s) cannot be recorded: %s", self.scope, state, failure, extra={"action": "airflow_end_lost"}
            )

    def clear(self) -> None:
        """Start the instance over, as a person cleared it in Airflow while this attempt ran."""
        if self._instances is None:
            return
        try:
            self._instances.clear(self.scope, attempt=self.number)
        except MilepostError as failure:
            _log.warning("a clear of %s cannot be recorded: %s", self.scope, failure, extra={"action": "airflow_clear_lost"})


def _options(task: Any, mapped: Mapping[str, Any] | None) -> tuple[TaskOptions, Mapping[str, Any] | None, str | None]:
    """Return the options of a task, what identifies its mapped item, and a name of that for people."""
    function = getattr(task, "python_callable", None)
    chosen = getattr(function, _OPTIONS, None) or getattr(type(task), _OPTIONS, None)
    if chosen is None and mapped is None:
        return TaskOptions(), None, None
    from milepost.sdk.options import Options, item_name  # a third of the time of a start; few tasks need it

    chosen = chosen or Options()
    options = TaskOptions(clear_on_success=chosen.clear_on_success, on_clear=chosen.on_clear)
    if mapped is None:
        return options, None, None
    item = chosen.item(mapped)
    return options, item, item_name(item)


def within(settings: AirflowSettings, work: Callable[[], T]) -> T:
    """Return what ``work`` returns, unless that takes too long: a task that does without the stores is not kept waiting.

    Args:
        settings: The settings, with ``open_timeout``.
        work: Works on the store.

    Raises:
        StoreUnreachableError: It took longer; the message has what went wrong so far.
    """
    answer: list[T] = []
    failure: list[BaseException] = []
    met: list[BaseException] = []

    def run() -> None:
        tries.failures.set(met)
        try:
            answer.append(work())
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread that waits
            failure.append(error)

    # Not a pool: its threads are waited for when the process ends.
    thread = threading.Thread(target=run, name="milepost-open", daemon=True)
    thread.start()
    thread.join(settings.open_timeout)
    if failure:
        raise failure[0]
    if not answer:
        url = mask_url(load_settings(settings.arguments).url)
        reason = f": {met[-1]}" if met else "; it has not answered so far"
        raise StoreUnreachableError(
            f"the store {url} was not open after {settings.open_timeout} seconds ([milepost] open_timeout){reason}"
        ) from (met[-1] if met else None)
    return answer[0]
