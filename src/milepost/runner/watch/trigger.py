"""One trigger as it runs: started again when it ends or fails, and never resumed before its event is persisted."""

from __future__ import annotations

import asyncio
import inspect
import os
import random
import traceback
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final, TypeVar

from milepost.accessors import AssetStoreAccessor, AssetStoreAccessors
from milepost.calls import Handle
from milepost.errors import StoreUnreachableError
from milepost.runner.watch.ids import EventIds, Noticing
from milepost.sdk.triggers import TriggerEvent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from milepost.calls import RecordedEvent
    from milepost.events import Events
    from milepost.runner.watch.display import WatchDisplay
    from milepost.runner.watch.plan import Watched
    from milepost.scopes import AssetScope
    from milepost.store import Store

__all__ = ["CLEANUP_SECONDS", "RunningTrigger", "backoff"]

R = TypeVar("R")

CLEANUP_SECONDS: Final = 5.0
"""How long a trigger may take to clean up."""

_PACKAGE: Final = __file__.removesuffix("runner/watch/trigger.py")
_STDLIB: Final = os.path.dirname(os.__file__) + os.sep  # noqa: PTH120 - with what is installed below it

_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 60.0
_SETTLED: Final = 60.0
"""A trigger that ran for so many seconds begins anew with the shortest wait when it fails."""


def backoff(failures: int, share: Callable[[], float] = random.random) -> float:
    """Return how many seconds to wait after so many failures in a row: 1, 2, 4, … 60, less up to half of it.

    Args:
        failures: At least 1.
        share: Draws a number from 0 to 1; what is drawn keeps many that failed at once from coming back at once.
    """
    most = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(failures - 1, 30))
    return most * (1 - share() / 2)


def _is_users(file: str) -> bool:
    """Tell whether a line is of the DAG file or of a library, not of Milepost or of Python itself."""
    return not file.startswith(_PACKAGE) and ("-packages" in file or not file.startswith((_STDLIB, "<frozen")))


class WatchedStores(AssetStoreAccessors):
    """The asset stores of a trigger: ``self.asset_store``."""

    _MEMBER = "watched by this trigger; its assets"
    _SHORTHAND = "a trigger that watches exactly one asset"
    _OWNER = "this trigger"


class RunningTrigger:
    """A trigger at work.

    Args:
        watched: The trigger and what it watches.
        assets: Its assets, each with its number and both names, and the name of the watcher.
        store: The store.
        events: Where events are recorded.
        display: Where events and trouble are shown.
        started: Gets the runs that an event started.
    """

    def __init__(
        self,
        watched: Watched,
        assets: Sequence[tuple[AssetScope, str]],
        store: Store,
        events: Events,
        display: WatchDisplay,
        started: Callable[[RecordedEvent], Awaitable[None]],
    ) -> None:
        self.watched = watched
        self.trigger = watched.trigger
        self.stopping = False
        self._assets = assets
        self._events = events
        self._display = display
        self._started = started
        numbers = {(scope.name, scope.uri): scope.asset_id for scope, _ in assets}
        self._dags: Any = [(dag_id, [numbers[names] for names in on]) for dag_id, on in watched.dags.items()]
        noticing = Noticing(store.metastore)
        handles = [Handle(scope, f"watcher:{name}", owner_id=scope.asset_id, warns=True) for scope, name in assets]
        self._ids = EventIds(noticing, handles)
        limit = store.settings.max_value_bytes
        scopes = [scope for scope, _ in assets]
        accessors: Any = {one.scope.asset_id: AssetStoreAccessor(noticing, one, limit) for one in handles}  # type: ignore[union-attr]
        names: Any = {scope.asset_id: (scope.name, scope.uri) for scope in scopes}
        self.trigger.asset_store = self.trigger.asset_state_store = WatchedStores(accessors, names, scopes, ())

    async def run(self) -> None:
        """Run the trigger until this is cancelled with ``stopping`` set; a trigger may raise `CancelledError` itself."""
        failures = 0
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await self._once()
            except BaseException as error:
                # A trigger may raise anything without taking the others along; a library that gives up calls `sys.exit`.
                if self.stopping:
                    raise
                failures = 1 if loop.time() - began > _SETTLED else failures + 1
                wait = backoff(failures)
                self._display.trouble(self.watched.label, f"{self._describe(error)}; starts again in {wait:.1f} s")
            else:
                failures, wait = 0, _FIRST_WAIT  # one that waits for a single event has ended; there may be more
            await asyncio.sleep(wait)

    async def _once(self) -> None:
        """Run the trigger from its beginning to its end."""
        self._ids.start()
        generator: AsyncIterator[Any] = self.trigger.run()
        try:
            # What comes behind the `yield` in the trigger runs when the next event is asked for: after `_take`.
            async for event in generator:
                await self._take(event)
        finally:
            await self._end(generator)

    async def _take(self, event: Any) -> None:
        """Persist an event with the runs that it starts, however long the store takes."""
        if not isinstance(event, TriggerEvent):
            raise TypeError(f"run() has to yield a TriggerEvent, not {type(event).__name__}")
        event_id = await self._insist(lambda: self._ids.name(event))
        now = datetime.now(timezone.utc)
        record = self._events.arecord
        recorded = await self._insist(
            lambda: record(event_id, event.payload, assets=self._assets, dags=self._dags, logical_date=now)
        )
        self._display.event(self._assets, event_id, recorded)
        await self._started(recorded)

    async def _insist(self, call: Callable[[], Awaitable[R]]) -> R:
        """Make a call that is safe to repeat, again and again while the store cannot be reached."""
        failures = 0
        while True:
            try:
                return await call()
            except StoreUnreachableError as error:
                failures += 1
                wait = backoff(failures)
                self._display.trouble(self.watched.label, f"an event waits for the store, again in {wait:.1f} s: {error}")
            await asyncio.sleep(wait)

    async def _end(self, generator: Any) -> None:
        """Let the trigger clean up, for a bounded time and whatever comes of it."""
        steps = [generator.aclose] if hasattr(generator, "aclose") else []
        for step in (*steps, self.trigger.cleanup):
            try:
                await asyncio.wait_for(step(), CLEANUP_SECONDS)
            except asyncio.TimeoutError:
                self._display.trouble(self.watched.label, f"did not clean up within {CLEANUP_SECONDS:g} s")
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # noqa: BLE001 - the user's code again; there is no more to be done
                self._display.trouble(self.watched.label, f"while it cleaned up: {self._describe(error)}")

    def _describe(self, error: BaseException) -> str:
        """Return an error in one line, with the user's line that raised it, or else that of the trigger's `run`."""
        frames = [one for one in traceback.extract_tb(error.__traceback__) if _is_users(one.filename)]
        text = " ".join(traceback.format_exception_only(type(error), error)[-1].split())
        if frames:
            return f"{text} ({frames[-1].filename}:{frames[-1].lineno})"
        code = getattr(inspect.unwrap(type(self.trigger).run), "__code__", None)
        return text if code is None else f"{text} ({code.co_filename}:{code.co_firstlineno})"
