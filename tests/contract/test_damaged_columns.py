"""Every column of a row damaged in every way that the database's types allow (SPEC 3, last paragraph)."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

import pytest

from milepost import Archive, Asset, DamagedEntryError, DamagedValue, ManualClock, Writer
from tests.contract.conftest import SCOPE, as_writer, sql

VARIANTS = ["sqlite-direct-sync", "postgres-direct-sync", "mysql-direct-sync"]
"""One of each kind of database: what differs is which types their columns hold."""

CLI = Writer("cli")
TEXT = ("''", "'x'", "'task:[1]'", "CAST(x'ff' AS TEXT)", "x'ff'", "7", "NULL")
NUMBER = ("-1", "9223372036854775807", "'soon'", "x'ff'", "1.5", "NULL")
ENTRIES = {
    "key": TEXT,
    "version": TEXT,
    "writer": TEXT,
    "value": TEXT,
    "encoding": NUMBER,
    "created_at": NUMBER,
    "updated_at": NUMBER,
    "expires_at": NUMBER,
    "default_day": NUMBER,
}
CHANGES = {
    "at": NUMBER,
    "cause": TEXT,
    "kind": ("'x'", "x'ff'"),
    "scope": TEXT,
    "writer": TEXT,
    "key": TEXT,
    "new_version": TEXT,
    "version": TEXT,
    "old_writer": TEXT,
    "value": TEXT,
    "encoding": NUMBER,
    "created_at": NUMBER,
    "updated_at": NUMBER,
    "expires_at": NUMBER,
    "default_day": NUMBER,
    "event": ("0", "'x'", "x'ff'", "9223372036854775807"),
}


def damage(store: Any, table: str, column: str, value: str, where: str) -> bool:
    """Damage rows; return whether the database let us."""
    try:
        sql(store, f"UPDATE {table} SET {column} = {value} WHERE {where}")
    except pytest.skip.Exception:
        return False
    except Exception:  # noqa: BLE001  (whatever the driver raises: the database's types do not allow this)
        return False
    return True


def refused(work: Any) -> bool:
    """Do something that may only fail with the error for damaged rows; return whether it did."""
    try:
        work()
    except DamagedEntryError:
        return True
    return False


@pytest.mark.parametrize("accessor", ["task", "asset"], indirect=True)
@pytest.mark.parametrize("column", ENTRIES)
def test_a_damaged_column_of_an_entry(accessor: Any, store: Any, clock: ManualClock, column: str) -> None:
    """Lists show the good keys; the bad one is marked or readable; it can be overwritten, deleted, cleared, collected."""
    done = 0
    for value in ENTRIES[column]:
        accessor.clear()
        accessor.set_many({"a": 1, "bad": 2, "z": 3})
        if not damage(store, "entries", column, value, "key = 'bad'"):
            continue
        done += 1
        note = f"{column} = {value}"
        good = [pair for pair in accessor.items() if pair in (("a", 1), ("z", 3))]
        assert len(good) == 2, note
        marked = [pair[0] for pair in accessor.items() if isinstance(pair[1], DamagedValue)]
        assert {"a", "z"} <= set(accessor.keys()), note
        assert len(accessor) == len(accessor.keys()), note
        assert accessor.get_many(["a", "z"]) == {"a": 1, "z": 3}, note
        assert accessor.get("a") == 1, note
        for read in (lambda: accessor.get("bad"), lambda: accessor.entry("bad"), lambda: accessor.get_many(["a", "bad"])):
            refused(read)
        if column != "key" and "bad" in accessor:
            assert refused(lambda: accessor.entry("bad")) == ("bad" in marked), note
        assert store.export(io.BytesIO()).counts, note
        accessor.set("bad", "new")
        assert accessor.get("bad") == "new", note
        accessor.delete("bad")
        assert "bad" not in accessor, note
        accessor.set("bad", 2)
        damage(store, "entries", column, value, "key = 'bad'")
        store.clean(dry_run=True, first=10)
        accessor.clear()
        assert accessor.items() == [], note
        ((left,),) = sql(store, "SELECT count(*) FROM entries")
        assert left == 0, note
    assert done > 0


@pytest.mark.parametrize("key", ["CAST(x'6bff' AS TEXT)", "x'6bff'", "x''", "''", "x'6b'"])
def test_rows_with_damaged_keys_are_collected(store: Any, clock: ManualClock, key: str) -> None:
    """What the dry run counts and names, the collection removes, whatever stands in the key."""
    task = store.task_store(SCOPE)
    task.set("bad", 1, retention=timedelta(hours=1))
    task.set("old", 2)
    if not damage(store, "entries", "key", key, "key = 'bad'"):
        pytest.skip("this database's columns have types: they hold no such key")
    damage(store, "entries", "key", key.replace("6b", "6c"), "key = 'old'")
    clock.advance(days=40)
    due = store.clean(dry_run=True, first=10)
    assert (due.expired, due.retired) == (1, 1)
    done = store.clean()
    assert (done.expired, done.retired) == (1, 1)
    ((left,),) = sql(store, "SELECT count(*) FROM entries")
    assert left == 0


@pytest.mark.parametrize("column", CHANGES)
def test_a_damaged_column_of_the_change_log(store: Any, clock: ManualClock, column: str) -> None:
    """Archives and histories show the sound rows and mark the bad one; export, restore and collection go on."""
    done = 0
    person = as_writer(store, CLI)
    asset = store.asset_store(Asset("a"))
    for number, value in enumerate(CHANGES[column]):
        task = person.task_store(SCOPE)
        task.set_many({"a": 1, "bad": 2})
        task.clear()
        asset.set(f"bad{number}", 1)
        asset.set(f"bad{number}", 2)
        if not damage(store, "changes", column, value, f"key IN ('bad', 'bad{number}') OR key IS NULL"):
            continue
        done += 1
        note = f"{column} = {value}"
        archives = store.instances.archives(SCOPE)
        assert all(isinstance(archive, Archive) for archive in archives), note
        assert isinstance(asset.history(f"bad{number}"), list), note
        assert store.export(io.BytesIO()).counts, note
        store.clean(dry_run=True, first=20)
        if archives:
            refused(lambda: person.instances.restore(SCOPE, force=True))
        task.clear()
        person.instances.clear(SCOPE)
        asset.set(f"bad{number}", 3)
        assert asset.get(f"bad{number}") == 3, note
        sql(store, "DELETE FROM changes")
    clock.advance(days=40)
    store.clean()
    if not done:
        pytest.skip("this database lets nobody do such damage")


def test_a_damaged_writer_of_an_archive_is_marked(store: Any) -> None:
    """`archives` says what of a row cannot be read, and a restore of it works."""
    task = store.task_store(SCOPE)
    task.set("k", 1)
    store.instances.clear(SCOPE)
    sql(store, "UPDATE changes SET writer = 'nobody'")
    (archive,) = store.instances.archives(SCOPE)
    assert archive.keys == ("k",)
    assert archive.writer == Writer("python")
    assert "writer" in archive.damaged
    assert store.instances.restore(SCOPE) == 1
    assert task.get("k") == 1
