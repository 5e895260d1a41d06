"""Faults that were found by trying to break the store, each with the rule that it broke."""

from __future__ import annotations

from typing import Any

import pytest

from milepost import ManualClock, StaleAttemptError, TaskOptions, TaskScope, ValueTooLargeError, Writer
from tests.contract.conftest import SCOPE, as_writer

CLI = Writer("cli")


def test_an_attempt_of_a_deleted_run_ends_nothing_in_the_run_made_anew(store: Any) -> None:
    """S-26: a run that a runner began has an incarnation: finish and put_result of its dead attempts are refused."""
    first = store.runs.begin("dag", "run", holder="a", ttl=60)
    store.instances.open(SCOPE, 1, incarnation=first.incarnation)
    store.instances.delete_run("dag", "run")
    second = store.runs.begin("dag", "run", holder="b", ttl=60)
    assert first.incarnation not in (None, second.incarnation)
    store.instances.open(SCOPE, 1, incarnation=second.incarnation)
    with pytest.raises(StaleAttemptError):
        store.instances.finish(SCOPE, 1, "success", incarnation=first.incarnation)
    with pytest.raises(StaleAttemptError):
        store.runs.put_result(SCOPE, 1, "1", incarnation=first.incarnation)
    assert store.instances.get(SCOPE).state == "running"
    assert store.runs.get_result(SCOPE) is None
    store.runs.put_result(SCOPE, 1, "2", incarnation=second.incarnation)
    assert store.runs.get_result(SCOPE) == "2"


def test_a_run_keeps_its_incarnation_and_what_was_seeded(store: Any) -> None:
    """A run that people wrote to before its runner came keeps their keys, and its incarnation for good."""
    store.task_store(SCOPE).set("seed", 1)
    first = store.runs.begin("dag", "run", holder="a", ttl=60)
    opened = store.instances.open(SCOPE, 1, incarnation=first.incarnation)
    assert opened["task_store"].get("seed") == 1
    store.runs.release("dag", "run", "a")
    assert store.runs.begin("dag", "run", holder="b", ttl=60).incarnation == first.incarnation


def test_a_lease_is_given_up_after_an_error(store: Any) -> None:
    """S-17: a collection that an error or an interrupt ends does not keep the next one away."""
    store.task_store(SCOPE).set("k", 1)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.clean(progress=interrupted)
    assert store.clean().held_by is None


def test_undoing_the_restore_of_a_key_leaves_the_others_alone(store: Any) -> None:
    """A forced restore of single keys sets aside those keys, and restoring them again touches no other."""
    person = as_writer(store, CLI)
    keys = person.task_store(SCOPE)
    keys.set_many({"k": 1, "x": 2, "y": 3})
    keys.delete("k")
    keys.set("k", "new")
    assert person.instances.restore(SCOPE, force=True) == 1
    assert person.instances.restore(SCOPE, force=True) == 1
    assert keys.items() == [("k", "new"), ("x", 2), ("y", 3)]


def test_an_archive_that_expired_takes_nothing_away(store: Any, clock: ManualClock) -> None:
    """What has expired in an archive is no longer there to restore, so a forced restore does not remove its live key."""
    from datetime import timedelta

    from milepost import ArchiveNotFoundError

    person = as_writer(store, CLI)
    keys = person.task_store(SCOPE)
    keys.set("k", 1, retention=timedelta(hours=1))
    keys.delete("k")
    keys.set("k", 2)
    clock.advance(hours=2)
    with pytest.raises(ArchiveNotFoundError):
        person.instances.restore(SCOPE, force=True)
    assert keys.get("k") == 2


def test_a_view_of_an_earlier_run_never_shows_a_later_one(store: Any) -> None:
    """The view that past_run gave stays with that run, also if it is deleted and made anew under its id."""
    earlier = TaskScope("dag", "r1", "task")
    store.task_store(earlier).set("k", "earlier")
    now = store.task_store(TaskScope("dag", "r2", "task"))
    now.set("k", "now")
    view = now.past_run("r1")
    assert view.get("k") == "earlier"
    store.instances.delete_run("dag", "r1")
    store.task_store(earlier).set("k", "later")
    assert view.get("k") is None


def test_resuming_an_attempt_keeps_its_options(store: Any) -> None:
    """Opening the same attempt again without options leaves those that were recorded."""
    store.instances.open(SCOPE, 1, options=TaskOptions(clear_on_success=True))["task_store"].set("k", 1)
    store.instances.finish(SCOPE, 1, "deferred")
    store.task_store(SCOPE, attempt=1)
    store.instances.finish(SCOPE, 1, "success")
    assert store.task_store(SCOPE).keys() == []


def test_s10_a_sum_obeys_the_size_limit(make: Any) -> None:
    """S-10: increment is a door too: a sum with more bytes than the limit is refused and the old number stays."""
    task = make(max_value_bytes=5).task_store(SCOPE)
    task.set("n", 99_999)
    with pytest.raises(ValueTooLargeError):
        task.increment("n")
    assert task.get("n") == 99_999
