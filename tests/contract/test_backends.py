"""Users' own backends as ``[state_store] backend`` (SPEC 7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from milepost import (
    NEVER_EXPIRE,
    Asset,
    AssetNotActiveError,
    BackendUnsupportedError,
    ConfigurationError,
    DamagedEntryError,
    ManualClock,
    StaleAttemptError,
    TaskScope,
    calls,
    connect,
)
from milepost.calls import Held, HeldKeys
from tests.contract.conftest import SCOPE, real
from tests.support.backends import DictBackend, OwnMetastoreBackend
from tests.support.driver import Loops, drive
from tests.support.services import LostError, Service

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)
A = Asset("a")
Open = Callable[..., Any]


@pytest.fixture(params=["sync", "async"])
def open_with(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock, loops: Loops) -> Iterator[Open]:
    """Return a function from the name of a backend in `tests.support.backends` to a store."""
    stores = []

    def build(name: str, **settings: Any) -> Any:
        url = f"sqlite:///{tmp_path / 'store.db'}"
        store = connect(url, backend=f"tests.support.backends.{name}", clock=clock, **settings)
        stores.append(store)
        return drive(store, request.param, loops)

    DictBackend.reset()
    OwnMetastoreBackend.sets.clear()
    yield build
    for store in stores:
        engine = store.metastore.inner.engine  # type: ignore[attr-defined]
        assert engine._opened == len(engine._idle), "a connection was not given back"
        store.close()


@pytest.mark.parametrize("name", ["DictBackend", "ListingBackend", "OwnMetastoreBackend", "WrappingBackend"])
def test_simple_calls_work_on_every_backend(open_with: Open, name: str) -> None:
    """get, set, delete, clear, in and get_many work on any backend, for tasks and assets, with values as they were."""
    store = open_with(name)
    opened = store.instances.open(SCOPE, 1, outlets=[Asset("a")])
    for accessor in (opened["task_store"], opened["asset_store"][Asset("a")], store.task_store(TaskScope("d", "r", "p"))):
        for value in (0, False, "", [], {}, -0.0, 2**70, "漢\0", {"b": 1, "a": [None]}):
            accessor.set("k", value)
            assert repr(accessor.get("k")) == repr(value)
        accessor.set_many({"one": 1})
        assert "k" in accessor
        assert "other" not in accessor
        assert accessor.get("other", "default") == "default"
        assert accessor.get_many(["one", "other"]) == {"one": 1}
        accessor.delete("k")
        assert "k" not in accessor
        accessor.clear()
        assert "one" not in accessor
        with pytest.raises(ValueError, match="None"):
            accessor.set("k", None)
        with pytest.raises(TypeError):
            accessor.set("k", (1,))
    assert store.instances.get(TaskScope("d", "r", "p")).state == "none"


@pytest.mark.parametrize("name", ["DictBackend", "ListingBackend", "OwnMetastoreBackend", "WrappingBackend"])
def test_s26_stale_attempts_are_refused_on_every_backend(open_with: Open, name: str) -> None:
    """S-26: on any backend a stale attempt's write changes nothing and its read never says "absent"."""
    store = open_with(name)
    old = store.task_store(SCOPE, attempt=1)
    old.set("n", 1)
    new = store.task_store(SCOPE, attempt=2)
    new.set("n", 100)
    for write in (
        lambda: old.set("n", 7),
        lambda: old.set("new", 7),
        lambda: old.delete("n"),
        old.clear,
        lambda: old.clear(all_map_indices=True),
        lambda: old.get("absent", "default"),
        lambda: "absent" in old,
        lambda: old.get_many(["absent"]),
    ):
        with pytest.raises(StaleAttemptError):
            write()
    assert new.get("n") == 100
    assert old.get("n") == 100
    assert "new" not in new


def test_the_warning_comes_once_and_names_the_limits(open_with: Open, caplog: Any) -> None:
    """Opening a store with a user's backend warns once that names the backend; the metastore's own does not."""
    store = open_with("DictBackend")
    task = store.task_store(SCOPE)
    task.set("k", 1)
    task.get("k")
    (warning,) = [record for record in caplog.records if getattr(record, "action", "") == "backend"]
    for part in ("tests.support.backends.DictBackend", "fence", "versions", "history", "expiry on read"):
        assert part in warning.getMessage()
    caplog.clear()
    open_with("OwnMetastoreBackend")
    assert not caplog.records


def test_a_deactivated_asset_of_a_backend(open_with: Open, caplog: Any) -> None:
    """A read of a deactivated asset is logged with a user's backend, too; how many keys it holds nobody can tell."""
    store = open_with("DictBackend")
    asset = store.asset_store(Asset("a"))
    asset.set("k", 1)
    store.assets.deactivate(Asset("a"))
    assert (asset.get("k"), asset.get("k")) == (None, None)
    (warning,) = [record for record in caplog.records if getattr(record, "action", "") == "read"]
    assert "milepost assets activate a" in warning.getMessage()
    assert store.metastore.call(HeldKeys(store.assets.get(Asset("a")).id, 5)) == Held(None, [])


@pytest.mark.parametrize("name", ["ListingBackend", "OwnMetastoreBackend", "HidingBackend", "WrappingBackend"])
def test_reads_of_a_deactivated_asset_find_nothing(open_with: Open, name: str) -> None:
    """Whatever the backend, a deactivated asset reads as empty and takes no write; stale attempts are told."""
    store = open_with(name)
    asset = store.instances.open(SCOPE, 1, outlets=[A])["asset_store"][A]
    asset.set("k", 1)
    store.assets.deactivate(A)
    assert (asset.get("k"), "k" in asset, asset.get_many(["k"])) == (None, False, {})
    assert name == "WrappingBackend" or (asset.keys(), len(asset), asset.items()) == ([], 0, [])
    with pytest.raises(AssetNotActiveError):
        asset.set("k", 2)
    store.instances.open(SCOPE, 2)
    for call in (lambda: asset.get("k"), lambda: asset.get_many(["k"]), lambda: asset.set("k", 2)):
        with pytest.raises(StaleAttemptError):
            call()
    store.assets.activate(A)
    assert store.asset_store(A).get("k") == 1


def test_calls_beyond_the_eight_methods_name_the_backend(open_with: Open) -> None:
    """A call that a backend has no means for raises BackendUnsupportedError naming it, and writes nothing."""
    task = open_with("DictBackend").task_store(SCOPE)
    for call in (
        lambda: task.entry("k"),
        task.keys,
        task.items,
        lambda: len(task),
        lambda: task.set_many({"a": 1, "b": 2}),
        lambda: task.set_default("k", 1),
        lambda: task.compare_and_set("k", 1, version=None),
        lambda: task.increment("k"),
        lambda: task.update("k", lambda _: 1),
        lambda: task.touch("k", retention=HOUR),
        task.past_run,
    ):
        with pytest.raises(BackendUnsupportedError, match=r"tests\.support\.backends\.DictBackend"):
            call()
    assert DictBackend.data == {}


def test_calls_of_assets_beyond_the_eight_methods_name_the_backend(open_with: Open) -> None:
    """Advance, history, rollback, staging, copy and restore need the metastore; the error names the backend."""
    store = open_with("DictBackend")
    asset = store.instances.open(SCOPE, 1, outlets=[Asset("a")])["asset_store"][Asset("a")]
    asset.set("k", 1)
    store.assets.register(Asset("b"))
    before = dict(DictBackend.data)
    for call in (
        lambda: asset.advance("k", 2),
        lambda: asset.history("k"),
        lambda: asset.rollback("k", version="v"),
        lambda: asset.stage("k", 2),
        lambda: store.assets.copy(Asset("a"), Asset("b")),
        lambda: store.assets.archives(Asset("a")),
        lambda: store.assets.restore(Asset("a")),
    ):
        with pytest.raises(BackendUnsupportedError, match=r"tests\.support\.backends\.DictBackend"):
            call()
    assert before == DictBackend.data


def test_no_call_is_named_by_an_internal_name(open_with: Open) -> None:
    """Each call on a handle works with a simple backend, or the error names the method that a user knows."""
    store = real(open_with("DictBackend"))
    handle = store.task_store(SCOPE, attempt=1)._handle
    store.metastore.call(calls.Check(handle))
    working = {
        "Check",
        "Get",
        "GetMany",
        "Put",
        "ReadIntent",
        "Intend",
        "KeepJob",
        "Delete",
        "Clear",
        "Keys",
        "Count",
        "Items",
    }
    on_handles = [
        kind
        for name in calls.__all__
        if hasattr(kind := getattr(calls, name), "__dataclass_fields__")
        and issubclass(kind, calls.Call)
        and {"handle", "target"} & set(kind.__dataclass_fields__)
    ]
    assert {kind.__name__ for kind in on_handles} >= working
    for kind in on_handles:
        if kind.__name__ in working:
            continue
        call = kind.__new__(kind)
        setattr(call, "target" if "target" in kind.__dataclass_fields__ else "handle", handle)
        with pytest.raises(BackendUnsupportedError, match=r"cannot do [a-z]"):
            store.metastore.call(call)


def test_the_sweep_clears_what_a_backend_keeps(open_with: Open) -> None:
    """An asset that is swept loses what the backend keeps of it."""
    store = open_with("DictBackend", orphan_grace_hours=0)
    store.asset_store(Asset("a")).set("k", 1)
    store.asset_store(Asset("b")).set("k", 1)
    store.assets.deactivate(Asset("a"))
    assert store.asset_store(Asset("a")).get("k") is None
    assert store.clean().swept == ("a",)
    assert [scope.name for scope, _ in DictBackend.data] == ["b"]


def test_a_listing_backend_lists(open_with: Open) -> None:
    """With `list(scope)`, keys, items, len and iteration work and a damaged text is marked."""
    task = open_with("ListingBackend").task_store(SCOPE)
    for key in ("b", "a", "ab"):
        task.set(key, key)
    assert (task.keys(), task.keys("a"), len(task), list(task)) == (["a", "ab", "b"], ["a", "ab"], 3, ["a", "ab", "b"])
    DictBackend.data[SCOPE, "ab"] = "{oops"
    assert list(task.items("b")) == [("b", "b")]
    assert task.items()[0] == ("a", "a")
    assert task.items()[1][1].key == "ab"
    with pytest.raises(DamagedEntryError, match="'ab'"):
        task.get("ab")


def test_expiry_is_passed_as_an_aware_instant(open_with: Open) -> None:
    """`expires_at` is an aware UTC instant for a timedelta, and None for the default and NEVER_EXPIRE."""
    task = open_with("DictBackend").task_store(SCOPE)
    task.set("a", 1)
    task.set("b", 1, retention=HOUR)
    task.set("c", 1, retention=NEVER_EXPIRE)
    assert DictBackend.seen == [("set", "a", "1", None), ("set", "b", "1", START + HOUR), ("set", "c", "1", None)]


def test_never_expires_is_passed_where_it_is_taken(open_with: Open) -> None:
    """`never_expires` reaches a backend whose set takes it, true for NEVER_EXPIRE only."""
    store = open_with("ListingBackend")
    task = store.task_store(SCOPE)
    task.set("a", 1)
    task.set("b", 1, retention=HOUR)
    task.set("c", 1, retention=NEVER_EXPIRE)
    assert [(seen[1], *seen[3:]) for seen in DictBackend.seen] == [
        ("a", None, False),
        ("b", START + HOUR, False),
        ("c", None, True),
    ]


@pytest.mark.parametrize("name", ["OwnMetastoreBackend", "WrappingBackend"])
def test_retention_works_through_the_metastores_backend(open_with: Open, clock: ManualClock, name: str) -> None:
    """A subclass or wrapper of MetastoreStateBackend keeps explicit, default and endless retention."""
    store = open_with(name)
    task = store.task_store(SCOPE, attempt=1)
    task.set("hour", 1, retention=HOUR)
    task.set("never", 1, retention=NEVER_EXPIRE)
    task.set("default", 1)
    store.instances.finish(SCOPE, 1, "success")
    clock.advance(HOUR)
    assert task.get("hour", "gone") == "gone"
    clock.advance(days=31)
    report = store.clean()
    assert (report.expired, report.retired) == (1, 1)
    assert task.get("never") == 1
    assert task.get("default") is None


def test_a_subclass_of_the_metastores_backend_has_all_calls(open_with: Open) -> None:
    """A MetastoreStateBackend subclass sees the sets and leaves every other call to the metastore."""
    task = open_with("OwnMetastoreBackend").task_store(SCOPE, attempt=1)
    task.set("k", 1)
    task.set_many({"a": 1, "b": 2})
    assert OwnMetastoreBackend.sets == ["k", "a", "b"]
    assert task.entry("k").writer.attempt == 1
    assert task.increment("k") == 2
    assert task.keys() == ["a", "b", "k"]
    assert task.compare_and_set("k", 3, version=task.entry("k").version)


def test_a_subclass_that_changes_texts_is_never_bypassed(open_with: Open) -> None:
    """What looks at stored texts, or writes them past `set`, is refused where `get` makes something else of them."""
    store = open_with("HidingBackend")
    task, asset = (one := store.instances.open(SCOPE, 1, outlets=[Asset("a")]))["task_store"], one["asset_store"][Asset("a")]
    task.set_many({"k": {"page": 1}, "l": 2})
    asset.set("w", 5)
    store.assets.register(Asset("b"))
    assert (task.get("k"), task.get_many(["l"]), task.items()) == ({"page": 1}, {"l": 2}, [("k", {"page": 1}), ("l", 2)])
    assert (len(task), task.keys(), asset.items(), "w" in asset) == (2, ["k", "l"], [("w", 5)], True)
    for call in (
        lambda: task.entry("k"),
        lambda: task.set_default("n", 1),
        lambda: task.compare_and_set("n", 1, version=None),
        lambda: task.increment("n"),
        lambda: task.update("n", lambda _: 1, 0),
        lambda: asset.advance("n", 7),
        lambda: asset.stage("n", 7),
        lambda: asset.stage("n", 7, advance=True),
        lambda: asset.history("w"),
        lambda: store.assets.copy(Asset("a"), Asset("b")),
    ):
        with pytest.raises(
            BackendUnsupportedError, match=r"HidingBackend cannot do \w+\(\).*: its get\(\) makes something else"
        ):
            call()
    store.instances.finish(SCOPE, 1, "success")
    assert (task.keys(), asset.keys()) == (["k", "l"], ["w"])


def test_pages_of_lists_are_refused_not_empty(open_with: Open) -> None:
    """The page of a list that a simple backend cannot give is an error, so that no REST client takes the scope for empty."""
    store = real(open_with("ListingBackend"))
    task = store.task_store(SCOPE)
    task.set("k", 1)
    with pytest.raises(BackendUnsupportedError, match="cannot do pages of lists"):
        store.metastore.call(calls.EntryPage(SCOPE, None, "", -1, None, 0, 10, False))


def test_a_wrapper_keeps_its_own_keys(open_with: Open) -> None:
    """A wrapper stores what it likes under keys of its own, in the metastore."""
    store = open_with("WrappingBackend")
    task = store.task_store(SCOPE)
    task.set("k", 1)
    real = getattr(store, "real", store)
    engine = real.metastore.inner.engine
    connection = engine.take()
    try:
        assert connection.execute("SELECT key, value FROM entries").fetchall() == [("w/k", "1")]
    finally:
        engine.give(connection)


@pytest.mark.parametrize(
    ("dotted", "said"),
    [
        ("tests.support.backends.NotABackend", "not a subclass"),
        ("tests.support.backends.Missing", "cannot be imported"),
        ("no_such_module.Backend", "cannot be imported"),
        ("Backend", "not a subclass"),
        ("tests.support.backends.PickyBackend", "without arguments"),
        ("milepost.BaseStateBackend", "without arguments"),
    ],
)
def test_a_bad_backend_is_a_configuration_error(dotted: str, said: str) -> None:
    """A backend that cannot be imported, made or is none is a ConfigurationError that names it."""
    with pytest.raises(ConfigurationError, match=f"{dotted}.*{said}"):
        connect("memory://", backend=dotted)


def test_the_default_backend_by_name() -> None:
    """`milepost.MetastoreStateBackend` as backend is the metastore itself."""
    with connect("memory://", backend="milepost.MetastoreStateBackend") as store:
        store.task_store(SCOPE).set("k", 1)
        assert store.task_store(SCOPE).entry("k").value == 1


def test_metastore_state_backend_needs_its_session() -> None:
    """MetastoreStateBackend called without the session that its caller was given says so."""
    from milepost import MetastoreStateBackend

    with pytest.raises(ValueError, match="session"):
        MetastoreStateBackend().get(SCOPE, "k")


def clear_instance(store: Any) -> None:
    """A person clears the instance."""
    store.instances.clear(SCOPE)


def succeed(store: Any) -> None:
    """The attempt succeeds under clear_on_success."""
    store.instances.finish(SCOPE, 1, "success")


def delete_run(store: Any) -> None:
    """The run is deleted."""
    store.instances.delete_run(SCOPE.dag_id, SCOPE.run_id)


@pytest.mark.parametrize("step", [clear_instance, succeed, delete_run])
def test_lifecycle_drops_the_entries_of_a_backend(open_with: Open, step: Callable[[Any], None]) -> None:
    """What a clear, clear_on_success or a deleted run drops is gone from a user's backend too."""
    store = open_with("ListingBackend", clear_on_success=True)
    store.task_store(SCOPE, attempt=1).set("k", 1)
    step(store)
    assert "k" not in store.task_store(SCOPE)


def test_set_many_of_a_subclass_is_all_or_nothing(open_with: Open) -> None:
    """Through a subclass of `MetastoreStateBackend`, `set_many` sees each key and writes all of them or none, at once."""
    store = open_with("RefusingBackend")
    task = store.task_store(SCOPE)
    task.set("a", "old")
    with pytest.raises(LookupError, match="refused"):
        task.set_many({"a": 1, "b": 2, "no": 3, "z": 4})
    assert task.items() == [("a", ["old"])]
    with pytest.raises(BackendUnsupportedError, match="different expiries"):
        task.set_many({"a": 1, "late": 2})
    assert task.items() == [("a", ["old"])]
    task.set_many({"a": 1, "b": 2}, retention=HOUR)
    assert task.items() == [("a", [1]), ("b", [2])]
    first, second = task.entry("a"), task.entry("b")
    assert (first.updated_at, first.expires_at) == (second.updated_at, second.expires_at)
    assert first.expires_at - first.updated_at == HOUR


def test_set_many_of_a_subclass_is_one_transaction(open_with: Open) -> None:
    """A stale attempt's `set_many` through a subclass writes no key, also where it became stale after its first check."""
    store = open_with("RefusingBackend")
    stale = store.instances.open(SCOPE, 1)["task_store"]
    backend = real(store).metastore.backend
    inner = real(store).metastore.inner
    own = backend._put

    def overtaken(*args: Any) -> Any:
        inner.call(real_open(2))
        return own(*args)

    def real_open(attempt: int) -> Any:
        return calls.Open(SCOPE, attempt)

    backend._put = overtaken
    with pytest.raises(StaleAttemptError):
        stale.set_many({"a": 1, "b": 2})
    backend._put = own
    assert store.task_store(SCOPE).keys() == []


@pytest.mark.parametrize("name", ["DictBackend", "ListingBackend", "OwnMetastoreBackend", "WrappingBackend"])
def test_external_jobs_on_every_backend(open_with: Open, name: str) -> None:
    """The id of a job is in the backend and its intent in the metastore; what is promised of jobs holds all the same."""
    store = open_with(name)
    service = Service()
    once = {"submit": service.submit, "status": service.status}
    service.lose = ["answer"]
    with pytest.raises(LostError):
        store.instances.open(SCOPE, 1)["task_store"].submit_once("job", **once)
    task = store.instances.open(SCOPE, 2)["task_store"]
    assert task.submit_once("job", find=service.find, **once) == "j1"
    assert task.get("job") == "j1"
    service.jobs["j1"] = "gone"
    assert store.instances.open(SCOPE, 3)["task_store"].submit_once("job", **once) == "j2"
    store.instances.clear(SCOPE)
    task = store.instances.open(SCOPE, 4)["task_store"]
    assert task.submit_once("job", **once) == "j3"
    task.delete("job")
    assert task.submit_once("job", **once) == "j4"
    task.clear()
    assert task.submit_once("job", **once) == "j5"
    assert task.submit_once("job", **once) == "j5"
    assert store.stats().intents == 1
    store.instances.open(SCOPE, 5)
    with pytest.raises(StaleAttemptError):
        task.submit_once("other", **once)
    assert len(service.jobs) == 5
