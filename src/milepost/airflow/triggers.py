"""``self.asset_store`` of event triggers, on Airflow 3.

Triggers run in a child of the triggerer that has no database. So the triggerer itself, which has, looks up which assets a
trigger watches, and sends that along with the trigger; the child makes the stores, off its event loop, before it runs.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

from milepost.accessors import AssetStoreAccessor
from milepost.airflow import compat, process
from milepost.airflow.unreachable import unreachable_stores
from milepost.assets import Asset
from milepost.calls import Handle
from milepost.entry import Writer
from milepost.errors import MilepostError, StoreError
from milepost.runner.watch.trigger import WatchedStores
from milepost.scopes import AssetScope, TaskScope

__all__ = ["install"]

_MARK: Final = "\nmilepost:"
"""Between the arguments of a trigger and what is sent along; neither JSON nor what is encrypted has such a line."""

_log = logging.getLogger("milepost.airflow")


class Watch(NamedTuple):
    """One asset that a trigger watches.

    Args:
        watcher: The name of the watcher, where Airflow knows it (from 3.2 on).
        name: The asset's name.
        uri: The asset's URI.
    """

    watcher: str | None
    name: str
    uri: str


def install() -> None:
    """Have the triggerer of this process, and the child that it will fork, give event triggers their stores."""
    found = compat.triggerer_classes()
    if found is None or hasattr(found[1].run_trigger, "__milepost__"):
        return
    supervisor, runner = found
    supervisor.update_triggers = _sending(supervisor.update_triggers)
    runner.create_triggers = _receiving(runner.create_triggers)
    runner.run_trigger = _preparing(runner.run_trigger)


# -- in the triggerer -----------------------------------------------------------------------------------------------------


def _sending(update: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(update)
    def update_triggers(self: Any, *args: Any, **kwargs: Any) -> Any:
        done = update(self, *args, **kwargs)
        new = {one.id: one for one in self.creating_triggers if one.ti is None and _MARK not in one.encrypted_kwargs}
        if new:
            for number, watched in compat.watched_assets(list(new)).items():
                new[number].encrypted_kwargs += _MARK + json.dumps(watched)
        return done

    return update_triggers


# -- in its child ---------------------------------------------------------------------------------------------------------


def _receiving(create: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(create)
    async def create_triggers(self: Any) -> Any:
        known = self.__dict__.setdefault("_milepost_watched", {})
        for one in self.to_create:
            one.encrypted_kwargs, mark, sent = one.encrypted_kwargs.partition(_MARK)
            if mark:
                known[one.id] = [Watch(*parts) for parts in json.loads(sent)]
        return await create(self)

    return create_triggers


def _preparing(run: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(run)
    async def run_trigger(self: Any, trigger_id: int, trigger: Any, *args: Any, **kwargs: Any) -> Any:
        watched = self.__dict__.get("_milepost_watched", {}).pop(trigger_id, None)
        if watched:
            import asyncio

            stores, longer = await asyncio.to_thread(_stores, watched)
            trigger.asset_store = stores
            if longer or getattr(trigger, "asset_state_store", None) is None:
                trigger.asset_state_store = stores
        return await run(self, trigger_id, trigger, *args, **kwargs)

    run_trigger.__milepost__ = True  # type: ignore[attr-defined]
    return run_trigger


def _stores(watched: Sequence[Watch]) -> tuple[Any, bool]:
    """Return the stores of a trigger, and whether they take Airflow's own name over."""
    from milepost.airflow.opening import within

    try:
        settings = process.settings()
        return within(settings, lambda: _made(process.store(settings), watched)), settings.take_over
    except Exception as error:  # noqa: BLE001 - the stores raise it, and only a trigger that uses them fails of it
        kept = error if isinstance(error, MilepostError) else StoreError(f"{type(error).__name__}: {error}")
        names = ", ".join(one.name for one in watched)
        _log.error("Milepost's stores cannot be used by the watcher of %s: %s", names, kept)
    assets = [Asset(one.name, one.uri) for one in watched]
    return unreachable_stores(kept, TaskScope("-", "-", "-"), assets, ())["asset_store"], False


def _made(store: Any, watched: Sequence[Watch]) -> WatchedStores:
    accessors, names, scopes = {}, {}, []
    for one in watched:
        record = store.assets.register(Asset(one.name, one.uri))
        writer = Writer("watcher", user=one.watcher).encode()
        handle = Handle(record.scope, writer, owner_id=record.id, warns=True)
        accessors[record.id] = AssetStoreAccessor(store.metastore, handle, store.settings.max_value_bytes)
        names[record.id] = (record.name, record.uri)
        scopes.append(AssetScope(record.id, record.name, record.uri))
    return WatchedStores(accessors, names, scopes, ())
