"""Cases S-nn as they are written down, on every metastore; the other modules have more of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from milepost import NEVER_EXPIRE, Asset, ConfigurationError, ManualClock, TaskScope
from tests.contract.conftest import SCOPE, Make, sql

DAY = timedelta(days=1)


def test_s03_text_that_looks_like_something_else_stays_text(accessor: Any) -> None:
    """S-03: such strings stay byte-identical when they are saved again unchanged and when another key is deleted."""
    texts = ["1.2.3", "007", "true", "null", "  padded  ", "2025-10-14T00:00:00+00:00", "line1\nline2"]
    accessor.set_many({f"k{number}": text for number, text in enumerate(texts)} | {"other": 1})
    for key, value in accessor.items():
        accessor.set(key, value)
    accessor.delete("other")
    assert [value for _, value in accessor.items()] == texts
    assert [accessor.get(f"k{number}") for number in range(len(texts))] == texts


def test_s11_nine_keys_that_some_databases_take_for_fewer(accessor: Any) -> None:
    """S-11: nine look-alike keys hold nine values, and eight after one was deleted."""
    keys = ["A", "a", "e", "é", "e\u0301", "ss", "ß", "👍", "🎉"]
    for number, key in enumerate(keys):
        accessor.set(key, number)
    assert dict(accessor.items()) == {key: number for number, key in enumerate(keys)}
    accessor.delete("a")
    assert dict(accessor.items()) == {key: number for number, key in enumerate(keys) if key != "a"}


def test_s11_task_ids_and_assets_that_some_databases_take_for_one(store: Any) -> None:
    """S-11: the same pairs as task ids and asset names have state of their own."""
    names = ["A", "a", "e", "é", "e\u0301", "ss", "ß", "👍", "🎉"]
    for number, name in enumerate(names):
        store.task_store(TaskScope("d", "r", name)).set("k", number)
        store.asset_store(Asset(name)).set("k", number)
    assert [store.task_store(TaskScope("d", "r", name)).get("k") for name in names] == list(range(9))
    assert [store.asset_store(Asset(name)).get("k") for name in names] == list(range(9))
    assert len(store.instances.list("d", "r")) == 9
    assert len(store.instances.list("d", "r", "a")) == 1


def test_s12_trailing_blanks_count(accessor: Any) -> None:
    """S-12: `k`, `k ` and `k` with a tab are three keys, and deleting the second leaves the others."""
    accessor.set("k", 1)
    accessor.set("k ", 2)
    accessor.set("k\t", 3)
    assert (accessor.get("k"), accessor.get("k "), accessor.get("k\t")) == (1, 2, 3)
    accessor.delete("k ")
    assert accessor.keys() == ["k", "k\t"]


@pytest.mark.parametrize("days", [30, 0])
def test_s17_which_retention_applies(make: Make, clock: ManualClock, days: int) -> None:
    """S-17: none follows the default, of which 0 is never; a given one beats it; a second set replaces the expiry too."""
    choices = {"none": None, "hours": timedelta(hours=6), "never": NEVER_EXPIRE}
    store = make(default_retention_days=days)
    task = store.task_store(SCOPE)
    for first, before in choices.items():
        task.set(first, 1, retention=before)
        for second, after in choices.items():
            task.set(f"{first}, {second}", 1, retention=before)
            task.set(f"{first}, {second}", 2, retention=after)
    store.clean()
    assert len(task) == 12
    clock.advance(31 * DAY)
    store.clean()
    kept = {"never"} if days else {"never", "none"}
    assert task.keys() == sorted(key for first in choices for key in [first, *(f"{first}, {last}" for last in choices)]
                                 if key.rpartition(", ")[2] in kept)  # fmt: skip


def test_s17_a_negative_default_is_an_error_of_the_configuration(make: Make) -> None:
    """S-17: a negative default is refused when the configuration is read."""
    with pytest.raises(ConfigurationError, match="default_retention_days"):
        make(default_retention_days=-5)


def test_s18_changing_a_value_leaves_its_expiry(store: Any, clock: ManualClock) -> None:
    """S-18: calls that edit a value keep the expiry exactly, move updated_at, and create nothing where the key is gone."""
    task = store.task_store(SCOPE)
    expiries = {"later": timedelta(hours=6), "never": NEVER_EXPIRE}
    for key, retention in expiries.items():
        task.set(key, 1, retention=retention)
    before = {key: task.entry(key) for key in expiries}
    clock.advance(seconds=60)
    for key, old in before.items():
        task.update(key, lambda value: value + 1)
        task.increment(key)
        new = task.entry(key)
        assert (new.value, new.expires_at, new.never_expires) == (3, old.expires_at, old.never_expires)
        assert new.updated_at == old.updated_at + timedelta(seconds=60)
    with pytest.raises(KeyError):
        task.touch("absent", retention=DAY)
    assert task.keys() == ["later", "never"]


def test_s19_an_expired_key_is_gone_and_can_be_written_again(store: Any, clock: ManualClock) -> None:
    """S-19: an expired key is absent everywhere at once; a set makes it anew, and the next collection keeps it."""
    task = store.task_store(SCOPE)
    task.set("k", 1, retention=timedelta(seconds=1))
    clock.advance(seconds=2)
    assert (task.get("k", "default"), task.entry("k"), task.keys(), task.items(), len(task)) == ("default", None, [], [], 0)
    assert "k" not in task
    task.set("k", 2, retention=timedelta(hours=1))
    assert store.clean().expired == 0
    assert (task.get("k"), task.entry("k").created_at) == (2, task.entry("k").updated_at)


def test_s21_runs_are_deleted_one_after_the_other(store: Any) -> None:
    """S-21: a purge of runs takes all their task rows, never-expiring ones too; others and the watermark's writer stay."""
    runs = [f"run {number}" for number in range(4)]
    for run in runs:
        opened = store.instances.open(TaskScope("dag", run, "task"), 2, outlets=[Asset("orders")])
        opened["task_store"].set_many({"a": 1, "b": 2})
        opened["task_store"].set("kept", 3, retention=NEVER_EXPIRE)
        opened["asset_store"][Asset("orders")].set("watermark", run)
    for run in runs[1:]:
        assert store.instances.delete_run("dag", run) == 1
    assert store.task_store(TaskScope("dag", runs[0], "task")).items() == [("a", 1), ("b", 2), ("kept", 3)]
    assert [store.task_store(TaskScope("dag", run, "task")).items() for run in runs[1:]] == [[], [], []]
    assert sql(store, "SELECT count(*) FROM entries") == [(4,)]
    entry = store.asset_store(Asset("orders")).entry("watermark")
    assert (entry.value, entry.writer.dag_id, entry.writer.run_id, entry.writer.task_id, entry.writer.map_index) == (
        "run 3", "dag", "run 3", "task", -1,
    )  # fmt: skip
