"""Retention and expiry on a clock that the test moves (SPEC 4.1)."""

from __future__ import annotations

import copy
import pickle
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from milepost import NEVER_EXPIRE, ManualClock, TaskScope, VersionConflictError
from tests.contract.conftest import SCOPE

MICRO = timedelta(microseconds=1)
HOUR = timedelta(hours=1)
START = datetime(2026, 1, 1, tzinfo=timezone.utc)


@pytest.mark.parametrize("attempt", [None, 1])
def test_s19_expired_is_absent_at_its_instant(store: Any, clock: ManualClock, attempt: int | None) -> None:
    """S-19: a key is there until one microsecond before its instant, and absent for every call from then on."""
    task = store.task_store(SCOPE, attempt=attempt)
    task.set("k", 1, retention=HOUR)
    version = task.entry("k").version
    clock.advance(HOUR - MICRO)
    assert task.get("k") == 1
    assert len(task) == 1
    clock.advance(MICRO)
    assert task.get("k", "gone") == "gone"
    assert task.entry("k") is None
    assert "k" not in task
    assert len(task) == 0
    assert task.keys() == []
    assert list(task) == []
    assert task.items() == []
    assert task.get_many(["k"]) == {}
    with pytest.raises(KeyError, match="absent"):
        task.touch("k", retention=HOUR)
    with pytest.raises(VersionConflictError, match="absent"):
        task.compare_and_set("k", 2, version=version)
    task.delete("k")


WRITES = {
    "set": lambda task, **options: task.set("k", 1, **options),
    "set_many": lambda task, **options: task.set_many({"k": 1}, **options),
    "set_default": lambda task, **options: task.set_default("k", 1, **options),
    "compare_and_set": lambda task, **options: task.compare_and_set("k", 1, version=None, **options),
}


@pytest.mark.parametrize("write", WRITES)
def test_s19_writing_over_an_expired_row_is_a_create(store: Any, clock: ManualClock, write: str) -> None:
    """S-19: writing over an expired row creates the key anew, with its own created_at and expiry, which cleanup keeps."""
    task = store.task_store(SCOPE)
    task.set("k", 0, retention=HOUR)
    clock.advance(HOUR)
    WRITES[write](task, retention=2 * HOUR)
    entry = task.entry("k")
    assert (entry.value, entry.created_at, entry.updated_at) == (1, START + HOUR, START + HOUR)
    assert entry.expires_at == START + 3 * HOUR
    store.clean()
    assert task.get("k") == 1
    clock.advance(2 * HOUR)
    assert store.clean().expired == 1


def test_increment_and_update_over_an_expired_row_start_anew(store: Any, clock: ManualClock) -> None:
    """`increment` and `update` take an expired key for absent and give it the default retention."""
    task = store.task_store(SCOPE)
    task.set_many({"n": 5, "u": 5}, retention=HOUR)
    clock.advance(HOUR)
    assert task.increment("n") == 1
    assert task.update("u", lambda old: old + 1, default=10) == 11
    for key in ("n", "u"):
        entry = task.entry(key)
        assert (entry.created_at, entry.expires_at, entry.never_expires) == (START + HOUR, None, False)


@pytest.mark.parametrize("write", WRITES)
def test_s17_every_write_decides_the_expiry_anew(store: Any, write: str) -> None:
    """S-17: an explicit retention, NEVER_EXPIRE and none are recorded as such, and a second write replaces them."""
    task = store.task_store(SCOPE)
    for retention, expires_at, never in (
        (6 * HOUR, START + 6 * HOUR, False),
        (NEVER_EXPIRE, None, True),
        (None, None, False),
        (MICRO, START + MICRO, False),
    ):
        if write in ("set_default", "compare_and_set"):
            task.delete("k")
        WRITES[write](task, retention=retention)
        entry = task.entry("k")
        assert (entry.expires_at, entry.never_expires) == (expires_at, never)


def test_s18_increment_and_update_keep_the_expiry(store: Any, clock: ManualClock) -> None:
    """S-18: changing a value by increment or update leaves the expiry exactly where it was and moves updated_at."""
    task = store.task_store(SCOPE)
    for retention, expires_at, never in ((HOUR, START + HOUR, False), (NEVER_EXPIRE, None, True), (None, None, False)):
        task = store.task_store(TaskScope("dag", "run", f"{retention}"))
        task.set("k", 1, retention=retention)
        clock.advance(MICRO)
        task.increment("k")
        task.update("k", lambda old: old + 1)
        entry = task.entry("k")
        assert (entry.value, entry.expires_at, entry.never_expires) == (3, expires_at, never)
        assert entry.updated_at == entry.created_at + MICRO
        clock.advance(-MICRO)


def test_touch_moves_the_expiry_only(store: Any, clock: ManualClock) -> None:
    """`touch` moves the expiry, keeps value, version and creation, and is a KeyError for an absent key."""
    task = store.task_store(SCOPE)
    with pytest.raises(KeyError, match="'k'"):
        task.touch("k", retention=HOUR)
    assert store.instances.get(SCOPE) is None
    task.set("k", [1], retention=HOUR)
    before = task.entry("k")
    clock.advance(MICRO)
    for retention, expires_at, never in (
        (2 * HOUR, START + 2 * HOUR + MICRO, False),
        (NEVER_EXPIRE, None, True),
        (None, None, False),
    ):
        task.touch("k", retention=retention)
        entry = task.entry("k")
        assert (entry.value, entry.version, entry.created_at) == ([1], before.version, before.created_at)
        assert (entry.expires_at, entry.never_expires, entry.updated_at) == (expires_at, never, START + MICRO)


def test_s17_bad_retentions_are_refused(store: Any) -> None:
    """S-17: a number as retention is TypeError, zero, negative and beyond year 9999 ValueError; nothing is stored."""
    task = store.task_store(SCOPE)
    task.set("k", "old", retention=HOUR)
    calls = [*WRITES.values(), lambda task, **options: task.touch("k", **options)]
    for call in calls:
        for wrong in (3600, 1.5, True, "1h", START):
            with pytest.raises(TypeError, match="timedelta"):
                call(task, retention=wrong)
        for bad in (timedelta(0), -HOUR):
            with pytest.raises(ValueError, match="longer than zero"):
                call(task, retention=bad)
        with pytest.raises(ValueError, match="NEVER_EXPIRE"):
            call(task, retention=timedelta(days=365 * 8_000))
    assert task.get("k") == "old"
    assert task.entry("k").expires_at == START + HOUR


def test_never_expire_is_recognised_by_equality(store: Any, clock: ManualClock) -> None:
    """Whatever equals NEVER_EXPIRE is it: copied, pickled, rebuilt; such a key outlives every collection."""
    task = store.task_store(SCOPE)
    same = (NEVER_EXPIRE, copy.deepcopy(NEVER_EXPIRE), pickle.loads(pickle.dumps(NEVER_EXPIRE)), timedelta.max)
    for number, retention in enumerate(same):
        task.set(f"k{number}", number, retention=retention)
    clock.advance(days=36_500)
    store.clean()
    assert len(task) == len(same)


def test_retention_counts_on_the_metastores_clock(store: Any, clock: ManualClock) -> None:
    """Expiry is counted from the metastore's own time at the write, also after that clock stepped back."""
    task = store.task_store(SCOPE)
    clock.advance(-HOUR)
    task.set("k", 1, retention=HOUR)
    assert task.entry("k").expires_at == START
    clock.advance(HOUR - MICRO)
    assert "k" in task
    clock.advance(MICRO)
    assert "k" not in task


def test_entry_tells_everything(store: Any, clock: ManualClock) -> None:
    """`entry` has key, value, version, aware UTC times, expiry and writer."""
    task = store.task_store(SCOPE)
    task.set("k", {"a": 1}, retention=HOUR)
    clock.advance(MICRO)
    task.set("k", {"a": 2}, retention=HOUR)
    entry = task.entry("k")
    assert (entry.key, entry.value) == ("k", {"a": 2})
    assert (entry.created_at, entry.updated_at, entry.expires_at) == (START, START + MICRO, START + MICRO + HOUR)
    assert {moment.utcoffset() for moment in (entry.created_at, entry.updated_at, entry.expires_at)} == {timedelta(0)}
    assert isinstance(entry.version, str)
    assert entry.writer.kind == "python"
    attempt = store.task_store(SCOPE, attempt=3)
    attempt.set("k", 1)
    writer = attempt.entry("k").writer
    assert (writer.kind, writer.dag_id, writer.run_id, writer.task_id, writer.map_index, writer.attempt) == (
        "task", "dag", "run", "task", -1, 3,
    )  # fmt: skip


def test_asset_entries_never_expire(asset: Any, store: Any, clock: ManualClock) -> None:
    """Asset state has no time-based expiry: no call takes a retention, and collection leaves it alone."""
    asset.set("k", 1)
    asset.increment("n")
    assert asset.entry("k").never_expires
    assert asset.entry("n").never_expires
    for call in (asset.set, asset.set_default):
        with pytest.raises(TypeError):
            call("k", 1, retention=HOUR)
    for missing in ("touch", "past_run", "submit_once", "asubmit_once"):
        assert not hasattr(asset, missing)
    clock.advance(days=36_500)
    store.clean()
    assert asset.keys() == ["k", "n"]
