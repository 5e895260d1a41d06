"""The life of a task instance: open, finish, clear, restore, delete (SPEC 4.2)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from milepost import (
    NEVER_EXPIRE,
    Asset,
    InstanceNotFoundError,
    InstanceStateError,
    InvalidKeyError,
    ManualClock,
    RunNotFoundError,
    StaleAttemptError,
    TaskOptions,
    TaskScope,
)
from tests.contract.conftest import SCOPE, Make, sql

DAG, RUN = SCOPE.dag_id, SCOPE.run_id
ENDED = ("success", "failed", "skipped")
OPEN = ("up_for_retry", "deferred")


def test_open_records_the_instance(store: Any, clock: ManualClock) -> None:
    """`open` records state, attempt, item name and times; `get` and `list` show them."""
    assert store.instances.get(SCOPE) is None
    start = clock.now()
    store.instances.open(SCOPE, 2, item={"x": 1}, item_name="x=1", incarnation="i")
    record = store.instances.get(SCOPE)
    assert (record.scope, record.state, record.attempt) == (SCOPE, "running", 2)
    assert (record.item_name, record.incarnation, record.finished_at) == ("x=1", "i", None)
    assert record.created_at == record.opened_at == record.updated_at
    clock.advance(seconds=1)
    store.instances.finish(SCOPE, 2, "failed")
    record = store.instances.get(SCOPE)
    assert record.state == "failed"
    assert record.finished_at == record.updated_at == record.opened_at + timedelta(seconds=1)
    assert clock.now() == start + 1_000_000


def test_s15_state_outlives_failure_deferral_and_reschedule(store: Any) -> None:
    """S-15: nothing that a failing, deferred or rescheduled attempt stored is rolled back; a delete stays deleted."""
    task = store.task_store(SCOPE, attempt=1)
    task.set("job", "j-1")
    task.set("x", 1)
    store.instances.finish(SCOPE, 1, "up_for_retry")
    task = store.task_store(SCOPE, attempt=2)
    assert task.get("job") == "j-1"
    task.delete("x")
    for poke in (1, 2, 3):
        assert task.increment("pokes") == poke
        store.instances.finish(SCOPE, 2, "deferred")
        task = store.task_store(SCOPE, attempt=2)
        assert task.get("job") == "j-1"
    store.instances.finish(SCOPE, 2, "failed")
    task = store.task_store(SCOPE, attempt=3)
    assert task.get("x", "default") == "default"


@pytest.mark.parametrize("state", [*ENDED, *OPEN])
def test_finish_is_repeatable(store: Any, clock: ManualClock, state: str) -> None:
    """The same final state again is no-op; another one is refused once the attempt has ended."""
    store.instances.open(SCOPE, 1)
    store.instances.finish(SCOPE, 1, state)
    record = store.instances.get(SCOPE)
    clock.advance(seconds=1)
    store.instances.finish(SCOPE, 1, state)
    assert store.instances.get(SCOPE) == record
    if state in ENDED:
        for other in {*ENDED, *OPEN} - {state}:
            with pytest.raises(InstanceStateError, match="already ended"):
                store.instances.finish(SCOPE, 1, other)
        assert store.instances.get(SCOPE) == record
    else:
        store.instances.finish(SCOPE, 1, "failed")
        assert store.instances.get(SCOPE).state == "failed"


def test_finish_refuses_what_it_does_not_know(store: Any) -> None:
    """`finish` refuses unknown states, unknown instances and any attempt but the current one."""
    with pytest.raises(InstanceNotFoundError, match="dag/run/task"):
        store.instances.finish(SCOPE, 1, "success")
    store.instances.open(SCOPE, 2)
    for state in ("running", "none", "cleared", "", None):
        with pytest.raises(ValueError, match="ends as one of"):
            store.instances.finish(SCOPE, 2, state)
    for attempt in (1, 3):
        with pytest.raises(StaleAttemptError):
            store.instances.finish(SCOPE, attempt, "success")
    with pytest.raises(StaleAttemptError):
        store.instances.finish(SCOPE, 2, "success", incarnation="another")
    assert store.instances.get(SCOPE).state == "running"


@pytest.mark.parametrize("attempt", [0, -1, 2**31])
def test_attempts_count_from_one(store: Any, attempt: int) -> None:
    """Attempts are ints from 1 to 2**31-1."""
    for call in (store.instances.open, lambda scope, n: store.instances.finish(scope, n, "failed")):
        with pytest.raises(ValueError, match="attempt"):
            call(SCOPE, attempt)
        for wrong in (1.0, True, "1"):
            with pytest.raises(TypeError, match="attempt"):
                call(SCOPE, wrong)
    with pytest.raises(TypeError, match="attempt"):
        store.instances.finish(SCOPE, None, "failed")
    assert store.instances.get(SCOPE) is None


def test_attempts_go_on_after_a_clear(store: Any) -> None:
    """Attempt numbers never restart at a clear: those up to the cleared one are stale, the next one opens."""
    store.instances.open(SCOPE, 3)
    store.instances.clear(SCOPE)
    assert store.instances.get(SCOPE).state == "cleared"
    for stale in (1, 2, 3):
        with pytest.raises(StaleAttemptError, match="cleared"):
            store.instances.open(SCOPE, stale)
    store.instances.open(SCOPE, 4)
    record = store.instances.get(SCOPE)
    assert (record.state, record.attempt) == ("running", 4)


def test_open_without_a_number_draws_the_next(store: Any) -> None:
    """`open` without an attempt opens the next one and says which: after an open, an end, a clear and a new incarnation."""
    first = store.instances.open(SCOPE)
    assert (first["attempt"], store.instances.get(SCOPE).attempt) == (1, 1)
    first["task_store"].set("k", 1)
    second = store.instances.open(SCOPE)
    assert second["attempt"] == 2
    with pytest.raises(StaleAttemptError):
        first["task_store"].set("k", 2)
    assert second["task_store"].entry("k").writer.attempt == 1
    second["task_store"].set("k", 2)
    assert second["task_store"].entry("k").writer.attempt == 2
    store.instances.finish(SCOPE, 2, "success")
    assert store.instances.open(SCOPE, None)["attempt"] == 3
    store.instances.clear(SCOPE)
    assert store.instances.open(SCOPE)["attempt"] == 4
    assert store.instances.open(SCOPE, 10)["attempt"] == 10
    again = store.instances.open(SCOPE, incarnation="second")
    assert (again["attempt"], again["task_store"].keys()) == (1, [])


def test_after_the_last_number_there_is_no_next(store: Any) -> None:
    """Numbers end at 2**31-1: `open` without one is then one clear error, and the attempt goes on."""
    last = store.instances.open(SCOPE, 2**31 - 1)["task_store"]
    with pytest.raises(ValueError, match="no next attempt"):
        store.instances.open(SCOPE)
    last.set("k", 1)


def test_incarnations_replaced_are_stale_for_good(store: Any) -> None:
    """A new incarnation starts without the old state; a replaced one is stale for good, also after delete_run."""
    sibling = TaskScope(DAG, RUN, "other")
    store.instances.open(SCOPE, 3, incarnation="a")["task_store"].set("k", "a")
    store.task_store(sibling, attempt=1).set("k", "a")
    new = store.instances.open(SCOPE, 1, incarnation="b")["task_store"]
    assert new.keys() == []
    assert store.task_store(sibling).keys() == []
    assert store.instances.get(sibling).state == "none"
    for scope in (SCOPE, sibling, TaskScope(DAG, RUN, "new")):
        with pytest.raises(StaleAttemptError, match="earlier"):
            store.instances.open(scope, 9, incarnation="a")
    archive = store.instances.archives(sibling)[0]
    assert (archive.cause, archive.keys) == ("new_incarnation", ("k",))
    assert (archive.writer.task_id, archive.writer.attempt) == ("task", 1)
    store.instances.delete_run(DAG, RUN)
    for gone in ("a", "b"):
        with pytest.raises(StaleAttemptError):
            store.instances.open(SCOPE, 9, incarnation=gone)
    assert store.instances.get(SCOPE) is None
    store.instances.open(SCOPE, 1, incarnation="c")
    with pytest.raises(StaleAttemptError):
        store.instances.open(SCOPE, 9, incarnation="b")
    store.instances.open(TaskScope(DAG, "run2", "task"), 1, incarnation="a")


def test_no_incarnation_means_the_recorded_one(store: Any) -> None:
    """Incarnation None is the recorded one; a run without one adopts the first as long as no attempt was opened."""
    store.task_store(SCOPE).set("k", 1)
    task = store.instances.open(SCOPE, 1, incarnation="a")["task_store"]
    assert task.get("k") == 1
    assert store.instances.open(SCOPE, 2)["task_store"].get("k") == 1
    assert store.instances.get(SCOPE).incarnation == "a"
    other = TaskScope(DAG, "plain", "task")
    store.task_store(other, attempt=1).set("k", 1)
    assert store.instances.open(other, 1, incarnation="a")["task_store"].keys() == []


def items_of(store: Any, items: str, *, attempt: int, run: str = RUN) -> list[Any]:
    """Open a mapped task over some items and return the accessors."""
    return [
        store.instances.open(TaskScope(DAG, run, "mapped", index), attempt, item={"x": item})["task_store"]
        for index, item in enumerate(items)
    ]


@pytest.mark.parametrize("keep", [None, True])
def test_s22_a_changed_item_never_sees_the_old_state(store: Any, caplog: Any, keep: bool | None) -> None:
    """S-22: after a clear, a position that holds another item starts empty, even if the clear kept the state."""
    for task, item in zip(items_of(store, "abc", attempt=1), "abc", strict=True):
        task.set("item", item)
    for index in range(3):
        store.instances.clear(TaskScope(DAG, RUN, "mapped", index), keep=keep)
    tasks = items_of(store, "zbca", attempt=2)
    assert [task.get("item") for task in tasks] == [None, *("bc" if keep else [None, None]), None]
    archive = store.instances.archives(TaskScope(DAG, RUN, "mapped", 0))[0]
    assert (archive.cause, archive.keys) == ("item_changed" if keep else "clear", ("item",))
    warned = [record for record in caplog.records if getattr(record, "action", "") == "set_aside"]
    assert len(warned) == (1 if keep else 0)


def test_s22_retries_are_never_compared(store: Any) -> None:
    """S-22: retries of one expansion keep the state whatever the item looks like; a resumed attempt too."""
    items_of(store, "a", attempt=1)[0].set("item", "a")
    assert items_of(store, "z", attempt=1)[0].get("item") == "a"
    assert items_of(store, "z", attempt=2)[0].get("item") == "a"
    store.instances.clear(TaskScope(DAG, RUN, "mapped", 0), keep=True)
    assert items_of(store, "z", attempt=3)[0].get("item") == "a", "the item of the last attempt is what counts"
    assert items_of(store, "y", attempt=4)[0].get("item") == "a"


def test_s22_a_shrunk_list_leaves_nothing_reachable(store: Any) -> None:
    """S-22: after a clear of the run, an index that the new list does not have holds no keys."""
    for task in items_of(store, "abc", attempt=1):
        task.set("item", 1)
    assert store.instances.clear_run(DAG, RUN) == 3
    items_of(store, "ab", attempt=2)
    assert store.task_store(TaskScope(DAG, RUN, "mapped", 2)).keys() == []


def expand(store: Any, items: str, expansion: str) -> list[int]:
    """Tell of which items the mapped task has instances, and return the positions that start over."""
    gone = store.instances.expand(
        DAG, RUN, "mapped", expansion=expansion, length=len(items), item=lambda index: {"x": items[index]}
    )
    return [scope.map_index for scope in gone]


def test_s22_a_list_computed_anew_starts_other_items_over(store: Any, caplog: Any) -> None:
    """S-22: a new expansion sets aside the state and the result of positions that hold another item or none."""
    for index, task in enumerate(items_of(store, "abcd", attempt=1)):
        scope = TaskScope(DAG, RUN, "mapped", index)
        task.set("item", "abcd"[index])
        store.runs.put_result(scope, 1, "1")
        store.instances.finish(scope, 1, "success" if index != 1 else "up_for_retry")
    assert expand(store, "abcd", "first") == []
    assert expand(store, "azc", "second") == [1, 3]
    left = [store.task_store(TaskScope(DAG, RUN, "mapped", index)).items() for index in range(4)]
    assert left == [[("item", "a")], [], [("item", "c")], []]
    assert store.runs.get_results(DAG, RUN, "mapped") == {0: "1", 2: "1"}
    states = [record.state for record in store.instances.list(DAG, RUN, "mapped")]
    assert states == ["success", "cleared", "success", "cleared"]
    warned = [record for record in caplog.records if getattr(record, "action", "") == "set_aside"]
    assert len(warned) == 2
    for index in (1, 3):
        (archive,) = store.instances.archives(TaskScope(DAG, RUN, "mapped", index))
        assert (archive.cause, archive.keys) == ("item_changed", ("item",))
    with pytest.raises(StaleAttemptError):
        store.instances.finish(TaskScope(DAG, RUN, "mapped", 1), 1, "failed")


def test_s22_staged_values_of_another_item_are_dropped(store: Any) -> None:
    """S-22: what an attempt staged for an item that has gone never becomes visible."""
    scope, asset = TaskScope(DAG, RUN, "mapped", 0), Asset("a")
    opened = store.instances.open(scope, 1, item={"x": "a"}, outlets=[asset])
    opened["asset_store"].stage("k", 1)
    assert expand(store, "z", "first") == [0]
    store.instances.open(scope, 2, item={"x": "z"}, outlets=[asset])
    store.instances.finish(scope, 2, "success")
    assert store.asset_store(asset).keys() == []


def test_s22_one_expansion_is_compared_once(store: Any) -> None:
    """S-22: for the same expansion nothing is compared, nor for items without a fingerprint; a deleted run begins anew."""
    items_of(store, "ab", attempt=1)[0].set("item", "a")
    assert expand(store, "ab", "first") == []
    assert expand(store, "zy", "first") == []
    assert store.instances.expand(DAG, RUN, "mapped", expansion="2", length=2, item=lambda _: None) == []
    assert store.task_store(TaskScope(DAG, RUN, "mapped", 0)).get("item") == "a"
    store.instances.delete_run(DAG, RUN)
    items_of(store, "ab", attempt=1)
    assert expand(store, "zb", "2") == [0]


def test_s22_expand_refuses_what_makes_no_sense(store: Any) -> None:
    """An unknown run, an odd length and an empty expansion are refused, and nothing is recorded."""
    with pytest.raises(RunNotFoundError):
        expand(store, "a", "first")
    items_of(store, "ab", attempt=1)
    for wrong, error in (({"length": -1}, ValueError), ({"length": "1"}, TypeError), ({"expansion": ""}, ValueError)):
        with pytest.raises(error):
            store.instances.expand(DAG, RUN, "mapped", **{"expansion": "1", "length": 1, "item": lambda _: None, **wrong})
    assert expand(store, "zb", "1") == [0]


def test_s22_items_that_are_not_json_have_no_guard(store: Any, caplog: Any) -> None:
    """S-22: items that are not JSON are not compared, which is logged once per task."""
    for index in range(3):
        scope = TaskScope(DAG, RUN, "odd", index)
        store.instances.open(scope, 1, item={"x": {1, 2}})["task_store"].set("k", 1)
        store.instances.clear(scope, keep=True)
        assert store.instances.open(scope, 2, item={"x": {3}})["task_store"].get("k") == 1
    warned = [record for record in caplog.records if getattr(record, "action", "") == "item_unguarded"]
    assert len(warned) == 1


@pytest.mark.parametrize(
    ("setting", "option", "argument", "kept"),
    [
        ("discard", None, None, False),
        ("keep", None, None, True),
        ("discard", "keep", None, True),
        ("keep", "discard", None, False),
        ("keep", "keep", False, False),
        ("discard", "discard", True, True),
    ],
)
def test_who_decides_what_a_clear_keeps(make: Make, setting: str, option: Any, argument: Any, kept: bool) -> None:
    """The argument of clear beats the task's option, which beats the setting on_clear."""
    for by_run in (False, True):
        store = make(on_clear=setting)
        scope = TaskScope(DAG, f"run{by_run}", "task")
        task = store.instances.open(scope, 1, options=TaskOptions(on_clear=option))["task_store"]
        task.set("k", 1, retention=NEVER_EXPIRE)
        if by_run:
            assert store.instances.clear_run(DAG, scope.run_id, keep=argument) == 1
        else:
            store.instances.clear(scope, keep=argument)
        assert store.task_store(scope).keys() == (["k"] if kept else [])
        assert len(store.instances.archives(scope)) == (0 if kept else 1)
        with pytest.raises(StaleAttemptError):
            task.set("k", 2)


@pytest.mark.parametrize(
    ("setting", "option", "cleared"),
    [(False, None, False), (True, None, True), (False, True, True), (True, False, False)],
)
def test_clear_on_success(make: Make, setting: bool, option: bool | None, cleared: bool) -> None:
    """clear_on_success, by option or else by setting, drops task keys at success only, and never asset state."""
    store = make(clear_on_success=setting)
    for attempt, state in enumerate(["up_for_retry", "deferred", "failed", "skipped", "success"], 1):
        opened = store.instances.open(
            SCOPE, attempt, outlets=[Asset("orders")], options=TaskOptions(clear_on_success=option)
        )
        opened["task_store"].set("k", 1, retention=NEVER_EXPIRE)
        opened["asset_store"].set("k", 1)
        store.instances.finish(SCOPE, attempt, state)
        assert store.task_store(SCOPE).keys() == ([] if cleared and state == "success" else ["k"])
        assert store.asset_store(Asset("orders")).get("k") == 1


def test_unknown_instances_and_runs(store: Any) -> None:
    """Lifecycle calls on what is not recorded raise the NotFoundError of their kind and record nothing."""
    calls = (store.instances.clear, store.instances.archives, store.instances.restore)
    for call in calls:
        with pytest.raises(InstanceNotFoundError):
            call(SCOPE)
        for wrong in ("dag", None, (DAG, RUN, "task")):
            with pytest.raises(TypeError):
                call(wrong)
    for call in (store.instances.clear_run, store.instances.delete_run):
        with pytest.raises(RunNotFoundError):
            call(DAG, RUN)
        with pytest.raises(InvalidKeyError):
            call(DAG, "")
    assert store.instances.list() == []
    assert store.runs.list() == []


def test_list_filters_and_orders(store: Any) -> None:
    """`list` is ordered by recording of the run, task and map index, and each argument filters."""
    scopes = [
        TaskScope("d2", "r", "t"),
        TaskScope("d1", "r2", "b"),
        TaskScope("d1", "r2", "a", 10),
        TaskScope("d1", "r2", "a", 9),
    ]
    for scope in scopes:
        store.instances.open(scope, 1)
    store.instances.finish(scopes[0], 1, "success")
    assert [r.scope for r in store.instances.list()] == [scopes[0], scopes[3], scopes[2], scopes[1]]
    assert [r.scope for r in store.instances.list("d1", "r2", "a")] == [scopes[3], scopes[2]]
    assert [r.scope for r in store.instances.list(task_id="b")] == [scopes[1]]
    assert [r.scope for r in store.instances.list(state="success")] == [scopes[0]]
    assert store.instances.list("d%") == []


def test_s21_delete_run_takes_task_rows_only(store: Any) -> None:
    """S-21: delete_run removes every task row of that run; asset rows keep their writer; other runs are untouched."""
    other = TaskScope(DAG, "run2", "task")
    for scope in (SCOPE, other, TaskScope(DAG, RUN, "mapped", 3)):
        opened = store.instances.open(scope, 1, outlets=[Asset("orders")])
        opened["task_store"].set_many({"a": 1, "b": 2}, retention=NEVER_EXPIRE)
        store.runs.put_result(scope, 1, "result")
        if scope != other:
            opened["asset_store"].set("watermark", "2024-06-01")
    store.instances.clear(TaskScope(DAG, RUN, "mapped", 3))
    assert store.instances.delete_run(DAG, RUN) == 2
    assert [record.scope for record in store.instances.list()] == [other]
    assert [record.run_id for record in store.runs.list()] == ["run2"]
    assert store.task_store(other).items() == [("a", 1), ("b", 2)]
    assert store.runs.get_result(other) == "result"
    assert sql(store, "SELECT count(*) FROM entries") == [(3,)]
    assert sql(store, "SELECT count(*) FROM results") == [(1,)]
    assert sql(store, "SELECT count(*) FROM changes WHERE kind = 'task' AND key IS NOT NULL") == [(0,)]
    entry = store.asset_store(Asset("orders")).entry("watermark")
    writer = entry.writer
    assert entry.value == "2024-06-01"
    assert (writer.dag_id, writer.run_id, writer.task_id, writer.map_index, writer.attempt) == (DAG, RUN, "mapped", 3, 1)
    with pytest.raises(RunNotFoundError):
        store.instances.delete_run(DAG, RUN)
    assert store.task_store(SCOPE, attempt=1).keys() == []


def test_a_run_is_deleted_only_as_the_one_it_was(store: Any) -> None:
    """Deleting a run of an incarnation leaves one alone that was made anew under its id."""
    store.instances.open(SCOPE, 1, incarnation="i1")
    store.instances.open(SCOPE, 1, incarnation="i2")["task_store"].set("k", 1)
    with pytest.raises(StaleAttemptError, match="another incarnation than 'i1'"):
        store.instances.delete_run(DAG, RUN, incarnation="i1")
    assert store.task_store(SCOPE).get("k") == 1
    assert store.instances.delete_run(DAG, RUN, incarnation="i2") == 1


def test_more_tries_granted_by_the_host_are_a_clear(store: Any, caplog: Any) -> None:
    """S-22: where the host grants more tries than at the attempt before, a person has cleared there: it starts over.

    The log says so, and how to get the keys back.
    """
    first = store.instances.open(SCOPE, 1, max_tries=2)["task_store"]
    first.set("job", "j-1")
    store.instances.finish(SCOPE, 1, "up_for_retry")
    second = store.instances.open(SCOPE, 2, max_tries=2)["task_store"]
    assert second.get("job") == "j-1"
    third = store.instances.open(SCOPE, 3, max_tries=4)["task_store"]
    assert third.keys() == []
    (told,) = [record.getMessage() for record in caplog.records if getattr(record, "action", "") == "set_aside"]
    assert told == (
        f"{SCOPE} was cleared: 1 key was set aside; when this attempt has ended, "
        f"`milepost task-store restore {DAG} {RUN} {SCOPE.task_id}` brings back what was there"
    )
    assert [(archive.cause, archive.keys) for archive in store.instances.archives(SCOPE)] == [("clear", ("job",))]
    third.set("job", "j-2")
    assert store.instances.open(SCOPE, 4, max_tries=4)["task_store"].get("job") == "j-2"


def test_fewer_tries_granted_by_the_host_are_a_clear(store: Any) -> None:
    """A host sets the tries that it grants at a clear only: where the task has fewer retries by then, these may be fewer."""
    store.instances.open(SCOPE, 1, max_tries=3)["task_store"].set("job", "j-1")
    assert store.instances.open(SCOPE, 2, max_tries=1)["task_store"].keys() == []


def test_a_clear_by_the_host_keeps_where_the_task_says_so(store: Any) -> None:
    """`on_clear` of the task decides about a clear that the host reports, too."""
    keep = TaskOptions(on_clear="keep")
    store.instances.open(SCOPE, 1, max_tries=0, options=keep)["task_store"].set("job", "j-1")
    assert store.instances.open(SCOPE, 2, max_tries=1, options=keep)["task_store"].get("job") == "j-1"


def test_a_clear_of_one_attempt_leaves_a_later_one_alone(store: Any) -> None:
    """An attempt that a host cleared while it ran is started over, unless there is a later one by then."""
    store.instances.open(SCOPE, 1)["task_store"].set("job", "j-1")
    store.instances.clear(SCOPE, attempt=1)
    second = store.instances.open(SCOPE, 2)["task_store"]
    assert second.keys() == []
    second.set("job", "j-2")
    with pytest.raises(StaleAttemptError):
        store.instances.clear(SCOPE, attempt=1)
    assert second.get("job") == "j-2"


def test_a_clear_here_and_in_the_host_is_one_clear(store: Any) -> None:
    """What was restored after a clear in Milepost is not cleared again when the host reports the same clear."""
    store.instances.open(SCOPE, 1, max_tries=0)["task_store"].set("job", "j-1")
    store.instances.finish(SCOPE, 1, "failed")
    store.instances.clear(SCOPE)
    store.instances.restore(SCOPE)
    assert store.instances.open(SCOPE, 2, max_tries=1)["task_store"].get("job") == "j-1"


def test_a_run_that_its_host_cleared_is_the_same_run(store: Any) -> None:
    """Another incarnation after more clears is the recorded run; after as many or fewer, it is a run made anew."""
    store.instances.open(SCOPE, 1, incarnation="0 a", run_clears=0)["task_store"].set("job", "j-1")
    assert store.instances.open(SCOPE, 2, incarnation="1 b", run_clears=1)["task_store"].get("job") == "j-1"
    with pytest.raises(StaleAttemptError, match="earlier one"):
        store.instances.open(SCOPE, 3, incarnation="0 a", run_clears=0)
    assert store.instances.open(SCOPE, 1, incarnation="0 c", run_clears=0)["task_store"].keys() == []


def test_a_run_whose_host_begins_to_tell_of_clears_is_the_same_run(store: Any) -> None:
    """A host that was upgraded (Airflow 2 to 3) names the run anew: it keeps its keys, and the old name is stale."""
    store.instances.open(SCOPE, 1, incarnation="17", max_tries=2)["task_store"].set("job", "j-1")
    again = store.instances.open(SCOPE, 2, incarnation="a/b", max_tries=2, run_clears=0)["task_store"]
    assert again.get("job") == "j-1"
    with pytest.raises(StaleAttemptError, match="earlier one"):
        store.instances.open(SCOPE, 3, incarnation="17", max_tries=2)
    assert store.instances.open(SCOPE, 1, incarnation="a/c", max_tries=2, run_clears=0)["task_store"].keys() == []


def test_a_run_that_its_host_cleared_while_it_ran_goes_on(store: Any) -> None:
    """A clear that leaves the incarnation as it is counts, and attempts that know of fewer clears are of the same run."""
    other = TaskScope(DAG, RUN, "other")
    store.instances.open(SCOPE, 1, incarnation="a", run_clears=0)["task_store"].set("job", "j-1")
    store.instances.open(other, 1, incarnation="a", run_clears=1)
    store.instances.finish(SCOPE, 1, "success", incarnation="a")
    assert store.instances.open(SCOPE, 2, incarnation="a", run_clears=0)["task_store"].get("job") == "j-1"
    assert store.instances.open(SCOPE, 1, incarnation="b", run_clears=1)["task_store"].keys() == []
