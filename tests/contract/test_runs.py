"""Runs as a runner holds them, and results."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from milepost import InstanceStateError, InvalidValueError, ManualClock, Outcome, RunHeldError, StaleAttemptError, TaskScope
from tests.contract.conftest import SCOPE


def begin(store: Any, holder: str = "one", **options: Any) -> Any:
    """Begin the run under test for ten seconds."""
    return store.runs.begin("dag", "run", holder=holder, ttl=10, **options)


def test_a_run_that_succeeded_is_taken_again_only_on_demand(store: Any) -> None:
    """`begin` leaves a run that has succeeded alone, unless it is told to take it again."""
    store.runs.begin("d", "r", holder="a", ttl=30)
    store.runs.end("d", "r", "a", "success")
    assert (store.runs.begin("d", "r", holder="b", ttl=30).state, store.runs.get("d", "r").holder) == ("success", None)
    taken = store.runs.begin("d", "r", holder="b", ttl=30, again=True)
    assert (taken.state, taken.holder) == ("running", "b")
    with pytest.raises(RunHeldError):
        store.runs.begin("d", "r", holder="c", ttl=30, again=True)


def test_a_state_that_does_not_exist_selects_nothing_in_silence(store: Any) -> None:
    """Lists of runs and instances refuse a state that there is not, and name those that there are."""
    with pytest.raises(InvalidValueError, match="one of running, success, failed, got 'Failed'"):
        store.runs.list(state="Failed")
    with pytest.raises(InvalidValueError, match=r"one of none, running, .*cleared, got 'upstream_failed'"):
        store.instances.list(state="upstream_failed")


def test_begin_records_and_takes(store: Any) -> None:
    """`begin` records a run with parameters and logical date, which stay as first given."""
    when = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    record = begin(store, params='{"a": 1}', logical_date=when)
    assert (record.dag_id, record.run_id, record.state, record.holder) == ("dag", "run", "running", "one")
    assert (record.params, record.logical_date) == ('{"a": 1}', when)
    again = begin(store, params="{}", logical_date=when + timedelta(days=1))
    assert (again.params, again.logical_date) == ('{"a": 1}', when)
    assert store.runs.get("dag", "run") == again
    assert store.runs.get("dag", "other") is None


def test_one_holder_at_a_time(store: Any, clock: ManualClock) -> None:
    """A second holder is refused until the hold ends, is given up, or its holder is known to be dead."""
    begin(store)
    with pytest.raises(RunHeldError, match="one"):
        begin(store, "two")
    with pytest.raises(RunHeldError):
        begin(store, "two", dead_holder="three")
    assert begin(store, "two", dead_holder="one").holder == "two"
    for call in (
        lambda: store.runs.heartbeat("dag", "run", "one", 10),
        lambda: store.runs.end("dag", "run", "one", "success"),
        lambda: store.runs.release("dag", "run", "one"),
    ):
        with pytest.raises(RunHeldError, match="no longer"):
            call()
    clock.advance(seconds=9)
    store.runs.heartbeat("dag", "run", "two", 10)
    clock.advance(seconds=9)
    with pytest.raises(RunHeldError):
        begin(store, "one")
    clock.advance(seconds=1)
    assert begin(store, "one").holder == "one"
    store.runs.release("dag", "run", "one")
    record = begin(store, "two")
    assert (record.holder, record.state) == ("two", "running")


def test_end_records_the_state(store: Any) -> None:
    """`end` records success or failure and gives the run up; a run that succeeded is only returned from then on."""
    begin(store)
    store.runs.end("dag", "run", "one", "failed")
    record = store.runs.get("dag", "run")
    assert (record.state, record.holder) == ("failed", None)
    begin(store)
    store.runs.end("dag", "run", "one", "success")
    record = begin(store, "two")
    assert (record.state, record.holder) == ("success", None)
    for bad in ("running", "", None):
        with pytest.raises(ValueError, match="success or failed"):
            store.runs.end("dag", "run", "two", bad)


def test_a_clear_reopens_the_run(store: Any) -> None:
    """Clearing an instance of a finished run makes the run unfinished, so that a runner takes it again."""
    begin(store)
    store.instances.open(SCOPE, 1)
    store.instances.finish(SCOPE, 1, "success")
    store.runs.end("dag", "run", "one", "success")
    store.instances.clear(SCOPE)
    assert store.runs.get("dag", "run").state is None
    assert begin(store).holder == "one"
    store.instances.clear(SCOPE)
    assert store.runs.get("dag", "run").state == "running"


def test_list_is_latest_first(store: Any) -> None:
    """`list` is latest first and filters by DAG, state and number; texts are compared exactly."""
    for dag, run in (("d", "b"), ("d", "a"), ("D", "c")):
        store.runs.begin(dag, run, holder="one", ttl=1)
    store.runs.end("d", "b", "one", "failed")
    assert [(r.dag_id, r.run_id) for r in store.runs.list()] == [("D", "c"), ("d", "a"), ("d", "b")]
    assert [r.run_id for r in store.runs.list("d")] == ["a", "b"]
    assert [r.run_id for r in store.runs.list("d", state="failed")] == ["b"]
    assert [r.run_id for r in store.runs.list(limit=2)] == ["c", "a"]


def test_results_are_fenced_and_per_index(store: Any) -> None:
    """Results are kept per map index, overwritten by the current attempt only, and dropped by a clear."""
    scopes = [TaskScope("dag", "run", "task", index) for index in (0, 2, 10)]
    for scope in scopes:
        store.instances.open(scope, 1)
        store.runs.put_result(scope, 1, f"r{scope.map_index}")
    assert store.runs.get_results("dag", "run", "task") == {0: "r0", 2: "r2", 10: "r10"}
    assert store.runs.get_result(scopes[1]) == "r2"
    assert store.runs.get_result(SCOPE) is None
    store.instances.open(scopes[0], 2)
    with pytest.raises(StaleAttemptError):
        store.runs.put_result(scopes[0], 1, "stale")
    store.runs.put_result(scopes[0], 2, "漢" * 100_000)
    assert store.runs.get_result(scopes[0]) == "漢" * 100_000
    store.instances.clear(scopes[1])
    assert store.runs.get_results("dag", "run", "task").keys() == {0, 10}
    with pytest.raises(StaleAttemptError):
        store.runs.put_result(scopes[1], 1, "stale")
    assert store.runs.get_results("dag", "run", "task2") == {}


def test_bad_arguments(store: Any) -> None:
    """Bad ids, holders and time-outs are refused and record nothing."""
    for ttl in (0, -1, 10**9):
        with pytest.raises(ValueError, match="ttl"):
            store.runs.begin("dag", "run", holder="one", ttl=ttl)
    with pytest.raises(ValueError, match="dag_id"):
        store.runs.begin("", "run", holder="one", ttl=1)
    with pytest.raises(TypeError, match="holder"):
        store.runs.begin("dag", "run", holder=None, ttl=1)
    with pytest.raises(ValueError, match="offset"):
        begin(store, logical_date=datetime(2026, 1, 1))  # noqa: DTZ001  (naive on purpose)
    assert store.runs.list() == []


def test_the_reason_of_each_failed_attempt_is_kept(store: Any, clock: ManualClock) -> None:
    """`finish` keeps why an attempt failed, as one bounded line, until the run is deleted; success has no reason."""
    begin(store)
    store.instances.open(SCOPE, 1)
    store.instances.finish(SCOPE, 1, "up_for_retry", error="ValueError: a\n\tb \0\ud800")
    store.instances.finish(SCOPE, 1, "up_for_retry", error="the same state again: nothing")
    store.instances.open(SCOPE, 2)
    clock.advance(seconds=1)
    store.instances.finish(SCOPE, 2, "failed", error="x" * 2000)
    other = TaskScope("dag", "run", "task", 3)
    store.instances.open(other, 1)
    store.instances.finish(other, 1, "success", error="no reason")
    later = store.instances.get(SCOPE).finished_at
    assert store.runs.outcomes("dag", "run") == [
        Outcome(SCOPE, 1, "up_for_retry", "ValueError: a b ?", later - timedelta(seconds=1)),
        Outcome(SCOPE, 2, "failed", "x" * 999 + "…", later),
    ]
    store.instances.clear(SCOPE)
    assert len(store.runs.outcomes("dag", "run")) == 2
    store.instances.delete_run("dag", "run")
    begin(store)
    assert store.runs.outcomes("dag", "run") == []


def test_reasons_of_an_earlier_incarnation_go_with_it(store: Any) -> None:
    """A run that is created anew starts without the outcomes of the earlier one."""
    store.instances.open(SCOPE, 1, incarnation="a")
    store.instances.finish(SCOPE, 1, "failed", error="no")
    store.instances.open(SCOPE, 1, incarnation="b")
    assert store.runs.outcomes("dag", "run") == []


def test_tasks_that_were_not_started(store: Any) -> None:
    """`end` records what became of tasks that were never started, until a runner takes the run again or it is cleared."""
    store.instances.open(SCOPE, 1)
    left = [("load", "upstream_failed", None), ("split", "failed", "cannot be expanded")]
    for undo in (lambda: begin(store), lambda: store.instances.clear_run("dag", "run")):
        begin(store)
        store.runs.end("dag", "run", "one", "failed", unstarted=left)
        assert [(one.scope.task_id, one.attempt, one.state, one.error) for one in store.runs.outcomes("dag", "run")] == [
            ("load", 0, "upstream_failed", None),
            ("split", 0, "failed", "cannot be expanded"),
        ]
        undo()
        assert store.runs.outcomes("dag", "run") == []


def test_a_restore_under_an_attempt_whose_runner_is_gone(store: Any, clock: ManualClock) -> None:
    """An attempt that is recorded as running bars a restore while a runner holds the run; later, force restores."""
    begin(store)
    store.instances.open(SCOPE, 1)["task_store"].set("k", 1)
    store.instances.clear(SCOPE)
    store.instances.open(SCOPE, 2)
    for force in (False, True):
        with pytest.raises(InstanceStateError, match="is running; restore when it has ended"):
            store.instances.restore(SCOPE, force=force)
    clock.advance(seconds=11)
    with pytest.raises(InstanceStateError, match=r"no runner holds the run.*\(--force\)"):
        store.instances.restore(SCOPE)
    assert store.instances.restore(SCOPE, force=True) == 1
    assert store.task_store(SCOPE).get("k") == 1
