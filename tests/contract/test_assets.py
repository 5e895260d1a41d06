"""A task's assets, asset identity and asset writes (SPEC 5)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from milepost import (
    Asset,
    AssetAlias,
    AssetNotActiveError,
    AssetNotFoundError,
    AssetRef,
    AssetScope,
    InvalidValueError,
    TaskScope,
    Writer,
    connect,
)
from tests.contract.conftest import SCOPE, as_writer, real, sql

A, B, C = Asset("a", uri="s3://a"), Asset("b", uri="s3://b"), Asset("c", uri="s3://c")
READS = ("get", "entry", "keys", "items", "get_many")
WRITES = ("set", "delete", "clear", "set_many", "set_default", "compare_and_set", "increment", "update")
NAMED = ("scope", "acontains", "alen", *READS, *WRITES, *(f"a{name}" for name in (*READS, *WRITES)))


def assets_of(store: Any, *, inlets: Any = (), outlets: Any = ()) -> Any:
    """Open an attempt with these assets and return its asset store."""
    return store.instances.open(SCOPE, 1, inlets=inlets, outlets=outlets)["asset_store"]


def test_subscript_in_len_and_iteration(store: Any) -> None:
    """Subscript, `in`, `len` and iteration are about the concrete inlets and outlets, by asset, name or URI."""
    assets = assets_of(store, inlets=[A, AssetAlias("x")], outlets=[B, A, AssetAlias("y")])
    assert len(assets) == 2
    assert bool(assets) is True
    assert sorted(asset.name for asset in assets) == ["a", "b"]
    for reference in (A, Asset.ref(name="a"), AssetRef(uri="s3://a"), AssetScope(name="a", uri="s3://a")):
        assert reference in assets
        assert assets[reference].scope.name == "a"
    assets[A].set("k", 1)
    assert store.asset_store(A).get("k") == 1
    assert assets[assets[A].scope].get("k") == 1
    assert assets[B].get("k") is None
    assert C not in assets
    assert AssetAlias("x") not in assets


def test_unknown_assets_and_no_assets(store: Any) -> None:
    """An asset of another task is KeyError naming the task's assets; what is no asset is TypeError."""
    store.asset_store(C).set("k", 1)
    assets = assets_of(store, inlets=[A], outlets=[B])
    for reference in (C, Asset.ref(name="c"), Asset("a", uri="s3://other"), AssetScope(asset_id=10**6)):
        with pytest.raises(KeyError, match=r"a \(s3://a\), b \(s3://b\)"):
            assets[reference]
        assert reference not in assets
    for wrong in ("s3://a", None, 1, Asset, AssetAlias("x"), SCOPE):
        with pytest.raises(TypeError):
            assets[wrong]
    for wrong in ("a", None, 1):
        with pytest.raises(TypeError):
            _ = wrong in assets
    none = store.instances.open(TaskScope("dag", "run", "none"), 1)["asset_store"]
    assert bool(none) is False
    assert len(none) == 0
    assert list(none) == []
    with pytest.raises(AssetNotFoundError, match="none"):
        none[A]
    with pytest.raises(ValueError, match="subscript"):
        none.get("k")


@pytest.mark.parametrize(
    ("inlets", "outlets", "chosen"),
    [
        ([A], [], "a"),
        ([A], [B, C], "a"),
        ([], [B], "b"),
        ([AssetAlias("x")], [B], "b"),
        ([A, A], [], "a"),
        ([A, B], [], None),
        ([A, B], [C], None),
        ([], [A, B], None),
        ([], [AssetAlias("x")], None),
    ],
)
def test_shorthand(store: Any, inlets: Any, outlets: Any, chosen: str | None) -> None:
    """Named methods work on the object itself with exactly one concrete inlet, or none and exactly one outlet."""
    assets = assets_of(store, inlets=inlets, outlets=outlets)
    if chosen is None:
        for name in NAMED:
            with pytest.raises(ValueError, match=f"{name}.*subscript"):
                getattr(assets, name)
        return
    assets.set("k", 1)
    assert assets.increment("n") == 1
    assert assets.set_default("k", 2) == 1
    assert assets.update("k", lambda old: old + 1) == 2
    assert assets.get("k") == 2
    assert assets.keys() == ["k", "n"]
    assert assets.items() == [("k", 2), ("n", 1)]
    assert assets.entry("k").writer.task_id == "task"
    assert store.asset_store(Asset.ref(name=chosen)).items() == [("k", 2), ("n", 1)]
    for name in NAMED:
        assert hasattr(real(assets), name)
    with pytest.raises(AttributeError, match="no attribute"):
        _ = assets.touch
    assets.delete("n")
    assets.clear()
    assert assets.keys() == []


def test_identity_by_name_by_uri_and_by_both(store: Any) -> None:
    """Name, URI and id lead to one store; an asset known by URI only keeps its store when it gets a name."""
    by_uri = store.asset_store(Asset(uri="s3://x"))
    by_uri.set("k", 1)
    number = by_uri.scope.asset_id
    full = Asset("x", uri="s3://x")
    assert store.asset_store(full).get("k") == 1
    assert store.asset_store(full).scope.asset_id == number
    for reference in (Asset.ref(name="x"), Asset.ref(uri="s3://x"), Asset("x"), Asset(uri="s3://x"), AssetScope(number)):
        assert store.asset_store(reference).get("k") == 1
    by_name = store.asset_store(Asset("y"))
    by_name.set("k", 2)
    assert store.asset_store(Asset("y", uri="s3://y")).get("k") == 2
    other = store.asset_store(Asset("x", uri="s3://elsewhere"))
    assert other.keys() == []
    with pytest.raises(InvalidValueError, match="different assets"):
        store.asset_store(Asset.ref(name="x"))
    with pytest.raises(AssetNotFoundError):
        store.asset_store(AssetScope(asset_id=10**6))
    with pytest.raises(InvalidValueError):
        store.asset_store(AssetScope(asset_id=number, name="other"))


def test_a_reference_records_no_asset(store: Any) -> None:
    """A reference to an asset that nothing has declared is a KeyError where it is used, and records nothing."""
    references = (Asset.ref(name="x"), Asset.ref(uri="s3://x"), AssetScope(name="x"), AssetScope(asset_id=10**6))
    for reference in references:
        with pytest.raises(AssetNotFoundError, match=r"no asset (x|s3://x) is known|no asset has the id"):
            store.asset_store(reference)
    assets = assets_of(store, inlets=references)
    assert (len(assets), list(assets), bool(assets)) == (0, [], False)
    for reference in references:
        assert reference not in assets
        with pytest.raises(AssetNotFoundError, match="is known"):
            assets[reference]
    assert store.stats().assets == 0


def test_the_shorthand_counts_references_that_lead_nowhere(store: Any) -> None:
    """The shorthand means the only inlet: an unknown one is a KeyError, never replaced by another asset."""
    alone = assets_of(store, inlets=[Asset.ref(name="x")], outlets=[A])
    with pytest.raises(AssetNotFoundError, match="no asset x is known"):
        alone.get("k")
    beside = store.instances.open(SCOPE, 2, inlets=[Asset.ref(name="x"), B])["asset_store"]
    with pytest.raises(InvalidValueError, match="exactly one inlet"):
        beside.get("k")
    assert beside[B].get("k") is None
    outlet = store.instances.open(SCOPE, 3, outlets=[Asset.ref(name="x")])["asset_store"]
    with pytest.raises(AssetNotFoundError, match="no asset x is known"):
        outlet.set("k", 1)


def test_a_reference_finds_what_is_declared_beside_it(store: Any) -> None:
    """An inlet that refers to what the same task declares as its outlet is found; both are one asset."""
    assets = assets_of(store, inlets=[Asset.ref(name="a")], outlets=[A])
    assets.set("k", 1)
    assert len(assets) == 1
    assert store.asset_store(Asset.ref(uri="s3://a")).get("k") == 1


def test_every_asset_write_is_logged_with_its_writer(store: Any) -> None:
    """Each asset write puts the previous value into the change log and records its writer on the row."""
    task = assets_of(store, outlets=[A])
    person = as_writer(store, Writer("api", user="ada")).asset_store(A)
    task.set("k", 1)
    assert task.entry("k").writer == Writer.of_task(SCOPE, 1)
    person.set("k", 2)
    assert person.entry("k").writer == Writer("api", user="ada")
    person.increment("k")
    person.delete("k")
    task.set("k", 4)
    task.clear()
    rows = sql(store, "SELECT cause, writer, value FROM changes WHERE kind = 'asset' ORDER BY id")
    me = Writer.of_task(SCOPE, 1).encode()
    assert rows == [
        ("set", me, None),
        ("set", "api:ada", "1"),
        ("set", "api:ada", "2"),
        ("delete", "api:ada", "3"),
        ("set", me, None),
        ("clear", me, "4"),
    ]


def test_a_deactivated_asset(store: Any) -> None:
    """Writes to a deactivated asset raise AssetNotActiveError; reads find nothing; activated again it is as before."""
    task = assets_of(store, outlets=[A])
    asset = store.asset_store(A)
    asset.set("k", 1)
    sql(store, "UPDATE assets SET active = 0")
    for accessor in (asset, task[A]):
        writes = (
            lambda a: a.set("k", 2),
            lambda a: a.set_many({"k": 2, "j": 1}),
            lambda a: a.set_default("k", 2),
            lambda a: a.compare_and_set("k", 2, version=None),
            lambda a: a.increment("n"),
            lambda a: a.update("k", lambda _: 2),
            lambda a: a.delete("k"),
            lambda a: a.clear(),
        )
        for write in writes:
            with pytest.raises(AssetNotActiveError, match="deactivated"):
                write(accessor)
        assert (accessor.get("k"), accessor.entry("k"), accessor.keys(), len(accessor)) == (None, None, [], 0)
        assert (accessor.items(), accessor.get_many(["k"]), "k" in accessor) == ([], {}, False)
    sql(store, "UPDATE assets SET active = 1")
    assert asset.items() == [("k", 1)]


@pytest.mark.parametrize(
    "read",
    [
        lambda asset: asset.get("k"),
        lambda asset: asset.entry("k"),
        lambda asset: asset.keys(),
        lambda asset: asset.items(),
        lambda asset: asset.get_many(["k"]),
        len,
        lambda asset: "k" in asset,
        lambda asset: asset.history("k"),
        lambda asset: asyncio.run(asset.aget("k")),
    ],
)
def test_a_read_of_a_deactivated_asset_warns_once(read: Any, caplog: Any) -> None:
    """Each accessor logs once that it reads nothing because the asset is deactivated; before that, nothing."""
    with connect("memory://") as store:
        store.asset_store(A).set("k", 1)
        task = assets_of(store, inlets=[A])[A]
        read(task)
        task.get("absent")
        assert not caplog.records
        store.assets.deactivate(A)
        for accessor in (task, store.asset_store(A)):
            caplog.clear()
            read(accessor)
            read(accessor)
            (warning,) = [record.getMessage() for record in caplog.records if record.name == "milepost"]
            assert warning == (
                "the asset a (s3://a) is deactivated, so reads find nothing; its state comes back with: "
                "milepost assets activate a --uri s3://a"
            )


def test_assets_outlive_their_runs(store: Any) -> None:
    """Asset state is independent of runs: clears, new incarnations and deletes of runs leave it alone."""
    assets_of(store, outlets=[A]).set("k", 1)
    store.instances.clear(SCOPE)
    store.instances.open(SCOPE, 1, incarnation="new")
    store.instances.delete_run(SCOPE.dag_id, SCOPE.run_id)
    assert store.asset_store(A).get("k") == 1


def test_an_asset_that_gets_its_other_name_is_found_by_it_in_a_running_task(store: Any) -> None:
    """Known by URI at open, or by name, and completed while the task runs: it is found by both, and has one store."""
    store.asset_store(Asset("s3://orders", uri="s3://orders"))
    store.asset_store(Asset("stock"))
    opened = store.instances.open(SCOPE, 1, inlets=[AssetScope(uri="s3://orders")], outlets=[Asset("stock")])
    assets = opened["asset_store"]
    assets[AssetScope(uri="s3://orders")].set("k", 1)
    store.asset_store(Asset("orders", uri="s3://orders")).set("l", 2)
    store.asset_store(Asset("stock", uri="s3://stock")).set("k", 3)
    assert AssetScope(name="orders") in assets
    assert AssetScope(uri="s3://stock") in assets
    assert assets[AssetScope(name="orders")].items() == [("k", 1), ("l", 2)]
    assert assets[AssetScope(uri="s3://stock")].get("k") == 3
    assert assets[Asset("orders", uri="s3://orders")].get("k") == 1
    assert AssetScope(name="other") not in assets
    with pytest.raises(AssetNotFoundError, match=r"its assets: .*orders.*stock"):
        assets[AssetScope(name="other")]
