"""A stale attempt changes nothing and never reads "absent" (SPEC 4.2)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from milepost import Asset, InstanceNotFoundError, StaleAttemptError, TaskScope
from tests.contract.conftest import SCOPE, beside, engine_behind, sql

ORDERS = Asset("orders", uri="s3://orders")
HOUR = timedelta(hours=1)

WRITES: dict[str, Callable[[Any], Any]] = {
    "set": lambda s: s.set("n", 7),
    "set new": lambda s: s.set("new", 1),
    "set_many": lambda s: s.set_many({"n": 7, "new": 1}),
    "set_many of one": lambda s: s.set_many({"new": 1}),
    "set_default": lambda s: s.set_default("new", 1),
    "set_default present": lambda s: s.set_default("n", 1),
    "compare_and_set": lambda s: s.compare_and_set("new", 1, version=None),
    "increment": lambda s: s.increment("n"),
    "increment new": lambda s: s.increment("new"),
    "update": lambda s: s.update("n", lambda _: 7),
    "update new": lambda s: s.update("new", lambda _: 7),
    "delete": lambda s: s.delete("n"),
    "delete new": lambda s: s.delete("new"),
    "clear": lambda s: s.clear(),
}
TASK_WRITES: dict[str, Callable[[Any], Any]] = {
    "set with retention": lambda s: s.set("n", 7, retention=HOUR),
    "touch": lambda s: s.touch("n", retention=HOUR),
    "touch new": lambda s: s.touch("new", retention=HOUR),
    "clear all": lambda s: s.clear(all_map_indices=True),
}
READS: dict[str, Callable[[Any], Any]] = {
    "get": lambda s: s.get("n", "ABSENT"),
    "entry": lambda s: s.entry("n"),
    "contains": lambda s: "n" in s,
    "get_many": lambda s: s.get_many(["n", "m"]),
    "keys": lambda s: s.keys(),
    "items": lambda s: s.items(),
    "len": len,
    "iter": list,
}


def newer_attempt(store: Any) -> Any:
    """A retry."""
    return store.instances.open(SCOPE, 2, inlets=[ORDERS])


def clear(store: Any) -> Any:
    """A clear by a person, then the next attempt."""
    store.instances.clear(SCOPE)
    return store.instances.open(SCOPE, 2, inlets=[ORDERS])


def clear_keeping(store: Any) -> Any:
    """A clear that keeps the state, then the next attempt."""
    store.instances.clear_run(SCOPE.dag_id, SCOPE.run_id, keep=True)
    return store.instances.open(SCOPE, 2, inlets=[ORDERS])


def new_incarnation(store: Any) -> Any:
    """The run was deleted and created again elsewhere."""
    return store.instances.open(SCOPE, 1, incarnation="second", inlets=[ORDERS])


def recreated(store: Any) -> Any:
    """The run was deleted and created again here."""
    store.instances.delete_run(SCOPE.dag_id, SCOPE.run_id)
    return store.instances.open(SCOPE, 1, incarnation="second", inlets=[ORDERS])


TAKEOVERS = [newer_attempt, clear, clear_keeping, new_incarnation, recreated]


def dump(store: Any) -> list[Any]:
    """Return all that a stale attempt must not change."""
    tables = ("entries", "changes", "results", "instances", "runs", "owners")
    return [sql(store, f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables]


@pytest.mark.parametrize("take_over", TAKEOVERS)
def test_s26_a_stale_attempt_changes_nothing(store: Any, take_over: Callable[[Any], Any]) -> None:
    """S-26: every write of a stale attempt, to task and asset state, raises StaleAttemptError and changes nothing."""
    old = store.instances.open(SCOPE, 1, incarnation="first", inlets=[ORDERS])
    old["task_store"].set("n", 1)
    old["asset_store"][ORDERS].set("n", 1)
    new = take_over(store)
    new["task_store"].set("n", 100)
    new["asset_store"][ORDERS].set("n", 100)
    before = dump(store)
    for accessor, writes in ((old["task_store"], {**WRITES, **TASK_WRITES}), (old["asset_store"][ORDERS], WRITES)):
        for name, write in writes.items():
            with pytest.raises(StaleAttemptError, match="no longer current"):
                write(accessor)
            assert dump(store) == before, name
    calls = [
        lambda: store.instances.open(SCOPE, 1, incarnation="first"),
        lambda: store.instances.finish(SCOPE, 1, "success", incarnation="first"),
    ]
    if take_over not in (new_incarnation, recreated):  # there, attempt 1 without an incarnation is the new run's
        calls.append(lambda: store.runs.put_result(SCOPE, 1, "old"))
    for call in calls:
        with pytest.raises(StaleAttemptError):
            call()
    assert dump(store) == before
    assert new["task_store"].items() == [("n", 100)]
    assert store.asset_store(ORDERS).items() == [("n", 100)]


@pytest.mark.parametrize("take_over", TAKEOVERS)
def test_s26_a_stale_attempt_never_reads_absent(store: Any, take_over: Callable[[Any], Any]) -> None:
    """S-26: a stale attempt's read returns a stored value or raises, whether the key is gone, kept or replaced."""
    old = store.instances.open(SCOPE, 1, incarnation="first", inlets=[ORDERS])
    both = (old["task_store"], old["asset_store"][ORDERS])
    for accessor in both:
        accessor.set_many({"n": 1, "m": 1})
    take_over(store)
    store.asset_store(ORDERS).delete("m")
    for accessor in both:
        for name, read in READS.items():
            try:
                answer = read(accessor)
            except StaleAttemptError:
                continue
            assert name in ("get", "entry", "contains", "get_many"), "lists of a stale attempt cannot be complete"
            assert answer in (1, True, {"n": 1, "m": 1}) or answer.value == 1
        for key in ("m2", "gone"):
            with pytest.raises(StaleAttemptError):
                accessor.get(key, "ABSENT")


@pytest.mark.parametrize("gone", ["clear", "delete_run"])
def test_s26_reads_right_after_a_takeover_without_successor(store: Any, gone: str) -> None:
    """S-26: reads and writes of a cleared or deleted instance's attempt raise also before a successor opens."""
    old = store.instances.open(SCOPE, 1, inlets=[ORDERS])
    old["task_store"].set("n", 1)
    if gone == "clear":
        store.instances.clear(SCOPE)
    else:
        store.instances.delete_run(SCOPE.dag_id, SCOPE.run_id)
    for read in READS.values():
        with pytest.raises(StaleAttemptError):
            read(old["task_store"])
    for write in {**WRITES, **TASK_WRITES}.values():
        with pytest.raises(StaleAttemptError):
            write(old["task_store"])
    with pytest.raises((StaleAttemptError, InstanceNotFoundError)):
        store.instances.finish(SCOPE, 1, "success")
    if gone == "clear":
        with pytest.raises(StaleAttemptError, match="cleared"):
            store.instances.open(SCOPE, 1)
    else:
        assert store.instances.get(SCOPE) is None


@pytest.mark.parametrize("take_over", TAKEOVERS)
def test_s26_a_writer_paused_inside_update(store: Any, take_over: Callable[[Any], Any]) -> None:
    """S-26: an attempt that goes stale between the read and the write of `update` writes nothing."""
    old = store.instances.open(SCOPE, 1, incarnation="first", inlets=[ORDERS])
    for number, accessor in enumerate((old["task_store"], old["asset_store"][ORDERS])):
        if number == 1:
            old = store.instances.open(SCOPE, 9, inlets=[ORDERS])
            accessor = old["asset_store"][ORDERS]  # noqa: PLW2901  (a current attempt again)
        accessor.set("n", 1)

        def fn(value: int, number: int = number) -> int:
            if number == 0:
                take_over(store)["task_store"].set("n", 100)
            else:
                store.instances.open(SCOPE, 10, inlets=[ORDERS])["asset_store"].set("n", 100)
            return value + 1

        with pytest.raises(StaleAttemptError):
            accessor.update("n", fn)
    assert store.task_store(SCOPE).get("n") == 100
    assert store.asset_store(ORDERS).get("n") == 100


@pytest.mark.parametrize("action", [newer_attempt, clear, new_incarnation, recreated])
@pytest.mark.parametrize("read", READS)
def test_s26_a_read_paused_between_its_statements(store: Any, variant: str, read: str, action: Any) -> None:
    """S-26: a takeover between any two statements of a read gives the stored value or StaleAttemptError."""
    if variant.startswith("memory"):
        pytest.skip("in memory, calls run one at a time")
    engine = engine_behind(store)
    name = "drive" if hasattr(engine, "drive") else "run"  # what blocking and asynchronous calls share
    run = getattr(engine, name)
    for pause in range(4):
        scope = SCOPE
        if store.instances.get(scope) is not None:
            store.instances.delete_run(scope.dag_id, scope.run_id)
        sql(store, "DELETE FROM replaced_incarnations")  # let each round start as the first
        task = store.instances.open(scope, 1, incarnation="first", inlets=[ORDERS])["task_store"]
        task.set_many({"n": 1, "m": 1})
        state = {"statements": 0, "done": False}

        def paused(make: Any, *, write: bool, state: dict[str, Any] = state, pause: int = pause, **options: Any) -> Any:
            return run(make if write else lambda: watched(make(), state, pause), write=write, **options)

        def watched(operation: Any, state: dict[str, Any], pause: int) -> Any:
            answer = None
            while True:
                if state["statements"] == pause and not state["done"]:
                    state["done"] = True
                    action(beside(store))
                try:
                    step = operation.send(answer)
                except StopIteration as done:
                    return done.value
                answer = yield step
                state["statements"] += 1

        setattr(engine, name, paused)
        try:
            answer = READS[read](task)
        except StaleAttemptError:
            continue
        finally:
            setattr(engine, name, run)
        whole = {"get": 1, "contains": True, "get_many": {"n": 1, "m": 1}, "keys": ["m", "n"], "iter": ["m", "n"], "len": 2}
        if read == "entry":
            assert answer.value == 1
        else:
            assert answer == {**whole, "items": [("m", 1), ("n", 1)]}[read]


def test_an_unfenced_read_follows_a_recreated_run(store: Any) -> None:
    """An accessor outside of attempts reads and writes the run that is there, also after it was deleted and recreated."""
    person = store.task_store(SCOPE)
    person.set("k", 1)
    assert person.get("k") == 1
    store.instances.delete_run(SCOPE.dag_id, SCOPE.run_id)
    assert person.get("k") is None
    assert store.instances.get(SCOPE) is None
    store.task_store(SCOPE).set("k", 2)
    assert person.get("k") == 2
    assert person.items() == [("k", 2)]
    store.instances.delete_run(SCOPE.dag_id, SCOPE.run_id)
    person.set("k", 3)
    assert store.task_store(SCOPE).get("k") == 3


def test_s26_a_resumed_attempt_is_not_stale(store: Any) -> None:
    """S-26: the same attempt opened again (a deferral, a message twice) goes on; both handles of it may write."""
    first = store.task_store(SCOPE, attempt=1)
    first.set("job", "j-1")
    store.instances.finish(SCOPE, 1, "deferred")
    second = store.task_store(SCOPE, attempt=1)
    assert second.get("job") == "j-1"
    second.set("n", 1)
    first.set("n", 2)
    assert second.get("n") == 2
    assert store.instances.get(SCOPE).state == "running"


def test_finish_does_not_raise_the_fence(store: Any) -> None:
    """An attempt that has ended is current until a later one opens."""
    task = store.task_store(SCOPE, attempt=1)
    store.instances.finish(SCOPE, 1, "up_for_retry")
    task.set("late", 1)
    later = store.task_store(SCOPE, attempt=2)
    with pytest.raises(StaleAttemptError):
        task.set("late", 2)
    assert later.get("late") == 1


def test_one_instances_takeover_leaves_its_siblings(store: Any) -> None:
    """A retry or clear of one mapped instance makes no sibling's attempt stale."""
    stores = [store.task_store(TaskScope("dag", "run", "task", index), attempt=1) for index in range(3)]
    store.task_store(TaskScope("dag", "run", "task", 0), attempt=2)
    store.instances.clear(TaskScope("dag", "run", "task", 1))
    stores[2].set("k", 1)
    for one in stores[:2]:
        with pytest.raises(StaleAttemptError):
            one.set("k", 1)


def test_a_new_incarnation_takes_the_whole_run(store: Any) -> None:
    """S-26: a new incarnation makes the attempts of all instances of the run stale, those not opened again too."""
    sibling = TaskScope("dag", "run", "sibling")
    old = store.instances.open(sibling, 1, incarnation="first", inlets=[ORDERS])
    old["task_store"].set("n", 1)
    store.instances.open(SCOPE, 1, incarnation="second")
    for accessor in (old["task_store"], old["asset_store"][ORDERS]):
        for write in WRITES.values():
            with pytest.raises(StaleAttemptError):
                write(accessor)
        with pytest.raises(StaleAttemptError):
            accessor.get("n", "ABSENT")
    assert store.task_store(sibling).keys() == []
    assert store.asset_store(ORDERS).keys() == []
    assert store.instances.open(sibling, 1, incarnation="second")["task_store"].get("n") is None
