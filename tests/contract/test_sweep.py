"""The orphan sweep and what is left of an asset's history (SPEC 5, lifetime; SPEC 8, rule 4)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from milepost import Asset, AssetNotFoundError, CleanReport, DueKey, ManualClock, Writer
from milepost.calls import Held, HeldKeys, Sweep
from tests.contract.conftest import SCOPE, Make, as_writer, real, sql

A, B, C, D = (Asset(name, uri=f"s3://{name}") for name in "abcd")
HOUR = timedelta(hours=1)
MICRO = timedelta(microseconds=1)


def swept(report: CleanReport) -> list[str]:
    """Return the assets that a collection removed, or would remove."""
    assert report.orphans == len(report.swept)
    return sorted(report.swept)


def test_orphans_go_after_the_grace_period(store: Any, clock: ManualClock) -> None:
    """An orphan keeps its state for orphan_grace_hours, not one microsecond less; a dry run names it and removes nothing."""
    store.assets.declare("dag", outlets=[A, B])
    for asset in (A, B):
        store.asset_store(asset).set("k", 1)
        store.asset_store(asset).set("k", 2)
    store.assets.declare("dag", outlets=[B])
    number = store.assets.get(A).id
    clock.advance(24 * HOUR - MICRO)
    assert swept(store.clean()) == []
    clock.advance(MICRO)
    dry = store.clean(dry_run=True, first=5)
    assert swept(dry) == ["a (s3://a)"]
    assert dry.first == (DueKey("orphans", "a (s3://a)", None),)
    assert store.assets.get(A).id == number
    assert swept(store.clean()) == ["a (s3://a)"]
    assert store.assets.get(A) is None
    assert sql(store, "SELECT count(*) FROM entries WHERE owner_id = ?", number) == [(0,)]
    assert sql(store, "SELECT count(*) FROM changes WHERE owner_id = ?", number) == [(0,)]
    assert sql(store, "SELECT count(*) FROM owners WHERE id = ?", number) == [(0,)]
    assert sql(store, "SELECT count(*) FROM deactivations") == [(0,)]
    assert store.asset_store(B).items() == [("k", 2)]
    assert len(store.asset_store(B).history("k")) == 1
    assert swept(store.clean()) == []


def test_what_a_deactivated_asset_holds(store: Any) -> None:
    """How many keys an asset holds, and the first of them by code point, is known while it is deactivated, too."""
    for key in ("b", "a", "B", "é"):
        store.asset_store(A).set(key, 1)
    number = store.assets.deactivate(A).id
    assert real(store).metastore.call(HeldKeys(number, 3)) == Held(4, ["B", "a", "b"])
    assert real(store).metastore.call(HeldKeys(number + 1, 3)) == Held(0, [])


def test_a_swept_asset_that_comes_back_is_a_new_one(store: Any, clock: ManualClock) -> None:
    """Its number is never used again, and nothing of its state is found under its names; old accessors say it is gone."""
    store.assets.declare("dag", outlets=[A])
    old = store.asset_store(A)
    old.set("k", 1)
    store.assets.declare("dag")
    clock.advance(25 * HOUR)
    store.clean()
    with pytest.raises(AssetNotFoundError, match="gone"):
        old.set("k", 2)
    assert (old.get("k"), old.items(), old.history("k")) == (None, [], [])
    with pytest.raises(AssetNotFoundError):
        store.assets.activate(A)
    store.assets.declare("dag", outlets=[A])
    new = store.asset_store(A)
    assert new.scope.asset_id > old.scope.asset_id
    assert (new.get("k"), new.history("k")) == (None, [])
    new.set("k", 3)
    assert old.get("k") is None


def test_coming_back_in_time_is_as_before(store: Any, clock: ManualClock) -> None:
    """An asset that comes back within the grace period has its state, and its next grace period counts anew."""
    store.assets.declare("dag", outlets=[A])
    store.asset_store(A).set("k", 1)
    store.assets.declare("dag")
    clock.advance(23 * HOUR)
    store.assets.declare("dag", outlets=[A])
    clock.advance(48 * HOUR)
    assert swept(store.clean()) == []
    store.assets.declare("dag")
    clock.advance(23 * HOUR)
    assert swept(store.clean()) == []
    store.assets.declare("dag", outlets=[A])
    assert store.asset_store(A).get("k") == 1


def test_s24_what_is_read_anywhere_is_no_orphan(store: Any, clock: ManualClock) -> None:
    """S-24: inlets, watched assets, schedules and assets of an alias survive every sweep, deactivated by command too."""
    store.assets.declare("reader", inlets=[A], schedule=[B], watched=[C])
    store.assets.attach("alias", D)
    for asset in (A, B, C, D):
        store.asset_store(asset).set("watermark", "2024-06-01")
    for _ in range(3):
        clock.advance(25 * HOUR)
        assert swept(store.clean()) == []
    for asset in (A, B, C, D):
        assert store.asset_store(asset).get("watermark") == "2024-06-01"
        store.assets.deactivate(asset)
    clock.advance(25 * HOUR)
    assert swept(store.clean()) == []
    store.assets.declare("reader")
    store.assets.detach("alias", D)
    assert swept(store.clean(dry_run=True)) == swept(store.clean())
    assert store.assets.list() == []


def test_deactivated_by_command_goes_although_it_is_an_outlet(store: Any, clock: ManualClock) -> None:
    """A DAG that only writes an asset does not keep it from the sweep once a person deactivated it."""
    store.assets.declare("dag", outlets=[A])
    store.assets.deactivate(A)
    clock.advance(24 * HOUR)
    assert swept(store.clean()) == ["a (s3://a)"]
    assert sql(store, "SELECT count(*) FROM asset_references") == [(0,)]


def test_active_assets_are_never_swept(store: Any, clock: ManualClock) -> None:
    """An asset that nobody declared, and one without any state, stay as long as they are active."""
    store.asset_store(A).set("k", 1)
    store.assets.register(B)
    clock.advance(days=400)
    assert swept(store.clean()) == []
    assert store.asset_store(A).get("k") == 1


def test_the_sweep_is_on_record(store: Any, clock: ManualClock) -> None:
    """The change log keeps, for archive_days, which asset was swept and by whom."""
    store.assets.register(A)
    store.assets.deactivate(A)
    clock.advance(24 * HOUR)
    as_writer(store, Writer("cli")).clean()
    rows = sql(store, "SELECT kind, cause, owner_id, scope, writer FROM changes")
    assert rows == [("event", "sweep", None, "a (s3://a)", "cli")]
    clock.advance(days=7)
    assert store.clean().changes == 0
    clock.advance(MICRO)
    assert store.clean().changes == 1


def test_a_sweep_goes_in_bounded_steps(make: Make, clock: ManualClock) -> None:
    """An asset vanishes at once and its rows go batch by batch; a sweep that was stopped goes on where it was."""
    store = make(orphan_grace_hours=0)
    asset = store.asset_store(A)
    asset.set_many({f"k{number}": number for number in range(7)})
    asset.set_many({f"k{number}": number for number in range(5)})
    store.asset_store(B).set("k", 1)
    store.assets.deactivate(A)
    metastore = real(store).metastore
    cutoff = metastore.now()
    answers = [metastore.call(Sweep(4, cutoff, "python"))]
    assert str(answers[0].asset) == "a (s3://a)"
    assert store.assets.get(A) is None
    assert sql(store, "SELECT count(*) FROM entries") == [(8,)]
    report = store.clean(batch_size=4)
    assert swept(report) == []
    assert sql(store, "SELECT count(*) FROM entries") == [(1,)]
    assert sql(store, "SELECT count(*) FROM changes WHERE kind = 'asset'") == [(1,)]
    assert sql(store, "SELECT count(*) FROM owners") == [(1,)]
    assert metastore.call(Sweep(4, cutoff, "python")) == (0, None)


def test_a_small_collection_sweeps_a_little(make: Make, clock: ManualClock) -> None:
    """With batches=1, as after a run, one step is made; the next collection goes on."""
    store = make(orphan_grace_hours=0)
    for asset in (A, B):
        store.asset_store(asset).set("k", 1)
        store.assets.deactivate(asset)
    assert [len(store.clean(batches=1).swept) for _ in range(5)] == [1, 0, 1, 0, 0]
    assert sql(store, "SELECT count(*) FROM entries") == [(0,)]


def test_progress_counts_orphans(make: Make) -> None:
    """Progress is told the assets that are gone, and those that were due."""
    store = make(orphan_grace_hours=0)
    for asset in (A, B):
        store.asset_store(asset).set("k", 1)
        store.assets.deactivate(asset)
    told: list[Any] = []
    store.clean(progress=lambda *parts: told.append(parts))
    assert [part for part in told if part[0] == "orphans"][-1] == ("orphans", 2, 2)


def test_rule_4_values_beyond_the_limit_go(make: Make) -> None:
    """A collection removes earlier values beyond asset_history_limit, of keys that are not written any more too."""
    store = make()
    for key in ("k", "j"):
        for number in range(6):
            store.asset_store(A).set(key, number)
    store.instances.open(SCOPE, 1)
    lower = as_writer(store, Writer("cli"), asset_history_limit=2)
    dry = lower.clean(dry_run=True, first=9)
    assert (dry.changes, {(one.what, one.owner, one.key) for one in dry.first}) == (
        8,
        {("changes", "a (s3://a)", "k"), ("changes", "a (s3://a)", "j")},
    )
    assert lower.clean(batch_size=3).changes == 8
    assert [past.value for past in store.asset_store(A).history("k")] == [4, 3]
    assert as_writer(store, Writer("cli"), asset_history_limit=0).clean().changes == 4
    assert store.asset_store(A).history("j") == []
    assert store.asset_store(A).items() == [("j", 5), ("k", 5)]
