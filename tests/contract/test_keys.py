"""Keys and scopes: what is distinct stays distinct (SPEC 1 and 2)."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from milepost import Asset, AssetScope, InvalidKeyError, TaskScope

SLASHES = ["a", "a/b", "/lead", "trail/", "a//b"]
URL = ["d#draft", "d#final", "d?x=1", "a&b=c", "50%", "a%2Fb", "a/b", "a b", "a+b", ";", "é", ".", ".."]
ALIKE = ["A", "a", "e", "é", "e\u0301", "ss", "ß", "👍", "🎉"]
SPACES = ["k", "k ", "k\t", " k", "k\n", "\ufeffk"]


@pytest.mark.parametrize("keys", [SLASHES, URL, ALIKE, SPACES], ids=["S-04", "S-05", "S-11", "S-12"])
def test_s04_s05_s11_s12_keys_are_compared_by_code_point(accessor: Any, keys: list[str]) -> None:
    """S-04, S-05, S-11, S-12: look-alike keys hold separate values, and deleting one leaves the rest."""
    for number, key in enumerate(keys):
        accessor.set(key, number)
    assert [accessor.get(key) for key in keys] == list(range(len(keys)))
    assert accessor.keys() == sorted(keys)
    accessor.set_many({key: key for key in keys})
    for number, key in enumerate(keys):
        assert accessor.get_many(keys) == {key: key for key in keys[number:]}
        accessor.delete(key)
        assert accessor.keys() == sorted(keys[number + 1 :])


def test_s07_bad_keys_are_refused_by_every_call(accessor: Any) -> None:
    """S-07: NUL, lone surrogates, empty and overlong keys are InvalidKeyError, what is no str is TypeError."""
    calls = (
        accessor.get,
        lambda key: accessor.set(key, 1),
        accessor.delete,
        accessor.entry,
        lambda key: key in accessor,
        lambda key: accessor.get_many(["fine", key]),
        lambda key: accessor.set_many({"fine": 1, key: 1}),
        lambda key: accessor.set_default(key, 1),
        lambda key: accessor.compare_and_set(key, 1, version=None),
        accessor.increment,
        lambda key: accessor.update(key, lambda _: 1),
    )
    for call in calls:
        for bad in ("", "a\0b", "\ud83d", "\udce9.csv", "x" * 513):
            with pytest.raises(InvalidKeyError):
                call(bad)
        for wrong in (None, 1, b"k", ("k",)):
            with pytest.raises(TypeError):
                call(wrong)
    assert accessor.keys() == []


def test_longest_key_and_str_subclasses_are_keys(accessor: Any) -> None:
    """512 characters are a key, and an instance of a str subclass is the key that it equals."""

    class Name(str):
        __slots__ = ()

    longest = "漢" * 512
    accessor.set(longest, 1)
    accessor.set(Name("n"), 2)
    assert accessor.get("n") == 2
    assert accessor.get(Name("n")) == 2
    assert [type(key) for key in accessor.keys()] == [str, str]  # noqa: SIM118  (an accessor is no dict)
    assert accessor.get(longest) == 1


def test_scopes_never_leak(store: Any) -> None:
    """Scopes are separate however alike their ids look: dots, %, _, slashes, prefixes, case, spaces."""
    texts = ["a", "a.b", "a%", "a_", "a/b", "A", "a ", "é", "e\u0301", "10", "1"]
    scopes = [TaskScope(*ids) for ids in product(["a", "a/b", "a."], ["a", "b/a"], texts)]
    scopes += [TaskScope("a", "a", "a", index) for index in (0, 1, 10, 11)]
    for number, scope in enumerate(scopes):
        store.task_store(scope).set("k", number)
    assert [store.task_store(scope).items() for scope in scopes] == [[("k", n)] for n in range(len(scopes))]
    for number, scope in enumerate(scopes):
        store.task_store(scope).clear()
        rest = [len(store.task_store(other)) for other in scopes]
        assert rest == [0] * (number + 1) + [1] * (len(scopes) - number - 1)


def test_s05_run_ids_of_airflow_are_ordinary(store: Any) -> None:
    """S-05: run ids with +, :, / and # are ordinary and do not collide."""
    runs = ["manual__2026-01-01T00:00:00.123456+00:00", "manual__2026-01-01T00:00:00.123456 00:00", "in/2026 01#1"]
    for run in runs:
        store.task_store(TaskScope("dag", run, "task")).set("k", run)
    assert [record.scope.run_id for record in store.instances.list("dag")] == runs
    for run in runs:
        assert store.task_store(TaskScope("dag", run, "task")).get("k") == run


def test_s11_tasks_and_assets_are_compared_by_code_point(store: Any) -> None:
    """S-04, S-11, S-12: task ids and asset names that look alike have separate state."""
    names = [*ALIKE, *SPACES, "team/sales", "team%2Fsales"]
    for name in names:
        store.task_store(TaskScope("dag", "run", name)).set("k", name)
        store.asset_store(Asset(name)).set("k", name)
    for name in names:
        assert store.task_store(TaskScope("dag", "run", name)).items() == [("k", name)]
        assert store.asset_store(Asset.ref(name=name)).items() == [("k", name)]


def test_task_and_asset_never_share_keys(store: Any) -> None:
    """A task instance and an asset that was recorded beside it do not see each other's keys."""
    task, asset = store.task_store(TaskScope("a", "a", "a")), store.asset_store(Asset("a"))
    task.set("k", "task")
    asset.set("k", "asset")
    asset.clear()
    assert task.get("k") == "task"
    assert asset.get("k") is None


def test_s23_map_indices_are_separate(store: Any) -> None:
    """S-23: a mapped index has its own keys; delete and clear touch no sibling, clear(all_map_indices) all of them."""
    stores = [store.task_store(TaskScope("dag", "run", "mapped", index)) for index in range(12)]
    plain = store.task_store(TaskScope("dag", "run", "mapped"))
    others = [TaskScope("dag", "run", "mapped2", 1), TaskScope("dag", "run2", "mapped", 1)]
    for one in (*stores, *map(store.task_store, others)):
        one.set("k", 1)
    stores[1].delete("k")
    plain.clear()
    assert [one.get("k") for one in stores] == [1, None, *[1] * 10]
    stores[2].clear()
    assert [len(one) for one in stores] == [1, 0, 0, *[1] * 9]
    plain.clear(all_map_indices=True)
    assert [len(one) for one in stores] == [0] * 12
    assert [len(store.task_store(scope)) for scope in others] == [1, 1]
    assert store.instances.get(plain.scope) is None


def test_s23_an_attempt_clears_its_siblings_only_when_asked(store: Any) -> None:
    """S-23: an attempt's clear(all_map_indices=True) drops the siblings' keys and leaves their attempts current."""
    stores = [store.task_store(TaskScope("dag", "run", "mapped", index), attempt=1) for index in range(3)]
    for one in stores:
        one.set("k", 1)
    stores[0].clear()
    assert [len(one) for one in stores] == [0, 1, 1]
    stores[0].clear(all_map_indices=True)
    assert [len(one) for one in stores] == [0, 0, 0]
    stores[1].set("k", 2)
    assert stores[1].get("k") == 2


def test_reads_and_deletes_record_nothing(store: Any) -> None:
    """Reads, deletes and clears outside of attempts record no instance; the first write does, in state none."""
    scope = TaskScope("dag", "run", "task")
    task = store.task_store(scope)
    task.get("k")
    task.entry("k")
    task.keys()
    task.items()
    assert len(task) == 0
    task.delete("k")
    task.clear()
    task.clear(all_map_indices=True)
    assert store.instances.get(scope) is None
    assert store.runs.list() == []
    task.set("k", 1)
    record = store.instances.get(scope)
    assert (record.state, record.attempt, record.opened_at) == ("none", 0, None)


def test_task_store_takes_task_scopes_only(store: Any) -> None:
    """`task_store` refuses what is no TaskScope and `asset_store` what is no asset, with TypeError."""
    for wrong in ("dag", None, ("a", "b", "c"), AssetScope(name="a")):
        with pytest.raises(TypeError):
            store.task_store(wrong)
    for wrong in ("s3://x", None, TaskScope("a", "b", "c"), Asset):
        with pytest.raises(TypeError):
            store.asset_store(wrong)
