"""On Airflow 3.3 and later: its own stores have the longer names, unless ``take_over`` gives them to Milepost's.

After an upgrade from an older Airflow, Milepost's store has what Airflow's own has not. A task that looks for such a key and
does not find it begins anew; so the log says where the key is. A durable operator would submit its job once more: it fails.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from milepost.airflow import compat, configuration
from milepost.config.settings import as_flag
from milepost.errors import JobConflictError
from milepost.scopes import AssetScope, TaskScope

if TYPE_CHECKING:
    from milepost.airflow.attempt import Attempt
    from milepost.airflow.settings import AirflowSettings
    from milepost.store import Store

__all__ = ["stand_beside"]

_ABSENT: Final = object()
_MOVE: Final = "`milepost airflow export`, run where the scheduler runs, moves it; or set [milepost] take_over = True"
_LOOK: Final = (
    "look for its job; if it is there, store its id (`milepost task-store set`) and move that (`milepost airflow export`), "
    "if not, delete the key (`milepost task-store delete`)"
)
_log = logging.getLogger("milepost.airflow")


def stand_beside(attempt: Attempt, task_instance: Any, context: Any, names: Iterable[str]) -> None:
    """Take the longer names over, or watch what the stores behind them are asked for.

    Args:
        attempt: The attempt with Milepost's stores.
        task_instance: Airflow's.
        context: The task's context.
        names: Names in the context that are Airflow's own.
    """
    if _take_over():
        for name in names:
            context[name] = attempt.stores[name]
        return
    if "task_state_store" in names:
        index = task_instance.map_index if task_instance.map_index is not None else -1
        scope = partial(TaskScope, task_instance.dag_id, task_instance.run_id, task_instance.task_id, index)
        _watch(context["task_state_store"], _Notice(scope, attempt, context))
    if "asset_state_store" in names:
        for accessor in compat.native_asset_accessors(context["asset_state_store"]):
            _watch(accessor, _Notice(partial(AssetScope, None, accessor._name, accessor._uri)))


def _take_over() -> bool:
    raw = configuration.plainly_configured(configuration.OURS, "take_over")
    try:
        return raw is not None and as_flag(raw)
    except ValueError as error:
        _log.error(
            "Airflow's configuration [milepost]: take_over %s, so the longer names stay Airflow's own",
            error,
            extra={"action": "airflow_take_over"},
        )
        return False


def _watch(accessor: Any, notice: _Notice) -> None:
    """Have a native accessor notice keys that it does not have and Milepost's store has."""
    get = accessor.get

    def watched(key: str, default: Any = None) -> Any:
        found = get(key, _ABSENT)
        if found is _ABSENT:
            notice(key)
            return default
        return found

    accessor.get = watched
    if (aget := getattr(accessor, "aget", None)) is None:
        return

    async def awatched(key: str, default: Any = None) -> Any:
        found = await aget(key, _ABSENT)
        if found is _ABSENT:
            import asyncio

            await asyncio.to_thread(notice, key)
            return default
        return found

    accessor.aget = awatched


class _Notice:
    """Says that Milepost's store has what Airflow's own has not: in the log, once; to an operator that would submit, always.

    Args:
        scope: Makes the scope of the keys.
        attempt: The attempt of the task instance whose keys they are; `None`: they are those of an asset.
        context: The context of that.
    """

    def __init__(
        self, scope: Callable[[], TaskScope | AssetScope], attempt: Attempt | None = None, context: Any = None
    ) -> None:
        self._scope = scope
        self._attempt = attempt
        self._context = context
        self._over = False

    def __call__(self, key: str) -> None:
        submits = self._attempt is not None and _would_submit(self._context["task"], key)
        if self._over and not submits:
            return
        from milepost.airflow import process

        try:
            settings = process.settings()
            if compat.in_process() and not settings.keep_test_state:
                return
            held = self._look(settings, key)
        except Exception as error:  # noqa: BLE001 - a task that does not use Milepost's stores does not fail because of them
            self._over = True
            _log.warning(
                "it cannot be told whether Milepost's store has the key %r, which Airflow's own has not: %s",
                key, error, extra={"action": "airflow_native_absent"},
            )  # fmt: skip
            return
        if held is None:
            return
        self._over = True
        if submits and settings.durable_operators:
            raise JobConflictError(f"{held}. Nothing was submitted; where another job is wanted, clear the task")
        _log.error("%s. Until then this task begins anew", held, extra={"action": "airflow_native_empty"})

    def _look(self, settings: AirflowSettings, key: str) -> str | None:
        """Say what Milepost's store has under a key, and what to do; `None`: it has nothing."""
        from milepost.airflow import process
        from milepost.airflow.opening import within

        scope = self._scope()
        held = within(settings, lambda: _held(process.store(settings), scope, key))
        if held is None or self._attempt is None:
            return held
        # Where a person has cleared the task, or the run is another one of that id, this sets aside what was found.
        self._attempt.open()
        return within(settings, lambda: _held(process.store(settings), scope, key))


def _would_submit(task: Any, key: str) -> bool:
    """Tell whether a task is an operator with Airflow's own mixin, which submits a job if there is nothing under a key."""
    from airflow.sdk import ResumableJobMixin

    return isinstance(task, ResumableJobMixin) and bool(task.durable) and key == task.external_id_key


def _held(store: Store, scope: TaskScope | AssetScope, key: str) -> str | None:
    missing = f"Airflow's own store has no {key!r} of {scope}, but Milepost's has"
    if isinstance(scope, AssetScope):
        record = store.assets.get(scope)
        there = record is not None and record.active and key in store.asset_store(record.scope)
        return f"{missing}: {_MOVE}" if there else None
    accessor = store.task_store(scope)
    if key in accessor:
        return f"{missing}: {_MOVE}"
    from milepost.accessors.jobs import open_submission

    intent = open_submission(accessor, key)
    return None if intent is None else f"{missing} a submission that was cut off, token {intent.token}: {_LOOK}"
