"""One command: watch the assets of a DAG file."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from milepost import calls
from milepost.assets import Asset
from milepost.errors import ConflictError, StoreUnreachableError
from milepost.events import Events
from milepost.runner.declaring import declare_assets, scheduled_elsewhere
from milepost.runner.errors import DagLoadError, RunnerUsageError
from milepost.runner.holder import HOLD_SECONDS, own_name, surely_dead
from milepost.runner.load import load_dags
from milepost.runner.run import _check_store, _check_tasks, _check_usage
from milepost.runner.watch.check import check_triggers
from milepost.runner.watch.display import WatchDisplay
from milepost.runner.watch.loop import Threads, run_loop
from milepost.runner.watch.plan import Plan, Watched, make_plan
from milepost.runner.watch.pulse import Pulse
from milepost.runner.watch.runs import EventRuns
from milepost.runner.watch.trigger import CLEANUP_SECONDS, RunningTrigger
from milepost.sdk.triggers import collecting_watchers
from milepost.store import aconnect
from milepost.streams import steady_streams

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from milepost.scopes import AssetScope
    from milepost.sdk.dag import DAG
    from milepost.store import Store

__all__ = ["watch_file"]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_LOOK_SECONDS: Final = HOLD_SECONDS / 3
"""Seconds between two looks at the lease and at the runs that have not ended."""
_SPARE_THREADS: Final = 32
"""Threads beside one for each trigger."""


def watch_file(
    path: str | os.PathLike[str],
    dag_ids: Sequence[str] = (),
    *,
    workers: int = 1,
    max_runs: int = 4,
    url: str | None = None,
    check: bool = False,
    as_json: bool = False,
) -> int:
    """Run the event triggers of a file's assets, and the runs that their events start, until a signal says to stop.

    Args:
        path: The DAG file.
        dag_ids: The DAGs whose assets are watched; empty: all.
        workers: The most tasks of a run at once.
        max_runs: The most runs at once.
        url: The store; by default as configured.
        check: Only look for triggers that store their cursor before they yield.
        as_json: Whether standard output is for events and runs as lines of JSON alone.

    Returns:
        The exit code: 0 it was told to stop and did, 1 ``check`` found something, 2 the file or the arguments are wrong,
        5 another process watches the file on this store.

    Raises:
        MilepostError: The store cannot be used; the kind of error says why.

    .. versionadded:: 0.1
    """
    search_path = list(sys.path)
    file = os.path.abspath(os.fspath(path))  # noqa: PTH100
    with steady_streams():
        try:
            _check_usage(None, workers, (), more=False)
            _check_max_runs(max_runs)
            with collecting_watchers() as watchers:
                dags = load_dags(path)
            plan = make_plan(dags, watchers, dag_ids, os.fspath(path))
            for dag_id in dict.fromkeys(dag_id for one in plan.watched for dag_id in one.dags):
                _check_tasks(dags[dag_id], ())
            findings = check_triggers([one.trigger for one in plan.watched])
            for finding in findings:
                sys.stderr.write(f"{finding}\n")
            if check:
                return _report(plan, len(findings))
            watch = _open_and_watch(plan, dags, file, url, workers, max_runs, search_path, as_json)
            return run_loop(watch)
        except (DagLoadError, RunnerUsageError) as error:
            sys.stderr.write(f"milepost: {error}\n")
            return 2
        except ConflictError as error:
            sys.stderr.write(f"milepost: {error}\n")
            return 5


def _check_max_runs(max_runs: int) -> None:
    if max_runs < 1:
        raise RunnerUsageError(f"max_runs must be 1 or more, not {max_runs}")


def _report(plan: Plan, findings: int) -> int:
    for note in plan.notes:
        sys.stderr.write(f"{note}\n")
    if not findings:
        count = len(plan.watched)
        sys.stdout.write(f"{count} trigger{'' if count == 1 else 's'}, none stores its cursor before it yields\n")
    return int(findings > 0)


async def _open_and_watch(
    plan: Plan,
    dags: Mapping[str, DAG],
    file: str,
    url: str | None,
    workers: int,
    max_runs: int,
    path: list[str],
    as_json: bool,
) -> int:
    async with await aconnect(url) as store:
        _check_store(store)
        with WatchDisplay(as_json=as_json) as display:
            events = Events(store.metastore, store.settings.max_value_bytes)
            runs = EventRuns(
                store,
                events,
                display,
                file=file,
                url=url,
                dags=plan.dags,
                workers=workers,
                max_runs=max_runs,
                path=path,
            )
            return await _Watch(plan, dags, file, store, events, display, runs).run()


class _Watch:
    """What is at work between the start and the signal to stop."""

    def __init__(
        self,
        plan: Plan,
        dags: Mapping[str, DAG],
        file: str,
        store: Store,
        events: Events,
        display: WatchDisplay,
        runs: EventRuns,
    ) -> None:
        self.plan = plan
        self.dags = dags
        self.file = file
        self.store = store
        self.events = events
        self.display = display
        self.runs = runs
        self._stop = asyncio.Event()
        self._stopped_by: int | None = None
        self._pulse = Pulse(file, self._blocked, self._leave_blocked)
        digest = blake2b(os.path.realpath(file).encode(errors="surrogateescape"), digest_size=16).hexdigest()
        self._lease = f"watch:{digest}"
        self._holder = own_name()

    async def run(self) -> int:
        """Watch until a signal, or until another process has taken over.

        Raises:
            ConflictError: Another process watches the file on this store.
        """
        _show_logs()
        loop = asyncio.get_running_loop()
        threads = Threads(_SPARE_THREADS + len(self.plan.watched))
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)
        self._pulse.start(_SIGNALS)
        try:
            await self._take_lease()
            await self._watch(loop)
        finally:
            if busy := await threads.leave(CLEANUP_SECONDS):
                self._leave(_count(busy, "thread"), CLEANUP_SECONDS)
            self._pulse.stop()
        return 0

    async def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        triggers: list[RunningTrigger] = []
        tasks: list[asyncio.Task[None]] = []
        keeper: asyncio.Task[None] | None = None
        try:
            for note in self.plan.notes:
                self.display.note(note)
            await asyncio.to_thread(declare_assets, self.store, self.dags)
            watched = {names for one in self.plan.watched for names in one.assets}
            for note in await asyncio.to_thread(lambda: [*scheduled_elsewhere(self.store, self.dags, watched)]):
                self.display.note(note)
            triggers = [await self._prepare(one) for one in self.plan.watched]
            await self.runs.look()
            tasks = [loop.create_task(one.run()) for one in triggers]
            keeper = loop.create_task(self._keep())
            self._greet()
            stop = loop.create_task(self._stop.wait())
            await asyncio.wait([stop, keeper], return_when=asyncio.FIRST_COMPLETED)
            stop.cancel()
            if keeper.done():
                keeper.result()  # it ends by an error only
        finally:
            await self._end(triggers, tasks, keeper)

    def _on_signal(self, number: int) -> None:
        if self._stopped_by is not None:
            self.runs.kill()
            return
        self._stopped_by = number
        self.display.note(f"stopping on {signal.Signals(number).name}; once more kills runs at once")
        self._stop.set()

    def _blocked(self, place: str) -> None:
        self.display.note(
            f"{place} blocks the event loop: all triggers stand still, and so does the lease; await what takes long, or "
            "give it to asyncio.to_thread"
        )

    def _leave_blocked(self, last: bool) -> None:
        """Stop runs, and at last end the process, although a trigger keeps the loop from doing so."""
        self.runs.terminate()
        if last:
            self.display.note("a trigger blocks the event loop, so the process ends without it")
            self._exit()

    def _greet(self) -> None:
        self.display.triggers = len(self.plan.watched)
        assets = {names for one in self.plan.watched for names in one.assets}
        self.display.note(f"watching {_count(len(assets), 'asset')} with {_count(len(self.plan.watched), 'trigger')}")
        self.display.refresh()

    async def _prepare(self, watched: Watched) -> RunningTrigger:
        """Give a trigger the stores of its assets."""
        assets: list[tuple[AssetScope, str]] = []
        for (name, uri), watcher in watched.assets.items():
            scope: Any = (await self.store.aasset_store(Asset(name, uri))).scope
            assets.append((scope, watcher))
        return RunningTrigger(watched, assets, self.store, self.events, self.display, self._started)

    async def _started(self, recorded: calls.RecordedEvent) -> None:
        self.runs.add(recorded.runs)

    # -- the lease ----------------------------------------------------------------------------------------------------

    async def _take_lease(self) -> None:
        """Become the one process that watches the file on this store.

        Raises:
            ConflictError: Another one does.
        """
        other = await self._ask_lease(self._holder, HOLD_SECONDS)
        if other is not None and await asyncio.to_thread(surely_dead, other):
            await self._ask_lease(other, None)
            other = await self._ask_lease(self._holder, HOLD_SECONDS)
        if other is not None:
            raise ConflictError(f"{self.file} is watched by another process on this store ({other})")

    async def _ask_lease(self, holder: str, ttl: float | None) -> str | None:
        return await self.store.metastore.acall(calls.TakeLease(self._lease, holder, ttl))

    async def _keep(self) -> None:
        """Renew the lease, and look for runs that have not ended, until the lease is lost.

        Raises:
            ConflictError: Another process has taken over, which it may after this one stood still for long.
        """
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                other = await self._ask_lease(self._holder, HOLD_SECONDS)
                if other is not None:
                    raise ConflictError(f"another process has taken over and watches {self.file} now ({other})")
                await self.runs.look()
            except StoreUnreachableError as error:
                self.display.note(f"the store does not answer, trying again: {error}")
            self.display.refresh()

    # -- the end ------------------------------------------------------------------------------------------------------

    async def _end(
        self, triggers: Sequence[RunningTrigger], tasks: Sequence[asyncio.Task[None]], keeper: asyncio.Task[None] | None
    ) -> None:
        """Stop triggers and runs, each within a bounded time, and give the lease up."""
        for trigger in triggers:
            trigger.stopping = True
        for task in tasks:
            task.cancel()
        stopping = asyncio.ensure_future(self.runs.stop())
        late: set[asyncio.Task[None]] = set()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=3 * CLEANUP_SECONDS)
        await stopping
        if keeper is not None:
            keeper.cancel()
        try:
            await self._ask_lease(self._holder, None)
        except StoreUnreachableError as error:
            self.display.note(f"the lease could not be given up, so it ends by itself: {error}")
        if late:
            self._leave(_count(len(late), "trigger"), 3 * CLEANUP_SECONDS)

    def _leave(self, late: str, seconds: float) -> None:
        """End the process although triggers or their threads go on: nothing stops those, and they would keep it for ever."""
        self.display.note(f"{late} did not stop within {seconds:g} s; the process ends anyway")
        self._exit()

    def _exit(self) -> None:
        self.display.__exit__()
        sys.stderr.flush()
        os._exit(0 if self._stopped_by is not None or self._pulse.told else 5)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _show_logs() -> None:
    """Show what triggers log, unless the DAG file has set up logging itself."""
    import logging

    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
