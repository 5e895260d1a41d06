"""`past_run`: this task in an earlier run (SPEC 4.1)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from milepost import ManualClock, StaleAttemptError, TaskScope


def scope(run: str, index: int = -1) -> TaskScope:
    """Return the scope of the task under test in a run."""
    return TaskScope("dag", run, "task", index)


def test_the_latest_earlier_run_with_keys(store: Any) -> None:
    """Without a run id it is the latest run recorded earlier in which this task has live keys."""
    for run in ("b", "a", "empty"):
        store.task_store(scope(run)).set("k", run)
    store.task_store(scope("empty")).clear()
    task = store.task_store(scope("now"), attempt=1)
    store.task_store(scope("later")).set("k", "later")
    store.task_store(TaskScope("other", "b2", "task")).set("k", "other dag")
    store.task_store(TaskScope("dag", "a", "task2")).set("k", "other task")
    past = task.past_run()
    assert past.scope == scope("a")
    assert past.items() == [("k", "a")]
    assert task.past_run("b").get("k") == "b"


def test_the_view_reads_only(store: Any) -> None:
    """The view has every read and no write, and shows the writer of that run."""
    store.task_store(scope("old"), attempt=2).set("k", 1)
    past = store.task_store(scope("now"), attempt=1).past_run()
    assert (past.get("k"), "k" in past, len(past), list(past), past.keys()) == (1, True, 1, ["k"], ["k"])
    assert past.get_many(["k", "x"]) == {"k": 1}
    assert past.get("x", "default") == "default"
    assert (past.entry("k").writer.run_id, past.entry("k").writer.attempt) == ("old", 2)
    for name in ("set", "delete", "clear", "set_many", "set_default", "compare_and_set", "increment", "update", "touch"):
        assert not hasattr(past, name)


def test_no_such_run_is_a_key_error(store: Any, clock: ManualClock) -> None:
    """The same run, a later one, an unknown one and one without live keys are KeyError."""
    store.task_store(scope("cleared")).set("k", 1)
    store.task_store(scope("cleared")).clear()
    store.task_store(scope("expired")).set("k", 1, retention=timedelta(hours=1))
    clock.advance(hours=1)
    task = store.task_store(scope("now"), attempt=1)
    task.set("k", 1)
    store.task_store(scope("later")).set("k", 1)
    for run in ("now", "later", "unknown", "cleared", "expired", None):
        with pytest.raises(KeyError):
            task.past_run(run)
    with pytest.raises(ValueError, match="run_id"):
        task.past_run("")


def test_a_run_not_yet_recorded_is_later_than_all(store: Any) -> None:
    """From a run that is not recorded yet, every recorded run is an earlier one."""
    store.task_store(scope("first")).set("k", 1)
    store.task_store(scope("second")).set("k", 2)
    task = store.task_store(scope("new"))
    assert task.past_run().get("k") == 2
    assert task.past_run("first").get("k") == 1
    assert store.instances.get(scope("new")) is None


def test_a_mapped_instance_sees_its_own_item_only(store: Any) -> None:
    """S-22: a mapped instance gets the earlier run's keys only where the position held the same item."""
    for index, item in enumerate("abc"):
        opened = store.instances.open(scope("old", index), 1, item={"x": item})
        opened["task_store"].set("k", item)
    same = store.instances.open(scope("now", 1), 1, item={"x": "b"})["task_store"]
    assert same.past_run().get("k") == "b"
    assert same.past_run("old").get("k") == "b"
    other = store.instances.open(scope("now", 0), 1, item={"x": "z"})["task_store"]
    for run in (None, "old"):
        with pytest.raises(KeyError, match="another item"):
            other.past_run(run)
    plain = store.instances.open(scope("now"), 1)["task_store"]
    with pytest.raises(KeyError):
        plain.past_run()


def test_a_stale_attempt_gets_no_past_run(store: Any) -> None:
    """A stale attempt's past_run, and reads of absent keys in a view it holds, raise StaleAttemptError."""
    store.task_store(scope("old")).set("k", 1)
    task = store.task_store(scope("now"), attempt=1)
    past = task.past_run()
    store.task_store(scope("now"), attempt=2)
    for run in (None, "old", "unknown"):
        with pytest.raises(StaleAttemptError):
            task.past_run(run)
    for read in (lambda: past.get("x"), past.keys, lambda: len(past), lambda: past.get_many(["k", "x"])):
        with pytest.raises(StaleAttemptError):
            read()
    assert past.get("k") == 1
