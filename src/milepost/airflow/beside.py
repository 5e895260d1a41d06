"""On Airflow 3.3 and later: its own stores have the longer names, unless ``take_over`` gives them to Milepost's.

After an upgrade from an older Airflow, Milepost's store has what Airflow's own has not. A task that looks for such a key and
does not find it would begin anew, and an operator submit its job once more; so the log says where the key is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from milepost.airflow import compat, configuration
from milepost.config.settings import as_flag
from milepost.errors import MilepostError
from milepost.scopes import AssetScope, TaskScope

if TYPE_CHECKING:
    from milepost.airflow.attempt import Attempt

__all__ = ["stand_beside"]

_ABSENT: Final = object()
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
        parts = (task_instance.dag_id, task_instance.run_id, task_instance.task_id, index)
        _watch(context["task_state_store"], partial(TaskScope, *parts))
    if "asset_state_store" in names:
        for accessor in compat.native_asset_accessors(context["asset_state_store"]):
            _watch(accessor, partial(AssetScope, None, accessor._name, accessor._uri))


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


def _watch(accessor: Any, scope: Callable[[], TaskScope | AssetScope]) -> None:
    """Have a native accessor notice keys that it does not have and Milepost's store has."""
    notice = _Notice(scope)
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
    """Says once that Milepost's store has what Airflow's own has not."""

    def __init__(self, scope: Callable[[], TaskScope | AssetScope]) -> None:
        self._scope = scope
        self._over = False

    def __call__(self, key: str) -> None:
        if self._over:
            return
        from milepost.airflow import process
        from milepost.airflow.opening import within

        try:
            settings = process.settings()
            if compat.in_process() and not settings.keep_test_state:
                return
            scope = self._scope()
            held = within(settings.open_timeout, lambda: _holds(process.store(settings), scope, key))
        except (MilepostError, ValueError) as error:
            self._over = True
            _log.warning(
                "it cannot be told whether Milepost's store has the key %r, which Airflow's own has not: %s",
                key, error, extra={"action": "airflow_native_absent"},
            )  # fmt: skip
            return
        if held:
            self._over = True
            _log.error(
                "Airflow's own store has no %r of %s, but Milepost's has: `milepost airflow export`, run where the "
                "scheduler runs, moves it; or set [milepost] take_over = True. Until then this task begins anew",
                key, scope, extra={"action": "airflow_native_empty"},
            )  # fmt: skip


def _holds(store: Any, scope: TaskScope | AssetScope, key: str) -> bool:
    if isinstance(scope, TaskScope):
        return key in store.task_store(scope)
    record = store.assets.get(scope)
    return record is not None and record.active and key in store.asset_store(record.scope)
