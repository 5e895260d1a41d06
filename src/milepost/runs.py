"""Runs as a runner and people see them: who holds one, how it stands, what its tasks returned."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from milepost import calls
from milepost.abc import Metastore
from milepost.calls.lifecycle import MAX_RESULT_BYTES
from milepost.checks import (
    RUN_STATES,
    check_attempt,
    check_flag,
    check_incarnation,
    check_number,
    check_run,
    check_scope,
    check_state,
)
from milepost.clock import to_micros
from milepost.entry import one_line
from milepost.errors import InvalidValueError, UnsupportedTypeError, ValueTooLargeError
from milepost.run_records import Outcome, RunRecord
from milepost.scopes import MAX_ID_CHARS, TaskScope, check_text
from milepost.values import loads_strict

if TYPE_CHECKING:
    from builtins import list as List  # noqa: N812  (the class has a method named list)

__all__ = ["MAX_RESULT_BYTES", "Runs"]


class Runs:
    """Runs and the results of their tasks. In Python: ``store.runs``. Every method has an ``a…`` twin.

    Args:
        metastore: Where they are kept.

    .. versionadded:: 0.1
    """

    def __init__(self, metastore: Metastore) -> None:
        self._metastore = metastore

    def begin(
        self,
        dag_id: str,
        run_id: str,
        *,
        holder: str,
        ttl: float,
        params: str | None = None,
        logical_date: datetime | None = None,
        dead_holder: str | None = None,
        again: bool = False,
    ) -> RunRecord:
        """Record a run if it is new, and take it; a run that has succeeded is only returned.

        Args:
            dag_id: The DAG.
            run_id: The run.
            holder: A text that names the runner.
            ttl: Seconds until the hold ends unless it is renewed.
            params: Parameters as JSON text, kept from the first time.
            logical_date: An aware datetime, kept from the first time.
            dead_holder: A holder that the caller knows to be dead, whose hold does not count.
            again: Take a run that has succeeded too, to clear some of it.

        Raises:
            RunHeldError: Another runner holds the run.
        """
        return self._metastore.call(_begin(dag_id, run_id, holder, ttl, params, logical_date, dead_holder, again))

    async def abegin(
        self,
        dag_id: str,
        run_id: str,
        *,
        holder: str,
        ttl: float,
        params: str | None = None,
        logical_date: datetime | None = None,
        dead_holder: str | None = None,
        again: bool = False,
    ) -> RunRecord:
        """As `begin`."""
        return await self._metastore.acall(_begin(dag_id, run_id, holder, ttl, params, logical_date, dead_holder, again))

    def heartbeat(self, dag_id: str, run_id: str, holder: str, ttl: float) -> None:
        """Renew a hold for ``ttl`` seconds from now.

        Raises:
            RunHeldError: The hold is no longer this holder's.
        """
        self._metastore.call(_renew(dag_id, run_id, holder, ttl))

    async def aheartbeat(self, dag_id: str, run_id: str, holder: str, ttl: float) -> None:
        """As `heartbeat`."""
        await self._metastore.acall(_renew(dag_id, run_id, holder, ttl))

    def end(
        self,
        dag_id: str,
        run_id: str,
        holder: str,
        state: str,
        *,
        unstarted: Sequence[tuple[str, str, str | None]] = (),
    ) -> None:
        """Record how a run ended (``success`` or ``failed``) and give it up.

        Args:
            dag_id: The DAG.
            run_id: The run.
            holder: The runner.
            state: How it ended.
            unstarted: What became of tasks that were never started: task id, state, and why, if known.

        Raises:
            RunHeldError: The hold is no longer this holder's.
            ValueError: Another state.
        """
        self._metastore.call(_end(dag_id, run_id, holder, state, unstarted))

    async def aend(
        self,
        dag_id: str,
        run_id: str,
        holder: str,
        state: str,
        *,
        unstarted: Sequence[tuple[str, str, str | None]] = (),
    ) -> None:
        """As `end`."""
        await self._metastore.acall(_end(dag_id, run_id, holder, state, unstarted))

    def release(self, dag_id: str, run_id: str, holder: str) -> None:
        """Give a run up as it stands, so that another runner can go on at once.

        Raises:
            RunHeldError: The hold is no longer this holder's.
        """
        self._metastore.call(_release(dag_id, run_id, holder))

    async def arelease(self, dag_id: str, run_id: str, holder: str) -> None:
        """As `release`."""
        await self._metastore.acall(_release(dag_id, run_id, holder))

    def get(self, dag_id: str, run_id: str) -> RunRecord | None:
        """Return the record of a run, or `None` if there is none."""
        return next(iter(self._metastore.call(_one(dag_id, run_id))), None)

    async def aget(self, dag_id: str, run_id: str) -> RunRecord | None:
        """As `get`."""
        return next(iter(await self._metastore.acall(_one(dag_id, run_id))), None)

    def list(self, dag_id: str | None = None, *, state: str | None = None, limit: int | None = None) -> List[RunRecord]:
        """Return records, the latest first; `None` selects all."""
        return self._metastore.call(_selection(dag_id, state, limit))

    async def alist(
        self, dag_id: str | None = None, *, state: str | None = None, limit: int | None = None
    ) -> List[RunRecord]:
        """As `list`."""
        return await self._metastore.acall(_selection(dag_id, state, limit))

    def outcomes(self, dag_id: str, run_id: str) -> List[Outcome]:
        """Return how attempts of a run failed, and the tasks that it ended without starting.

        Returns:
            By task, map index and attempt; attempt 0 stands for a task that was not started.
        """
        return self._metastore.call(_outcomes(dag_id, run_id))

    async def aoutcomes(self, dag_id: str, run_id: str) -> List[Outcome]:
        """As `outcomes`."""
        return await self._metastore.acall(_outcomes(dag_id, run_id))

    def put_result(self, scope: TaskScope, attempt: int, text: str, *, incarnation: str | None = None) -> None:
        """Keep what an attempt returned, as text; at most 64 MiB in UTF-8.

        Raises:
            StaleAttemptError: The attempt is not the current one.
            ValueTooLargeError: The text is too large.
        """
        self._metastore.call(_put_result(scope, attempt, text, incarnation))

    async def aput_result(self, scope: TaskScope, attempt: int, text: str, *, incarnation: str | None = None) -> None:
        """As `put_result`."""
        await self._metastore.acall(_put_result(scope, attempt, text, incarnation))

    def get_results(self, dag_id: str, run_id: str, task_id: str) -> dict[int, str]:
        """Return the results of a task in a run by map index (-1: not mapped)."""
        return self._metastore.call(_results(dag_id, run_id, task_id))

    async def aget_results(self, dag_id: str, run_id: str, task_id: str) -> dict[int, str]:
        """As `get_results`."""
        return await self._metastore.acall(_results(dag_id, run_id, task_id))

    def get_result(self, scope: TaskScope) -> str | None:
        """Return the result of one task instance, or `None` if there is none."""
        return self._metastore.call(_result(scope)).get(scope.map_index)

    async def aget_result(self, scope: TaskScope) -> str | None:
        """As `get_result`."""
        return (await self._metastore.acall(_result(scope))).get(scope.map_index)


def _seconds(ttl: float) -> float:
    if isinstance(ttl, bool) or not isinstance(ttl, int | float):
        raise UnsupportedTypeError(f"ttl must be a number of seconds, not {type(ttl).__name__}")
    if not 0 < ttl <= 86_400 * 366:
        raise InvalidValueError(f"ttl must be seconds above 0 and below a year, got {ttl}")
    return ttl


def _begin(
    dag_id: str,
    run_id: str,
    holder: str,
    ttl: float,
    params: str | None,
    logical_date: datetime | None,
    dead_holder: str | None,
    again: bool,
) -> calls.BeginRun:
    return calls.BeginRun(
        *check_run(dag_id, run_id),
        _holder(holder),
        _seconds(ttl),
        None if params is None else _params(params),
        None if logical_date is None else _instant(logical_date),
        None if dead_holder is None else _holder(dead_holder),
        check_flag(again, "again"),
    )


def _holder(holder: str) -> str:
    return check_text(holder, "holder", 1_500)


def _params(params: str) -> str:
    if not isinstance(params, str):
        raise UnsupportedTypeError(f"params must be JSON text, not {type(params).__name__}; use json.dumps(…)")
    loads_strict(params)
    return params


def _instant(moment: datetime) -> int:
    if not isinstance(moment, datetime):
        raise UnsupportedTypeError(f"logical_date must be a datetime, not {type(moment).__name__}")
    try:
        return to_micros(moment)
    except ValueError as error:
        raise InvalidValueError(f"logical_date: {error}") from None


def _renew(dag_id: str, run_id: str, holder: str, ttl: float) -> calls.HoldRun:
    return calls.HoldRun(*check_run(dag_id, run_id), _holder(holder), _seconds(ttl))


def _release(dag_id: str, run_id: str, holder: str) -> calls.HoldRun:
    return calls.HoldRun(*check_run(dag_id, run_id), _holder(holder), None)


def _end(
    dag_id: str, run_id: str, holder: str, state: str, unstarted: Sequence[tuple[str, str, str | None]]
) -> calls.HoldRun:
    if state not in ("success", "failed"):
        raise InvalidValueError(f"a run ends as success or failed, not {state!r}")
    tasks = [
        (
            check_text(task_id, "task_id", MAX_ID_CHARS),
            check_text(became, "state", 20),
            None if why is None else one_line(why),
        )
        for task_id, became, why in unstarted
    ]
    return calls.HoldRun(*check_run(dag_id, run_id), _holder(holder), None, state, tasks)


def _outcomes(dag_id: str, run_id: str) -> calls.ListOutcomes:
    return calls.ListOutcomes(*check_run(dag_id, run_id))


def _one(dag_id: str, run_id: str) -> calls.ListRuns:
    return calls.ListRuns(*check_run(dag_id, run_id))


def _selection(dag_id: str | None, state: str | None, limit: int | None) -> calls.ListRuns:
    if dag_id is not None:
        check_text(dag_id, "dag_id", MAX_ID_CHARS)
    if state is not None:
        check_state(state, RUN_STATES)
    if limit is not None:
        check_number(limit, "limit", 1)
    return calls.ListRuns(dag_id, None, state, limit)


def _put_result(scope: TaskScope, attempt: int, text: str, incarnation: str | None) -> calls.PutResult:
    if not isinstance(text, str):
        raise UnsupportedTypeError(f"the text of a result must be a str, not {type(text).__name__}")
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidValueError(f"the text of a result has a lone surrogate at position {error.start}") from None
    if size > MAX_RESULT_BYTES:
        raise ValueTooLargeError(size, MAX_RESULT_BYTES, "the most that a result may have", None)
    return calls.PutResult(check_scope(scope), check_attempt(attempt), text, check_incarnation(incarnation))


def _results(dag_id: str, run_id: str, task_id: str) -> calls.GetResults:
    return calls.GetResults(*check_run(dag_id, run_id), check_text(task_id, "task_id", MAX_ID_CHARS))


def _result(scope: TaskScope) -> calls.GetResults:
    check_scope(scope)
    return calls.GetResults(scope.dag_id, scope.run_id, scope.task_id, scope.map_index)
