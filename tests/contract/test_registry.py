"""Which assets there are, who refers to them, and when they are active (SPEC 5, identity and lifetime)."""

from __future__ import annotations

from typing import Any

import pytest

from milepost import (
    Asset,
    AssetAlias,
    AssetChanges,
    AssetNotActiveError,
    AssetNotFoundError,
    AssetReference,
    AssetScope,
    InvalidValueError,
    ManualClock,
    TaskScope,
    Writer,
    calls,
)
from tests.contract.conftest import SCOPE, as_writer, real, sql

A, B, C = Asset("a", uri="s3://a"), Asset("b", uri="s3://b"), Asset("c", uri="s3://c")


def names(scopes: Any) -> list[str]:
    """Return the names of assets, sorted."""
    return sorted(scope.name for scope in scopes)


def test_declaring_records_assets_and_who_refers_to_them(store: Any) -> None:
    """A DAG's assets are recorded with how it refers to them; declaring the same again changes nothing."""
    changes = store.assets.declare("dag", inlets=[A], outlets=[B, A], schedule=[C], watched=[C])
    assert names(changes.added) == ["a", "b", "c"]
    assert (changes.activated, changes.deactivated) == ((), ())
    assert [(one.name, one.uri, one.active) for one in store.assets.list()] == [
        ("a", "s3://a", True),
        ("b", "s3://b", True),
        ("c", "s3://c", True),
    ]
    assert store.assets.get(A).references == (AssetReference("dag", "inlet"), AssetReference("dag", "outlet"))
    assert store.assets.get(C).references == (AssetReference("dag", "schedule"), AssetReference("dag", "watch"))
    assert store.assets.declare("dag", inlets=[A], outlets=[B, A], schedule=[C], watched=[C]) == AssetChanges()
    assert [one.name for one in store.assets.list(dag_id="dag")] == ["a", "b", "c"]
    assert store.assets.list(dag_id="other") == []


def test_references_are_replaced_only_by_their_own_dag(store: Any) -> None:
    """An asset is deactivated when its last reference goes; what another DAG refers to stays as it is."""
    store.assets.declare("one", inlets=[A], outlets=[B])
    store.assets.declare("two", inlets=[A], outlets=[C])
    changes = store.assets.declare("one", outlets=[C])
    assert names(changes.deactivated) == ["b"]
    assert names(store.assets.list(active=True)) == ["a", "c"]
    assert store.assets.get(A).references == (AssetReference("two", "inlet"),)
    assert names(store.assets.declare("two").deactivated) == ["a"]
    assert names(store.assets.declare("one").deactivated) == ["c"]
    assert names(store.assets.list(active=False)) == ["a", "b", "c"]


def test_s24_an_asset_that_is_only_an_inlet_is_in_use(store: Any) -> None:
    """S-24: an inlet is a reference like an outlet: its asset stays active while any DAG reads it."""
    store.assets.declare("reader", inlets=[A])
    store.assets.declare("writer", outlets=[A])
    store.asset_store(A).set("k", "2024-06-01")
    assert store.assets.declare("writer") == AssetChanges()
    assert store.asset_store(A).get("k") == "2024-06-01"


def test_an_asset_that_comes_back_is_as_before(store: Any, clock: ManualClock) -> None:
    """A deactivated asset says since when, by whom and why; a DAG that refers to it again finds its state as it was."""
    store.assets.declare("dag", outlets=[A])
    store.asset_store(A).set("k", 1)
    before = store.assets.get(A)
    clock.advance(hours=1)
    as_writer(store, Writer("cli")).assets.declare("dag")
    gone = store.assets.get(A)
    assert (gone.active, gone.cause, gone.deactivated_by) == (False, "unreferenced", Writer("cli"))
    assert gone.deactivated_at == before.created_at.replace(hour=before.created_at.hour + 1)
    assert store.asset_store(A).get("k") is None
    with pytest.raises(AssetNotActiveError):
        store.asset_store(A).set("k", 2)
    assert names(store.assets.declare("dag", outlets=[A]).activated) == ["a"]
    back = store.assets.get(A)
    assert (back.id, back.active, back.cause, back.deactivated_at, back.deactivated_by) == (
        before.id,
        True,
        None,
        None,
        None,
    )
    assert store.asset_store(A).items() == [("k", 1)]


def test_deactivated_by_command(store: Any) -> None:
    """A command's deactivation outlasts a mere reload, a use and a registration; activate and a new reference end it."""
    store.assets.declare("dag", outlets=[A])
    store.asset_store(A).set("k", 1)
    person = as_writer(store, Writer("cli"))
    record = person.assets.deactivate(A)
    assert (record.active, record.cause, record.deactivated_by) == (False, "command", Writer("cli"))
    assert person.assets.deactivate(A) == record
    assert store.assets.declare("dag", outlets=[A]) == AssetChanges()
    assert store.assets.register(A).active is False
    assert store.instances.open(SCOPE, 1, outlets=[A])["asset_store"].get("k") is None
    assert store.assets.get(A).active is False
    assert store.assets.activate(A).active is True
    assert store.asset_store(A).get("k") == 1
    store.assets.deactivate(A)
    assert names(store.assets.declare("other", outlets=[A]).activated) == ["a"]
    assert store.assets.activate(A).active is True


def test_assets_without_any_reference_stay_active(store: Any) -> None:
    """What was registered by command or by use, and what no DAG ever declared, is active until a command says otherwise."""
    registered = store.assets.register(A)
    assert (registered.active, registered.references) == (True, ())
    store.asset_store(B).set("k", 1)
    store.assets.declare("dag", outlets=[C])
    store.assets.declare("dag")
    assert names(store.assets.list(active=True)) == ["a", "b"]
    with pytest.raises(AssetNotFoundError):
        store.assets.register(Asset.ref(name="nobody"))


def test_references_by_name_and_uri(store: Any) -> None:
    """A DAG may refer by name or URI to what it or others declare; a reference to an unknown asset is left out."""
    store.assets.declare("dag", inlets=[Asset.ref(name="a"), Asset.ref(uri="s3://b"), Asset.ref(name="nobody")], outlets=[A])
    assert [one.name for one in store.assets.list()] == ["a"]
    store.assets.register(B)
    store.assets.declare("dag", inlets=[Asset.ref(name="a"), Asset.ref(uri="s3://b")], outlets=[A, Asset("a", uri="s3://a")])
    assert store.assets.get(A).references == (AssetReference("dag", "inlet"), AssetReference("dag", "outlet"))
    assert store.assets.get(B).references == (AssetReference("dag", "inlet"),)


def test_a_bad_asset_changes_nothing(store: Any) -> None:
    """What is no asset is TypeError, two hits are ValueError, a bad DAG id too; the references stay as they were."""
    store.assets.declare("dag", inlets=[A])
    store.assets.register(Asset("x", uri="u1"))
    store.assets.register(Asset("x", uri="u2"))
    for bad, error in (("a", TypeError), (Asset.ref(name="x"), InvalidValueError)):
        with pytest.raises(error):
            store.assets.declare("dag", inlets=[B, bad])
    with pytest.raises(ValueError, match="dag_id"):
        store.assets.declare("", inlets=[B])
    assert [one.name for one in store.assets.list(dag_id="dag")] == ["a"]
    assert store.assets.get(B) is None
    with pytest.raises(TypeError):
        store.assets.list(active="yes")


def test_a_name_leads_to_the_active_one(store: Any) -> None:
    """A DAG in which an asset gets another URI declares another asset; the name leads to the one that is active."""
    store.assets.declare("dag", outlets=[Asset("a", uri="s3://old")])
    store.asset_store(Asset.ref(name="a")).set("k", "old")
    store.assets.declare("dag", outlets=[Asset("a", uri="s3://new")])
    assert store.asset_store(Asset.ref(name="a")).scope.uri == "s3://new"
    assert store.asset_store(Asset.ref(name="a")).get("k") is None
    assert store.assets.get(Asset.ref(uri="s3://old")).active is False
    assert names(store.assets.declare("dag", outlets=[Asset("a", uri="s3://old")]).activated) == ["a"]
    assert store.asset_store(Asset.ref(name="a")).get("k") == "old"


def test_a_look_up_completes_no_names(store: Any) -> None:
    """Looking for an asset by both names finds one that is known by one of them, and leaves it as it is."""
    store.asset_store(Asset(uri="s3://a")).set("k", 1)
    assert store.assets.get(A).name == "s3://a"
    assert store.assets.get(A).name == "s3://a"
    assert store.assets.register(A).name == "a"
    assert store.assets.get(Asset(uri="s3://a")).name == "a"
    assert store.assets.get(Asset("nobody")) is None
    assert store.assets.get(AssetScope(asset_id=10**9)) is None


def test_a_reference_may_lead_to_what_another_dag_of_the_file_declares(store: Any) -> None:
    """DAGs that are declared together refer to one another's assets, in whatever order they stand."""
    store.assets.declare_many({"reads": {"inlets": [Asset.ref(name="a")]}, "writes": {"outlets": [A]}})
    assert store.assets.get(A).references == (AssetReference("reads", "inlet"), AssetReference("writes", "outlet"))


def test_an_asset_spelt_in_three_ways_in_one_file_is_one(store: Any) -> None:
    """Both names, its name and its URI lead to one asset, in whatever order DAGs of a file name it."""
    changes = store.assets.declare_many(
        {"1": {"inlets": [Asset(uri="s3://a")]}, "2": {"inlets": [Asset("a")]}, "3": {"outlets": [A]}}
    )
    assert [(scope.name, scope.uri) for scope in changes.added] == [("a", "s3://a")]
    assert [one.dag_id for one in store.assets.get(A).references] == ["1", "2", "3"]


def test_of_two_assets_with_one_name_each_the_active_one_gets_both(store: Any) -> None:
    """Where an asset with both names could be either of two, that is an error that says what to do; doing it helps."""
    store.asset_store(Asset("a")).set("k", "by name")
    store.asset_store(Asset(uri="s3://a")).set("k", "by URI")
    with pytest.raises(InvalidValueError, match=r"leads to 2 different assets: .*; deactivate one of them"):
        store.assets.register(A)
    store.assets.deactivate(Asset(uri="s3://a"))
    record = store.assets.register(A)
    assert (record.name, record.uri, store.asset_store(A).get("k")) == ("a", "s3://a", "by name")


def test_a_scope_from_before_an_asset_got_its_other_name_is_still_its(store: Any) -> None:
    """A number with the one name by which an asset was known leads to it after it got the other, and no other name does."""
    before = [store.asset_store(Asset(*names)).scope for names in (("b",), (None, "s3://c"))]
    for asset in (B, C):
        store.assets.register(asset)
    assert [store.assets.get(scope).name for scope in before] == ["b", "c"]
    for wrong in (AssetScope(before[0].asset_id, "c"), AssetScope(before[0].asset_id, "s3://b", "b")):
        with pytest.raises(InvalidValueError, match="the asset with the id"):
            store.assets.get(wrong)


def test_inlet_aliases_bring_the_assets_attached_to_them(store: Any) -> None:
    """An alias among the inlets stands for the assets attached to it, each once; alias outlets take no part."""
    x = AssetAlias("x")
    assert store.assets.attach(x, A).aliases == ("x",)
    store.assets.attach("x", B)
    store.assets.attach("y", A)
    assert store.assets.get(A).aliases == ("x", "y")
    opened = store.instances.open(SCOPE, 1, inlets=[x, A], outlets=[AssetAlias("y"), C])["asset_store"]
    assert names(opened) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="subscript"):
        opened.get("k")
    store.assets.detach("x", B)
    opened = store.instances.open(TaskScope("dag", "run", "two"), 1, inlets=[x], outlets=[AssetAlias("y")])["asset_store"]
    assert names(opened) == ["a"]
    opened.set("k", 1)
    assert store.asset_store(A).get("k") == 1
    for wrong in (A, None, 1):
        with pytest.raises(TypeError, match="alias"):
            store.assets.attach(wrong, A)


def test_s24_an_asset_that_an_alias_stands_for_is_in_use(store: Any) -> None:
    """S-24: an alias keeps its assets active; the last one that goes deactivates them, unless a DAG refers to them."""
    store.assets.declare("dag", outlets=[A, B])
    store.assets.attach("x", A)
    store.assets.attach("x", C)
    assert names(store.assets.declare("dag", outlets=[B]).deactivated) == []
    assert store.assets.detach("x", A).active is False
    assert store.assets.detach("x", A).active is False
    assert store.assets.detach("x", C).active is False
    store.assets.attach("x", B)
    assert store.assets.detach("x", B).active is True
    assert store.assets.attach("x", A).active is True
    with pytest.raises(AssetNotFoundError):
        store.assets.detach("x", Asset("nobody"))


def test_activation_is_on_record(store: Any) -> None:
    """Each activation and deactivation is an event of the change log with its writer; what changes nothing is none."""
    store.assets.declare("dag", outlets=[A])
    store.assets.declare("dag")
    store.assets.declare("dag")
    person = as_writer(store, Writer("api", user="ada"))
    person.assets.activate(A)
    person.assets.activate(A)
    rows = sql(store, "SELECT kind, cause, scope, writer FROM changes ORDER BY id")
    assert rows == [("event", "deactivate", "a (s3://a)", "python"), ("event", "activate", "a (s3://a)", "api:ada")]


@pytest.mark.parametrize(
    "name", ["../../evil", "/etc/passwd", "..\\x", "a/b", "a%2Fb", "a_b", "a b", "[x]*?", ".", "..", "é😀"]
)
def test_s25_asset_names_are_just_text(store: Any, name: str) -> None:
    """S-25: names that look like paths, patterns or escapes are names like any other and keep apart."""
    others = [Asset("a"), Asset("a/b/c"), Asset("x")]
    for other in others:
        store.asset_store(other).set("k", "other")
    store.assets.declare("dag", outlets=[Asset(name)])
    asset = store.asset_store(Asset.ref(name=name))
    asset.set("k", name)
    assert store.assets.get(Asset(name)).uri == name
    asset.clear()
    assert [store.asset_store(other).get("k") for other in others] == ["other"] * 3
    assert names(store.assets.declare("dag").deactivated) == [name]


def test_pages_of_assets(store: Any) -> None:
    """Assets are paged by number; a prefix is of name or URI, and its characters are no patterns; pages can be counted."""

    def page(after: int = 0, offset: int = 0, limit: int = 2, **only: Any) -> Any:
        given = {"active": None, "dag_id": None, "prefix": "", "counted": False, **only}
        call = calls.AssetPage(after=after, offset=offset, limit=limit, **given)
        return real(store).metastore.call(call)

    made = [Asset("b", uri="s3://%x"), Asset("a%c"), Asset("abc"), Asset("é😀", uri="s3://y")]
    store.assets.declare("dag", inlets=made[:3])
    store.assets.declare("other", outlets=made[2:])
    store.assets.attach(AssetAlias("daily"), made[0])
    store.assets.deactivate(made[1])
    first = page()
    second = page(after=first.records[-1].id)
    assert [one.name for one in [*first.records, *second.records]] == ["b", "a%c", "abc", "é😀"]
    assert first.records == [store.assets.get(one) for one in made[:2]]
    assert page(offset=3, counted=True) == calls.AssetRows(page(offset=3).records, 4)
    for only, names in (
        ({"prefix": "a%"}, ["a%c"]),
        ({"prefix": "s3://"}, ["b", "é😀"]),
        ({"prefix": "é"}, ["é😀"]),
        ({"active": False}, ["a%c"]),
        ({"dag_id": "other"}, ["abc", "é😀"]),
        ({"dag_id": "dag", "active": True}, ["b", "abc"]),
        ({"dag_id": "d_g"}, []),
    ):
        found = page(**only, counted=True)
        assert ([one.name for one in found.records], found.total) == (names, len(names)), only
