"""Archives and restore (SPEC 4.2)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from milepost import NEVER_EXPIRE, ArchiveNotFoundError, InstanceStateError, ManualClock, TaskScope, Writer
from tests.contract.conftest import SCOPE, as_writer

HOUR = timedelta(hours=1)
CLI = Writer("cli", user="ada")


def test_a_clear_is_restorable(store: Any, clock: ManualClock) -> None:
    """A clear archives all live keys with time and writer; restore brings them back with expiry and creation time."""
    task = store.task_store(SCOPE, attempt=1)
    task.set("default", [1])
    task.set("hour", 2, retention=HOUR)
    task.set("never", 3, retention=NEVER_EXPIRE)
    task.set("gone", 4, retention=HOUR / 4)
    before = {key: task.entry(key) for key in ("default", "hour", "never")}
    clock.advance(HOUR / 2)
    person = as_writer(store, CLI)
    person.instances.clear(SCOPE)
    (archive,) = store.instances.archives(SCOPE)
    assert (archive.scope, archive.cause, archive.writer, archive.keys) == (
        SCOPE,
        "clear",
        CLI,
        ("default", "hour", "never"),
    )
    assert store.task_store(SCOPE).keys() == []
    assert person.instances.restore(SCOPE) == 3
    for key, old in before.items():
        new = store.task_store(SCOPE).entry(key)
        assert (new.value, new.created_at, new.expires_at) == (old.value, old.created_at, old.expires_at)
        assert (new.never_expires, new.writer) == (old.never_expires, CLI)
        assert new.version != old.version


def test_restore_skips_what_expired_meanwhile(store: Any, clock: ManualClock) -> None:
    """A key whose expiry passed while it was archived does not come back, and an expired live row is not in the way."""
    task = store.task_store(SCOPE)
    task.set_many({"a": 1, "b": 2}, retention=HOUR)
    task.set("c", 3)
    store.instances.clear(SCOPE)
    task.set("c", 4, retention=HOUR)
    clock.advance(HOUR)
    assert store.instances.restore(SCOPE) == 1
    assert task.items() == [("c", 3)]


def test_restore_is_refused_over_live_keys_without_force(store: Any) -> None:
    """Live keys refuse a restore of whole state; force sets them aside, where they can be restored in turn."""
    task = store.task_store(SCOPE)
    task.set_many({"a": 1, "b": 1})
    store.instances.clear(SCOPE)
    task.set("other", 2)
    with pytest.raises(InstanceStateError, match=r"live keys \(other\)"):
        store.instances.restore(SCOPE)
    assert task.items() == [("other", 2)]
    assert store.instances.restore(SCOPE, force=True) == 2
    assert task.items() == [("a", 1), ("b", 1)]
    aside, first = store.instances.archives(SCOPE)
    assert (aside.cause, aside.keys, first.cause) == ("restore", ("other",), "clear")
    assert store.instances.restore(SCOPE, archive=aside.id, force=True) == 1
    assert task.items() == [("other", 2)]
    assert store.instances.restore(SCOPE, archive=first.id, force=True) == 2
    assert task.items() == [("a", 1), ("b", 1)]


def test_restore_is_refused_while_an_attempt_runs(store: Any) -> None:
    """A running attempt refuses a restore, forced or not; one that waits or has ended does not."""
    store.task_store(SCOPE).set("a", 1)
    store.instances.clear(SCOPE)
    store.instances.open(SCOPE, 1)
    for force in (False, True):
        with pytest.raises(InstanceStateError, match="running"):
            store.instances.restore(SCOPE, force=force)
    assert store.task_store(SCOPE).keys() == []
    store.instances.finish(SCOPE, 1, "up_for_retry")
    assert store.instances.restore(SCOPE) == 1
    assert store.task_store(SCOPE, attempt=2).get("a") == 1


def test_archives_are_newest_first_and_by_id(store: Any) -> None:
    """Archives are listed newest first; one that is not there is ArchiveNotFoundError."""
    task = store.task_store(SCOPE)
    with pytest.raises(KeyError):
        store.instances.archives(SCOPE)
    for value in (1, 2, 3):
        task.set("k", value)
        store.instances.clear(SCOPE)
    ids = [archive.id for archive in store.instances.archives(SCOPE)]
    assert ids == sorted(ids, reverse=True)
    assert len(ids) == 3
    store.instances.restore(SCOPE, archive=ids[-1])
    assert task.get("k") == 1
    for missing in (0, 10**9):
        with pytest.raises(ArchiveNotFoundError, match="no archive"):
            store.instances.restore(SCOPE, archive=missing, force=True)
    other = TaskScope("dag", "run", "other")
    store.task_store(other).set("k", 1)
    assert store.instances.archives(other) == []
    for archive in (None, ids[0]):
        with pytest.raises(ArchiveNotFoundError):
            store.instances.restore(other, archive=archive, force=True)


def test_peoples_edits_are_restorable(store: Any) -> None:
    """Keys that a person deletes or clears can be restored, over unrelated live keys too; what code drops is not kept."""
    code, person = store.task_store(SCOPE), as_writer(store, CLI).task_store(SCOPE)
    code.set_many({"a": 1, "b": 2, "c": 3})
    code.delete("c")
    assert store.instances.archives(SCOPE) == []
    person.delete("a")
    person.delete("absent")
    (archive,) = store.instances.archives(SCOPE)
    assert (archive.cause, archive.keys, archive.writer) == ("delete", ("a",), CLI)
    assert store.instances.restore(SCOPE) == 1
    assert code.items() == [("a", 1), ("b", 2)]
    with pytest.raises(InstanceStateError, match=r"\(a\)"):
        store.instances.restore(SCOPE)
    code.set("a", 9)
    assert store.instances.restore(SCOPE, force=True) == 1
    assert code.get("a") == 1
    assert store.instances.archives(SCOPE)[0].cause == "restore_keys"
    person.clear()
    archive = store.instances.archives(SCOPE)[0]
    assert (archive.cause, archive.keys) == ("clear_keys", ("a", "b"))
    code.set("new", 1)
    assert store.instances.restore(SCOPE) == 2
    assert code.keys() == ["a", "b", "new"]
    code.clear()
    assert store.instances.archives(SCOPE)[0].id == archive.id


def test_a_person_clearing_all_indices_archives_each(store: Any) -> None:
    """clear(all_map_indices=True) by a person is restorable for every index."""
    scopes = [TaskScope("dag", "run", "mapped", index) for index in range(3)]
    for scope in scopes:
        store.task_store(scope).set("k", scope.map_index)
    as_writer(store, CLI).task_store(TaskScope("dag", "run", "mapped")).clear(all_map_indices=True)
    for scope in scopes:
        assert store.task_store(scope).keys() == []
        assert store.instances.restore(scope) == 1
        assert store.task_store(scope).get("k") == scope.map_index


def test_clear_keys_leaves_fence_and_attempt(store: Any) -> None:
    """Clearing keys, by a person or a task, leaves the attempt current."""
    task = store.task_store(SCOPE, attempt=1)
    task.set("k", 1)
    as_writer(store, CLI).task_store(SCOPE).clear()
    task.set("k", 2)
    assert task.get("k") == 2
    assert store.instances.get(SCOPE).attempt == 1
