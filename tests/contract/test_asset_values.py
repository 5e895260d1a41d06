"""What only the values of assets have: advance, history, rollback, copy, restore (SPEC 5 and 10)."""

from __future__ import annotations

from typing import Any

import pytest

from milepost import (
    ArchiveNotFoundError,
    Asset,
    AssetNotActiveError,
    AssetNotFoundError,
    AssetScope,
    ConflictError,
    DamagedEntryError,
    DamagedValue,
    ManualClock,
    PastEntry,
    StaleAttemptError,
    TaskScope,
    Writer,
    connect,
)
from tests.contract.conftest import SCOPE, Make, as_writer, real, sql

A, B = Asset("a", uri="s3://a"), Asset("b", uri="s3://b")


# -- advance --------------------------------------------------------------------------------------------------------------


def test_advance_only_moves_forward(asset: Any) -> None:
    """Advance keeps the greater value, returns what is stored with its type, and writes nothing where it does not move."""
    assert asset.advance("n", 3) == 3
    first = asset.entry("n")
    for lower in (2, 3, 3.0, -(10**30)):
        stored = asset.advance("n", lower)
        assert (stored, type(stored)) == (3, int)
    assert asset.entry("n") == first
    assert asset.history("n") == []
    moved = asset.advance("n", 3.5)
    assert (moved, asset.get("n"), [past.cause for past in asset.history("n")]) == (3.5, 3.5, ["advance"])
    assert asset.advance("n", 2**70) == 2**70
    assert asset.advance("s", "b") == "b"
    assert asset.advance("s", "a") == "b"
    assert asset.advance("s", "b ") == "b "
    assert asset.advance("t", "2026-01-31T12:00:00+05:30", order="datetime") == "2026-01-31T12:00:00+05:30"
    assert asset.advance("t", "2026-01-31T07:00:00Z", order="datetime") == "2026-01-31T07:00:00Z"
    assert asset.advance("t", "2026-01-31T12:00:00+05:30", order="datetime") == "2026-01-31T07:00:00Z"


@pytest.mark.parametrize(
    ("stored", "value", "order"),
    [
        (1, "1", None),
        ("1", 1, None),
        (1, True, None),
        (True, 1, None),
        ([1], 2, None),
        (1, [2], None),
        ("2026-01-31", "2026-02-01T00:00:00Z", "datetime"),
        ("2026-01-31T00:00:00Z", "2026-02-01", "datetime"),
        (1, "2026-02-01T00:00:00Z", "datetime"),
    ],
)
def test_advance_refuses_what_has_no_order(asset: Any, stored: Any, value: Any, order: Any) -> None:
    """What cannot be compared is TypeError naming the key, and the stored value stays."""
    asset.set("k", stored)
    before = asset.entry("k")
    with pytest.raises(TypeError, match="'k'"):
        asset.advance("k", value, order=order)
    assert asset.entry("k") == before


@pytest.mark.parametrize("value", [True, None, [1], {}, float("nan"), (1,)])
def test_advance_refuses_values_even_where_nothing_is_stored(asset: Any, value: Any) -> None:
    """A value without an order, or none at all, is refused at an absent key too."""
    with pytest.raises((TypeError, ValueError)):
        asset.advance("k", value)
    with pytest.raises(ValueError, match="order"):
        asset.advance("k", 1, order="size")
    assert "k" not in asset


def test_advance_checks_fence_and_activity(store: Any) -> None:
    """A stale attempt cannot advance, not even where nothing would move; a deactivated asset neither."""
    old = store.instances.open(SCOPE, 1, outlets=[A])["asset_store"]
    assert old.advance("k", 5) == 5
    assert old.entry("k").writer == Writer.of_task(SCOPE, 1)
    new = store.instances.open(SCOPE, 2, outlets=[A])["asset_store"]
    for value in (4, 6):
        with pytest.raises(StaleAttemptError):
            old.advance("k", value)
    assert new.advance("k", 4) == 5
    store.assets.deactivate(A)
    for value in (4, 6):
        with pytest.raises(AssetNotActiveError):
            new.advance("k", value)
    store.assets.activate(A)
    assert new.get("k") == 5


def test_advance_over_a_damaged_value(store: Any, asset: Any) -> None:
    """A damaged value is an error that names the key; it is not taken for absent."""
    asset.set("k", 1)
    sql(store, "UPDATE entries SET value = '{' WHERE key = 'k'")
    with pytest.raises(DamagedEntryError, match="'k'"):
        asset.advance("k", 2)


# -- history and rollback -------------------------------------------------------------------------------------------------


def test_history_shows_earlier_values_with_their_writers(store: Any, clock: ManualClock) -> None:
    """History lists earlier values, newest first, with time and writer of each, and who put what in its place when."""
    task = store.instances.open(SCOPE, 1, outlets=[A])["asset_store"][A]
    person = as_writer(store, Writer("api", user="ada")).asset_store(A)
    task.set("k", 1)
    clock.advance(seconds=1)
    person.set("k", "two")
    clock.advance(seconds=1)
    task.delete("k")
    clock.advance(seconds=1)
    person.set("k", [3])
    first, second = task.history("k")[1], task.history("k")[0]
    assert [type(past) for past in (first, second)] == [PastEntry, PastEntry]
    me, ada = Writer.of_task(SCOPE, 1), Writer("api", user="ada")
    assert (first.key, first.value, first.writer, first.replaced_by, first.cause) == ("k", 1, me, ada, "set")
    assert (second.key, second.value, second.writer, second.replaced_by, second.cause) == ("k", "two", ada, me, "delete")
    assert (first.replaced_at, second.replaced_at - second.updated_at) == (
        second.updated_at,
        second.updated_at - first.updated_at,
    )
    assert first.version != second.version
    assert task.history("k", limit=1) == [second]
    assert task.history("other") == []
    assert person.history("k") == task.history("k")


def test_history_outlives_the_run(store: Any) -> None:
    """S-21: when the run is deleted, the value and its history stay and still say who wrote them."""
    scope = TaskScope("dag", "run", "task", 3)
    opened = store.instances.open(scope, 2, outlets=[A])
    opened["asset_store"].set("watermark", "2024-06-01")
    opened["asset_store"].set("watermark", "2024-06-02")
    opened["task_store"].set("k", 1)
    store.instances.delete_run("dag", "run")
    asset = store.asset_store(A)
    assert asset.entry("watermark").writer == Writer.of_task(scope, 2)
    assert [(past.value, past.writer) for past in asset.history("watermark")] == [("2024-06-01", Writer.of_task(scope, 2))]
    assert store.instances.get(scope) is None


@pytest.mark.parametrize(("limit", "kept"), [(0, []), (1, [8]), (3, [8, 7, 6]), (100, [8, 7, 6, 5, 4, 3, 2, 1, 0])])
def test_history_is_as_long_as_its_limit(make: Make, limit: int, kept: list[int]) -> None:
    """At most asset_history_limit earlier values are there; 0 switches history and rollback off."""
    store = make(asset_history_limit=limit)
    asset = store.asset_store(A)
    for number in range(10):
        asset.set("k", number)
    assert [past.value for past in asset.history("k")] == kept
    assert [past.value for past in asset.history("k", limit=2)] == kept[:2]
    for bad, error in ((0, ValueError), (-1, ValueError), (True, TypeError), ("2", TypeError)):
        with pytest.raises(error, match="limit"):
            asset.history("k", limit=bad)
    other = as_writer(store, Writer("python"))
    if kept:
        asset.rollback("k", version=asset.history("k")[-1].version)
        assert asset.get("k") == kept[-1]
    assert other.asset_store(A).get("k") == (kept[-1] if kept else 9)


def test_rollback_is_a_new_write_on_record(store: Any) -> None:
    """Rollback makes an earlier value current under a new version and records itself; it can be rolled back as well."""
    asset = store.asset_store(A)
    asset.set("k", {"n": 2**70})
    asset.set("k", 2)
    (past,) = asset.history("k")
    person = as_writer(store, Writer("cli")).asset_store(A)
    version = person.rollback("k", version=past.version)
    entry = asset.entry("k")
    assert (entry.value, entry.version, entry.writer) == ({"n": 2**70}, version, Writer("cli"))
    assert version != past.version
    newest = asset.history("k")[0]
    assert (newest.value, newest.cause, newest.replaced_by) == (2, "rollback", Writer("cli"))
    assert asset.rollback("k", version=version) == version
    assert len(asset.history("k")) == 2
    asset.rollback("k", version=newest.version)
    assert asset.get("k") == 2
    asset.delete("k")
    asset.rollback("k", version=past.version)
    assert asset.get("k") == {"n": 2**70}


def test_rollback_to_what_is_not_there(store: Any) -> None:
    """A version that the history of this key has not is KeyError; another key's and another asset's are none of its."""
    asset, other = store.asset_store(A), store.asset_store(B)
    for number in range(2):
        asset.set("k", number)
        asset.set("j", number)
        other.set("k", number)
    for version in ("no such", asset.history("j")[0].version, other.history("k")[0].version, asset.entry("j").version):
        with pytest.raises(KeyError, match="history"):
            asset.rollback("k", version=version)
    with pytest.raises(TypeError, match="version"):
        asset.rollback("k", version=None)
    assert asset.get("k") == 1
    assert len(asset.history("k")) == 1


def test_history_and_rollback_check_fence_and_activity(store: Any) -> None:
    """A stale attempt reads no history that looks empty and rolls nothing back; a deactivated asset shows and takes none."""
    old = store.instances.open(SCOPE, 1, outlets=[A])["asset_store"]
    old.set("k", 1)
    old.set("k", 2)
    (past,) = old.history("k")
    new = store.instances.open(SCOPE, 2, outlets=[A])["asset_store"]
    for key in ("k", "absent"):
        with pytest.raises(StaleAttemptError):
            old.history(key)
    with pytest.raises(StaleAttemptError):
        old.rollback("k", version=past.version)
    store.assets.deactivate(A)
    assert new.history("k") == []
    with pytest.raises(AssetNotActiveError):
        new.rollback("k", version=past.version)
    store.assets.activate(A)
    assert new.history("k") == [past]
    assert new.get("k") == 2


def test_a_damaged_earlier_value_hides_no_other(store: Any) -> None:
    """History marks a damaged value and shows the others."""
    asset = store.asset_store(A)
    for number in range(3):
        asset.set("k", number)
    sql(store, "UPDATE changes SET value = '{' WHERE value = '0'")
    good, bad = asset.history("k")
    assert good.value == 1
    assert isinstance(bad.value, DamagedValue)


# -- copy and restore -----------------------------------------------------------------------------------------------------


def test_copy_writes_all_keys_anew(store: Any) -> None:
    """Copy writes all keys of one asset to another under new versions, on record; the source and its history stay."""
    source, target = store.asset_store(A), store.asset_store(B)
    source.set_many({"k": 1, "j ": [2**70, None], "é": "x"})
    source.set("k", 2)
    target.set("own", 1)
    assert as_writer(store, Writer("cli")).assets.copy(A, B) == 3
    assert target.items() == [("j ", [2**70, None]), ("k", 2), ("own", 1), ("é", "x")]
    assert target.entry("k").writer == Writer("cli")
    assert target.entry("k").version != source.entry("k").version
    assert target.history("k") == []
    assert len(source.history("k")) == 1
    assert len(source) == 3


def test_copy_over_live_keys_needs_force(store: Any) -> None:
    """Keys that the target has are not overwritten without force; with it, their values are in the history."""
    source, target = store.asset_store(A), store.asset_store(B)
    source.set_many({"k": 1, "j": 1})
    target.set("k", "mine")
    with pytest.raises(ConflictError, match="k"):
        store.assets.copy(A, B)
    assert target.items() == [("k", "mine")]
    assert store.assets.copy(A, B, force=True) == 2
    assert [(past.value, past.cause) for past in target.history("k")] == [("mine", "copy")]
    with pytest.raises(ValueError, match="itself"):
        store.assets.copy(A, Asset.ref(name="a"))
    with pytest.raises(AssetNotFoundError):
        store.assets.copy(A, Asset("nobody"))
    assert store.assets.get(Asset("nobody")) is None
    store.assets.deactivate(B)
    with pytest.raises(AssetNotActiveError):
        store.assets.copy(A, B, force=True)
    store.assets.activate(B)
    store.assets.deactivate(A)
    target.clear()
    assert store.assets.copy(A, B) == 2
    assert (target.items(), source.items()) == ([("j", 1), ("k", 1)], [])


def test_restore_brings_back_what_was_deleted_or_cleared(store: Any) -> None:
    """A clear is one archive, each delete one of its own; a restore is a write on record and refuses live keys."""
    asset = as_writer(store, Writer("cli")).asset_store(A)
    asset.set_many({"a": 1, "b": [2], "c": 3})
    asset.delete("c")
    asset.clear()
    asset.clear()
    found = store.assets.archives(A)
    assert [(one.cause, one.keys, one.writer, one.scope.name) for one in found] == [
        ("clear", ("a", "b"), Writer("cli"), "a"),
        ("delete", ("c",), Writer("cli"), "a"),
    ]
    assert store.assets.restore(A) == 2
    assert asset.items() == [("a", 1), ("b", [2])]
    assert asset.entry("a").writer == Writer("python")
    assert store.assets.restore(A, archive=found[1].id) == 1
    with pytest.raises(ConflictError, match="force"):
        store.assets.restore(A)
    asset.set("a", "new")
    assert store.assets.restore(A, archive=found[0].id, force=True) == 2
    assert asset.items() == [("a", 1), ("b", [2]), ("c", 3)]
    assert (asset.history("a")[0].value, asset.history("a")[0].cause) == ("new", "restore")
    for bad in (10**9, -1):
        with pytest.raises(ArchiveNotFoundError):
            store.assets.restore(A, archive=bad)
    store.asset_store(B)
    with pytest.raises(ArchiveNotFoundError, match="nothing"):
        store.assets.restore(B)
    with pytest.raises(AssetNotFoundError):
        store.assets.archives(AssetScope(asset_id=10**9))
    store.assets.deactivate(A)
    assert store.assets.archives(A) == []
    with pytest.raises(AssetNotActiveError):
        store.assets.restore(A)


@pytest.mark.parametrize("method", ["advance", "history", "rollback", "stage"])
def test_shorthand_of_what_only_assets_have(store: Any, method: str) -> None:
    """The calls that only assets have work on the task's asset store itself, as the others do."""
    opened = store.instances.open(SCOPE, 1, outlets=[A])["asset_store"]
    for name in (method, f"a{method}"):
        assert callable(getattr(real(opened), name))
    two = store.instances.open(TaskScope("dag", "run", "two"), 1, outlets=[A, B])["asset_store"]
    with pytest.raises(ValueError, match=f"{method}.*subscript"):
        getattr(real(two), method)


def test_a_damaged_value_takes_the_place_of_no_good_one() -> None:
    """Rollback, restore and copy over a live key, and staged values, refuse what nobody could read afterwards."""
    with connect("memory://") as store:
        asset, other = store.asset_store(Asset("a")), store.asset_store(Asset("b"))
        for value in (1, 2, 3):
            asset.set("k", value)
        asset.delete("k")
        asset.set("k", "good")
        _, second, first = (past.version for past in asset.history("k"))
        sql(store, "UPDATE changes SET value = '{' WHERE value = '2'")
        sql(store, "UPDATE changes SET encoding = 9 WHERE value = '1'")
        for version in (first, second):
            with pytest.raises(DamagedEntryError, match="'k' is damaged: its earlier value, so nothing was written"):
                asset.rollback("k", version=version)
        sql(store, "UPDATE changes SET value = '[' WHERE cause = 'delete'")
        with pytest.raises(DamagedEntryError, match="its earlier value"):
            store.assets.restore(Asset("a"), force=True)
        assert (asset.get("k"), len(asset.history("k"))) == ("good", 3)
        asset.delete("k")
        asset.set("l", 1)
        other.set("k", "good")
        assert store.assets.restore(Asset("a"), archive=store.assets.archives(Asset("a"))[-1].id) == 1
        assert asset.items() == [("k", DamagedValue("k", "the text is not JSON")), ("l", 1)]
        with pytest.raises(DamagedEntryError):
            store.assets.copy(Asset("a"), Asset("b"), force=True)
        assert other.items() == [("k", "good")]
        staged = store.instances.open(SCOPE, 1, outlets=[Asset("b")])["asset_store"][Asset("b")]
        staged.stage("k", "newer", advance=True)
        for damage in ("value = '{'", "value = '\"newer\"', mode = 'other'", "mode = 'set', encoding = 9"):
            sql(store, f"UPDATE staged SET {damage}")
            with pytest.raises(DamagedEntryError, match="'k'"):
                store.instances.finish(SCOPE, 1, "success")
        assert other.get("k") == "good"
