"""Garbage collection: rules 1 to 4 of SPEC section 8."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from milepost import NEVER_EXPIRE, Asset, ManualClock, StoreClosedError, TaskScope, Writer
from milepost.calls import Collect
from tests.contract.conftest import SCOPE, Make, as_writer, real, sql

DAY = timedelta(days=1)
MICRO = timedelta(microseconds=1)


def rows(store: Any) -> int:
    """Return the number of stored rows, expired ones included."""
    return int(sql(store, "SELECT count(*) FROM entries")[0][0])


def test_rule_1_expired_rows_go(store: Any, clock: ManualClock) -> None:
    """Rule 1: a row goes once its expires_at has passed, not one microsecond before."""
    task = store.task_store(SCOPE, attempt=1)
    task.set("k", 1, retention=DAY)
    clock.advance(DAY - MICRO)
    assert store.clean().expired == 0
    assert rows(store) == 1
    clock.advance(MICRO)
    assert store.clean(dry_run=True).expired == 1
    assert rows(store) == 1
    assert store.clean().expired == 1
    assert rows(store) == 0


@pytest.mark.parametrize(("days", "gone_after"), [(30, 30), (1, 1), (0, None)])
def test_s17_rule_2_default_retention(make: Make, clock: ManualClock, days: int, gone_after: int | None) -> None:
    """S-17: rows without explicit retention go default_retention_days after their last update; 0 keeps them."""
    store = make(default_retention_days=days)
    task = store.task_store(SCOPE)
    task.set("default", 1)
    task.set("day", 1, retention=100 * DAY)
    task.set("never", 1, retention=NEVER_EXPIRE)
    if gone_after is None:
        clock.advance(99 * DAY)
        assert store.clean().retired == 0
        assert task.keys() == ["day", "default", "never"]
        return
    clock.advance(gone_after * DAY)
    assert store.clean().retired == 0, "exactly that old is not yet older"
    clock.advance(MICRO)
    assert "default" in task, "it is readable until collected"
    assert store.clean().retired == 1
    assert task.keys() == ["day", "never"]
    clock.advance(days=36_500)
    store.clean()
    assert task.keys() == ["never"]


def test_rule_2_uses_the_default_in_force_at_collection(make: Make, clock: ManualClock) -> None:
    """S-17: rows without explicit retention follow the default of the collection, not that of their write."""
    store = make(default_retention_days=0)
    store.task_store(SCOPE).set("k", 1)
    other = as_writer(store, Writer("python"), default_retention_days=5)
    clock.advance(5 * DAY + MICRO)
    assert other.clean().retired == 1


def test_rule_3_renewed_rows_stay(store: Any, clock: ManualClock) -> None:
    """Rule 3: any write and a touch count as an update and renew a row under the default retention."""
    task = store.task_store(SCOPE)
    task.set_many(dict.fromkeys(["set", "touch", "increment", "update", "old"], 1))
    clock.advance(29 * DAY)
    task.set("set", 1)
    task.touch("touch", retention=None)
    task.increment("increment")
    task.update("update", lambda old: old)
    clock.advance(29 * DAY)
    assert store.clean().retired == 1
    assert task.keys() == ["increment", "set", "touch", "update"]


@pytest.mark.parametrize("state", ["running", "up_for_retry", "deferred"])
def test_rule_2_spares_open_instances(store: Any, clock: ManualClock, state: str) -> None:
    """Rule 2: an open instance keeps its keys until unfinished_days after its last sign of life."""
    task = store.task_store(SCOPE, attempt=1)
    task.set("k", 1)
    if state != "running":
        store.instances.finish(SCOPE, 1, state)
    clock.advance(90 * DAY)
    assert store.clean().retired == 0
    assert task.get("k") == 1
    clock.advance(MICRO)
    assert store.clean(dry_run=True).retired == 1
    assert store.clean().retired == 1


@pytest.mark.parametrize("state", ["success", "failed", "skipped", None])
def test_rule_2_takes_from_ended_instances(store: Any, clock: ManualClock, state: str | None) -> None:
    """Rule 2: an instance that has ended, or was never opened, is not spared."""
    task = store.task_store(SCOPE, attempt=1 if state else None)
    task.set("k", 1)
    if state:
        store.instances.finish(SCOPE, 1, state)
    clock.advance(31 * DAY)
    assert store.clean().retired == 1


def test_a_write_is_a_sign_of_life(store: Any, clock: ManualClock) -> None:
    """Any key written since is a sign of life that spares the other keys of an open instance."""
    task = store.task_store(SCOPE, attempt=1)
    task.set("k", 1)
    clock.advance(80 * DAY)
    task.set("alive", 1)
    clock.advance(80 * DAY)
    assert store.clean().retired == 0
    assert task.keys() == ["alive", "k"]


def test_an_expired_key_is_no_sign_of_life(store: Any, clock: ManualClock) -> None:
    """The dry run names what the real run removes, where the last sign of life is a row that is due itself."""
    task = store.task_store(SCOPE, attempt=1)
    task.set("k", 1)
    clock.advance(50 * DAY)
    task.set("alive", 1, retention=DAY)
    clock.advance(50 * DAY)
    dry = store.clean(dry_run=True)
    wet = store.clean()
    assert (dry.expired, dry.retired, dry.changes) == (wet.expired, wet.retired, wet.changes)


def test_dry_run_equals_real_run_in_bounded_batches(store: Any, clock: ManualClock) -> None:
    """A dry run counts exactly what the real run removes, however small the batches, and changes nothing itself."""
    person = as_writer(store, Writer("cli"))
    for index in range(7):
        task = store.task_store(TaskScope("dag", "run", "task", index))
        task.set_many({f"d{n}": n for n in range(5)})
        task.set_many({f"e{n}": n for n in range(4)}, retention=DAY)
        task.set_many({f"n{n}": n for n in range(3)}, retention=NEVER_EXPIRE)
        person.task_store(TaskScope("dag", "run", "task", index)).delete("n0")
    clock.advance(31 * DAY)
    before = rows(store)
    dry = store.clean(dry_run=True)
    assert (dry.expired, dry.retired, dry.changes, dry.dry_run) == (28, 35, 7, True)
    assert rows(store) == before
    wet = store.clean(batch_size=3)
    assert (wet.expired, wet.retired, wet.changes, wet.dry_run) == (28, 35, 7, False)
    assert rows(store) == 14
    again = store.clean()
    assert (again.expired, again.retired, again.changes) == (0, 0, 0)


@pytest.mark.parametrize(("setting", "argument", "expected"), [(0, None, 5_000), (4, None, 4), (4, 2, 2)])
def test_no_statement_removes_more_than_a_batch(
    make: Make, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, setting: int, argument: int | None, expected: int
) -> None:
    """Every delete is bounded: by the argument, the setting, or a batch chosen by Milepost where the setting is 0."""
    store = make(state_cleanup_batch_size=setting)
    store.task_store(SCOPE).set_many({f"k{n}": n for n in range(9)}, retention=DAY)
    clock.advance(DAY)
    metastore = real(store).metastore
    removed: list[int] = []
    inner, ainner = metastore.call, metastore.acall

    def count(call: Any, answer: Any) -> Any:
        if isinstance(call, Collect):
            assert call.batch == expected
            removed.append(answer)
        return answer

    async def acounted(call: Any) -> Any:
        return count(call, await ainner(call))

    monkeypatch.setattr(metastore, "call", lambda call: count(call, inner(call)))
    monkeypatch.setattr(metastore, "acall", acounted)
    assert store.clean(batch_size=argument).expired == 9
    assert max(removed) <= expected


@pytest.mark.parametrize("bad", [0, -1])
def test_batch_size_is_positive(store: Any, bad: int) -> None:
    """A batch size below 1 is a ValueError."""
    with pytest.raises(ValueError, match="batch_size"):
        store.clean(batch_size=bad)


def test_rule_4_change_log_past_archive_days(make: Make, clock: ManualClock) -> None:
    """Rule 4: archives go after archive_days; asset values are bounded by number, not by age."""
    store = make(archive_days=3)
    store.task_store(SCOPE, attempt=1).set("k", 1)
    asset = store.asset_store(Asset("orders"))
    asset.set("k", 1)
    asset.set("k", 2)
    store.instances.clear(SCOPE)
    clock.advance(3 * DAY)
    assert store.clean().changes == 0
    assert len(store.instances.archives(SCOPE)) == 1
    clock.advance(MICRO)
    assert store.clean(dry_run=True).changes == 2
    assert store.clean().changes == 2
    assert store.instances.archives(SCOPE) == []
    assert sql(store, "SELECT count(*) FROM changes WHERE kind = 'asset'") == [(2,)]


@pytest.mark.parametrize(("limit", "kept"), [(0, 0), (1, 1), (3, 3), (100, 7)])
def test_asset_history_is_trimmed_as_writes_happen(make: Make, limit: int, kept: int) -> None:
    """At most asset_history_limit earlier values are kept per asset key; 0 keeps none."""
    store = make(asset_history_limit=limit)
    asset = store.asset_store(Asset("orders"))
    for number in range(7):
        asset.set("k", number)
    asset.set("other", 1)
    assert sql(store, "SELECT count(*) FROM changes WHERE key = 'k'") == [(kept,)]


def test_closed_store_refuses_every_call(make: Make) -> None:
    """After close every call raises StoreClosedError, and closing again is no error."""
    store = make()
    task = store.task_store(SCOPE, attempt=1)
    asset = store.asset_store(Asset("orders"))
    task.set("k", 1)
    store.close()
    store.close()
    calls = (
        lambda: task.get("k"),
        lambda: task.set("k", 2),
        task.keys,
        lambda: len(task),
        lambda: asset.increment("n"),
        lambda: store.task_store(SCOPE, attempt=2),
        lambda: store.asset_store(Asset("new")),
        lambda: store.instances.get(SCOPE),
        store.runs.list,
        store.clean,
    )
    for call in calls:
        with pytest.raises(StoreClosedError, match="closed"):
            call()
