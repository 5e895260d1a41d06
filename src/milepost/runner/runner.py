"""The loop of a run: starts attempts, waits for what happens, records it, until every task is finished."""

from __future__ import annotations

import os
import selectors
import signal
import time
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, Literal

from milepost.errors import RunNotFoundError, StaleAttemptError
from milepost.runner.errors import ResultDamagedError
from milepost.runner.expanding import Expansions
from milepost.runner.graph import nodes_of
from milepost.runner.opening import open_attempt
from milepost.runner.plan import Plan, Settled, Start, State
from milepost.runner.process import AttemptProcess, Reaper, how_it_died, launch
from milepost.runner.progress import Display, Row, label, seconds_of
from milepost.runner.signals import SignalPipe
from milepost.runner.spec import AttemptSpec, ExitCode
from milepost.runner.tokens import attempt_token
from milepost.runner.view import StoreView
from milepost.scopes import TaskScope
from milepost.sdk.mapped import MappedTask
from milepost.sdk.node import sources_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from milepost.run_records import InstanceRecord, RunRecord
    from milepost.runner.holder import Hold
    from milepost.sdk.dag import DAG
    from milepost.store import Store

__all__ = ["Runner"]

_GRACE: Final = 5.0
"""Seconds between asking an attempt to stop and killing it."""

_ENDED: Final = frozenset({"success", "skipped", "failed", "up_for_retry"})


class Runner:
    """Drives one run, which it holds.

    Args:
        store: The store.
        dag: The DAG.
        file: The file that it is from.
        run: The record of the run.
        hold: The hold on the run.
        workers: The most attempts at once.
        params: What the run was started with.
        path: The module search path for attempts.
        display: Where events are shown.
    """

    def __init__(
        self,
        store: Store,
        dag: DAG,
        file: str,
        run: RunRecord,
        *,
        hold: Hold,
        workers: int,
        params: Mapping[str, Any],
        path: list[str],
        display: Display,
    ) -> None:
        self.store = store
        self.dag = dag
        self.file = file
        self.run = run
        self.hold = hold
        self.workers = workers
        self.params = dict(params)
        self.display = display
        self.path = path
        self.settings = {
            option.name: value
            for option in fields(store.settings)
            if (value := getattr(store.settings, option.name)) is not None
        }
        records = store.instances.list(run.dag_id, run.run_id)
        self.records = {(record.scope.task_id, record.scope.map_index): record for record in records}
        states = {key: (record.state, record.attempt) for key, record in self.records.items()}
        self.plan = Plan(nodes_of(dag), states)
        self.view = StoreView(store, run.dag_id, run.run_id, self.plan.successes, {**dag.params, **self.params})
        self.expansions = Expansions(store, run, self.plan, self.view, display.note)
        self.running: list[AttemptProcess] = []
        self.seconds: dict[tuple[str, int], float] = {}
        self.errors: dict[tuple[str, int], str] = {}
        self.stopped_by: int | None = None
        self._selector = selectors.DefaultSelector()
        self._looked_at = time.monotonic()
        self._progress_trouble: Exception | None = None

    # -- the loop --------------------------------------------------------------------------------------------------

    def drive(self) -> Literal["success", "failed"] | None:
        """Run until every task is finished, or until a signal says to stop.

        Returns:
            How the run ended; `None` if it was stopped (see ``stopped_by``).

        Raises:
            RunHeldError: The hold on the run was lost; all attempts have been killed.
            StoreError: The store cannot be reached; all attempts have been killed.
        """
        with SignalPipe() as signals, Reaper() as reaper, self._selector:
            self._selector.register(signals.fd, selectors.EVENT_READ)
            try:
                while not (self.plan.done or self.stopped_by) or self.running:
                    if not self.stopped_by:
                        self._dispatch(reaper)
                    if self.running or not self.plan.done:
                        self._wait(signals)
                    self._keep_hold()
                    self._collect(reaper)
                    self._enforce()
                    self._look_at_progress()
                    if self.plan.done:
                        self._pick_up_clears()
            finally:
                for attempt in self.running:
                    attempt.reap(reaper)
        return None if self.stopped_by else self.plan.run_state

    def _keep_hold(self) -> None:
        """Renew the hold if it is time to.

        Called after each wait and before each decision is carried out: a runner that was stopped beyond the end of its hold
        (SIGSTOP, a laptop that slept) writes nothing and starts nothing before it knows whether another has taken over.
        """
        if trouble := self.hold.keep():
            self.display.note(trouble)

    def _wait(self, signals: SignalPipe) -> None:
        """Sleep until something happens or is due."""
        now = time.monotonic()
        due = [self.hold.due, *(attempt.deadline() for attempt in self.running)]
        if not self.stopped_by:
            due.append(self.plan.next_retry())
        if self.running:
            due.append(self._looked_at + self.display.interval)
        if signals.poll is not None:
            due.append(now + signals.poll)
        timeout = max(0.0, min(moment for moment in due if moment is not None) - now)
        for key, _ in self._selector.select(timeout):
            if key.data is not None and not key.data.pump():
                self._selector.unregister(key.fd)
        for number in signals.drain():
            self._stop(number)

    def _stop(self, number: int) -> None:
        now = time.monotonic()
        again = self.stopped_by is not None
        self.stopped_by = self.stopped_by or number
        if not again:
            self.display.note(f"stopping on {signal.Signals(number).name}; once more kills at once")
        for attempt in self.running:
            if again:
                attempt.kill_at = now
            elif attempt.stop_reason is None:
                self._ask_to_stop(attempt, "stopped with the runner", now)

    def _ask_to_stop(self, attempt: AttemptProcess, reason: str, now: float) -> None:
        attempt.stop_reason, attempt.kill_at = reason, now + _GRACE
        attempt.signal(signal.SIGTERM)

    def _enforce(self) -> None:
        """Stop attempts that run over their time, and kill those that do not stop."""
        now = time.monotonic()
        for attempt in self.running:
            if attempt.news:
                self._read_news(attempt, now)
            deadline = attempt.deadline()
            if deadline is None or deadline > now:
                continue
            if attempt.kill_at is None:
                self._ask_to_stop(attempt, f"ran longer than its {attempt.timeout:g} s (execution_timeout)", now)
            else:
                attempt.signal(signal.SIGKILL)
                attempt.kill_at = now + _GRACE

    def _read_news(self, attempt: AttemptProcess, now: float) -> None:
        for line in attempt.news:
            what, _, text = line.partition(" ")
            if what == "started":
                attempt.began = now
            elif what == "error":
                attempt.error = text
        attempt.news.clear()

    def _look_at_progress(self) -> None:
        now = time.monotonic()
        if now - self._looked_at < self.display.interval:
            return
        self._looked_at = now
        for attempt in self.running:
            try:
                value = self.store.task_store(self._scope(attempt.start)).get("progress")
            except Exception as error:  # noqa: BLE001 - a user's backend may raise anything, and this is for show
                if self._progress_trouble is None:
                    self.display.note(f"progress cannot be read: {error!r}")
                self._progress_trouble = error
                continue
            self.display.progress(attempt.start, value)
        self.display.refresh()

    # -- starting --------------------------------------------------------------------------------------------------

    def _scope(self, start: Start) -> TaskScope:
        return TaskScope(self.run.dag_id, self.run.run_id, start.task_id, start.map_index)

    def _dispatch(self, reaper: Reaper) -> None:
        """Do what the plan says until it has nothing more to say."""
        while decisions := self.plan.decide(time.monotonic(), self.workers - len(self.running)):
            outdated = False
            for decision in decisions:
                self._keep_hold()
                if isinstance(decision, Settled):
                    self._show_settled(decision)
                elif outdated or self._sources_cleared(decision.task_id):
                    if isinstance(decision, Start):
                        self.plan.take_back(decision)
                    else:
                        self.plan.reconsider(decision.task_id)
                    if not outdated:
                        self._pick_up_clears()
                    outdated = True
                elif isinstance(decision, Start):
                    self._launch(decision, reaper)
                else:
                    self._expand(decision.task_id)

    def _sources_cleared(self, task_id: str) -> bool:
        """Tell whether somebody has cleared a finished task whose result this one takes, so that there is none to take."""
        return any(
            bool(self._finished_and_cleared(source.task_id)) if source.is_mapped else self._was_cleared(source.task_id)
            for source in sources_of(self.dag.task_dict[task_id])
        )

    def _was_cleared(self, task_id: str) -> bool:
        """Tell the same of a task that is not mapped; before each of many attempts, so not by a look at the whole run."""
        record = self.store.instances.get(TaskScope(self.run.dag_id, self.run.run_id, task_id))
        return record is not None and record.state == "cleared" and self.plan.has_finished(task_id, -1)

    def _finished_and_cleared(self, task_id: str | None = None) -> list[InstanceRecord]:
        """Return the instances, of one task or of all, that finished in this run and that somebody has cleared since."""
        records = self.store.instances.list(self.run.dag_id, self.run.run_id, task_id, state="cleared")
        return [record for record in records if self.plan.has_finished(record.scope.task_id, record.scope.map_index)]

    def _show_settled(self, settled: Settled) -> None:
        if settled.state != "failed":
            self.display.note(f"{settled.task_id}: {settled.state.replace('_', ' ')}")

    def _expand(self, task_id: str) -> None:
        task = self.dag.task_dict[task_id]
        assert isinstance(task, MappedTask)
        try:
            count, anew = self.expansions.expand(task)
        except (TypeError, LookupError, ResultDamagedError) as error:
            reason = f"{task.defined_at}: cannot be expanded: {error}"
            self.errors[task_id, -1] = reason
            self.display.note(f"{task_id}: failed: {reason}")
            self.plan.unexpandable(task_id)
            return
        settled = self.plan.expanded(task_id, count, anew)
        if settled is not None:
            self._show_settled(settled)

    def _launch(self, start: Start, reaper: Reaper) -> None:
        task = self.dag.task_dict[start.task_id]
        item = self.expansions.item(start.task_id, start.map_index)
        logical_date = self.run.logical_date or self.run.created_at

        token = attempt_token(self.store, self.run, start, task)

        def spec(control: int) -> AttemptSpec:
            return AttemptSpec(
                file=self.file,
                dag_id=self.run.dag_id,
                run_id=self.run.run_id,
                task_id=start.task_id,
                map_index=start.map_index,
                attempt=start.attempt,
                retry=start.retry,
                max_tries=task.retries,
                settings=self.settings,
                params=self.params,
                logical_date=logical_date.isoformat(),
                indices={name.task_id: self.plan.successes(name.task_id) for name in sources_of(task)},
                item=item,
                runner=os.getpid(),
                control=control,
                incarnation=self.run.incarnation,
                token=token,
            )

        attempt = launch(
            spec,
            start,
            reaper=reaper,
            path=self.path,
            timeout=None if task.execution_timeout is None else task.execution_timeout.total_seconds(),
            now=time.monotonic(),
            out=lambda line: self.display.output(start, line, error=False),
            err=lambda line: self.display.output(start, line, error=True),
        )
        for lines in attempt.outputs:
            self._selector.register(lines.fd, selectors.EVENT_READ, lines)
        self.running.append(attempt)
        self.display.started(start)

    # -- ending ----------------------------------------------------------------------------------------------------

    def _collect(self, reaper: Reaper) -> None:
        """Take note of the attempts that have ended."""
        for attempt in [attempt for attempt in self.running if attempt.exited()]:
            self.running.remove(attempt)
            for lines in attempt.outputs:
                if lines.fd in self._selector.get_map():
                    self._selector.unregister(lines.fd)
            code = attempt.reap(reaper)
            now = time.monotonic()
            self._read_news(attempt, now)
            start = attempt.start
            key = (start.task_id, start.map_index)
            self.seconds[key] = now - attempt.launched
            self._settle(attempt, code, now)

    def _settle(self, attempt: AttemptProcess, code: int, now: float) -> None:
        """Find out how an attempt ended, record it if nobody has, and tell the plan."""
        start = attempt.start
        scope = self._scope(start)
        record = self.store.instances.get(scope)
        if record is not None and record.incarnation != self.run.incarnation:
            raise RunNotFoundError(f"run {self.run.dag_id}/{self.run.run_id} was deleted while it ran, and made anew")
        if record is not None and record.attempt == start.attempt and record.state in _ENDED:
            state: State = record.state  # type: ignore[assignment] # one of _ENDED
        elif record is not None and (record.attempt > start.attempt or code == ExitCode.STALE):
            return self._start_over(attempt, record.attempt)
        elif code == ExitCode.STALE:
            raise RunNotFoundError(f"run {self.run.dag_id}/{self.run.run_id} was deleted while it ran")
        else:
            attempt.error = attempt.stop_reason or attempt.error or how_it_died(code)
            state = "up_for_retry" if start.retry or self.stopped_by else "failed"
            try:
                self._record_end(attempt, scope, state, opened=bool(record and record.attempt == start.attempt))
            except StaleAttemptError:
                return self._start_over(attempt, start.attempt)
        self._take_recorded_time(scope, start)
        self._show_end(attempt, state)
        self.plan.finish(start.task_id, start.map_index, state, now)
        return None

    def _take_recorded_time(self, scope: TaskScope, start: Start) -> None:
        """Show the duration that is recorded, so that a later look at the run shows the same one."""
        record = self.store.instances.get(scope)
        if record is not None and record.attempt == start.attempt and (seconds := seconds_of(record)) is not None:
            self.seconds[start.task_id, start.map_index] = seconds

    def _record_end(self, attempt: AttemptProcess, scope: TaskScope, state: State, *, opened: bool) -> None:
        """Record the end of an attempt that died before it could do so itself."""
        start = attempt.start
        if not opened:
            task = self.dag.task_dict[start.task_id]
            try:
                mapped = self.expansions.mapped(task, start.map_index)
                open_attempt(self.store, scope, start.attempt, task, mapped, self.run.incarnation)
            except StaleAttemptError:
                raise
            except Exception as error:  # noqa: BLE001 - map_key is the user's code
                # What kept the attempt from opening keeps us from it too. Its number is used up all the same.
                self.display.note(f"{label(start.task_id, start.map_index)}: not recorded: {error!r}")
                return
        finish, incarnation = self.store.instances.finish, self.run.incarnation
        finish(scope, start.attempt, state, incarnation=incarnation, error=attempt.error)  # type: ignore[arg-type] # one of _ENDED

    def _start_over(self, attempt: AttemptProcess, recorded: int) -> None:
        start = attempt.start
        self.display.ended(start, f"attempt {start.attempt} was taken over (a clear?); starting over")
        self.plan.restart(start.task_id, start.map_index, recorded)
        self._pick_up_clears()

    def _pick_up_clears(self) -> None:
        """Start finished instances over that somebody has cleared meanwhile."""
        for record in self._finished_and_cleared():
            task_id, map_index = record.scope.task_id, record.scope.map_index
            self.display.note(f"{label(task_id, map_index)}: was cleared; starting over")
            self.plan.restart(task_id, map_index, record.attempt)

    def _show_end(self, attempt: AttemptProcess, state: State) -> None:
        start, error = attempt.start, attempt.error
        key = (start.task_id, start.map_index)
        if state in {"failed", "up_for_retry"} and error:
            self.errors[key] = error
        else:
            self.errors.pop(key, None)
        reason = f": {error}" if error and state in {"failed", "up_for_retry"} else ""
        delay = self.dag.task_dict[start.task_id].retry_delay.total_seconds() if state == "up_for_retry" else 0
        again = f", next attempt in {delay:g} s" if delay and not self.stopped_by else ""
        text = f"{state.replace('_', ' ')} after {self.seconds[key]:.2f} s{again}{reason}"
        self.display.ended(start, text)

    def unstarted(self) -> list[tuple[str, str, str | None]]:
        """Return the tasks that were never started: what became of each, and why, if known."""
        found: dict[str, tuple[str, str, str | None]] = {}
        for instance in self.plan.instances():
            if instance.attempt == 0:
                error = self.errors.get((instance.task_id, instance.map_index))
                found.setdefault(instance.task_id, (instance.task_id, instance.state, error))
        return list(found.values())

    def rows(self) -> list[Row]:
        """Return the summary: one row for each task instance."""
        rows = []
        for instance in self.plan.instances():
            key = (instance.task_id, instance.map_index)
            seconds = self.seconds.get(key)
            record = self.records.get(key)
            if seconds is None and record is not None:
                seconds = seconds_of(record)
            rows.append(Row(*key, instance.state, instance.attempt, seconds, self.errors.get(key)))
        return rows
