"""A damaged record of a run or a task instance never hides the others (SPEC 3)."""

from __future__ import annotations

from typing import Any

import pytest

from milepost import Asset, TaskScope, connect
from tests.contract.conftest import sql

SCOPES = [TaskScope("dag", "run", task) for task in ("a", "bad", "z")]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("created_at = 'soon'", "created_at"),
        ("opened_at = 'soon'", "opened_at"),
        (f"updated_at = {2**62}", "updated_at"),
        ("state = 'lost'", "state"),
        ("attempt = 'x'", "attempt"),
        ("attempt = -5", "attempt"),
        ("task_id = ''", "task instance"),
    ],
)
def test_a_damaged_instance_is_marked(store: Any, change: str, reason: str) -> None:
    """Lists of instances show the sound ones as they are and the damaged one with what is wrong."""
    for scope in SCOPES:
        store.instances.open(scope, 1)
    sound = {record.scope.task_id: record for record in store.instances.list()}
    sql(store, f"UPDATE instances SET {change} WHERE task_id = 'bad'")
    records = store.instances.list("dag", "run")
    assert [record for record in records if record.damaged is None] == [sound["a"], sound["z"]]
    (bad,) = [record for record in records if record.damaged is not None]
    assert bad.damaged.startswith(reason)
    assert store.instances.get(SCOPES[1]).damaged == bad.damaged
    store.instances.clear(SCOPES[1])
    store.instances.delete_run("dag", "run")
    assert store.instances.list() == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("params = '{oops'", "params"),
        ("params = '[1'", "params"),
        ("state = 'lost'", "state"),
        ("logical_date = 'x'", "logical_date"),
        (f"created_at = {2**62}", "created_at"),
        ("held_until = 'x'", "held_until"),
    ],
)
def test_a_damaged_run_is_marked(store: Any, change: str, reason: str) -> None:
    """Lists of runs show the sound ones as they are and the damaged one with what is wrong; it can be deleted."""
    for run in ("a", "bad", "z"):
        store.runs.begin("dag", run, holder="h", ttl=10, params="{}")
    sound = {record.run_id: record for record in store.runs.list()}
    sql(store, f"UPDATE runs SET {change} WHERE run_id = 'bad'")
    records = store.runs.list()
    assert [record for record in records if record.damaged is None] == [sound["z"], sound["a"]]
    (bad,) = [record for record in records if record.damaged is not None]
    assert (bad.run_id, bad.damaged.split()[0]) == ("bad", reason)
    assert store.runs.get("dag", "bad").damaged == bad.damaged
    store.instances.delete_run("dag", "bad")
    assert [record.run_id for record in store.runs.list()] == ["z", "a"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("assets SET created_at = 'soon'", "created_at"),
        (f"assets SET updated_at = {2**62}", "updated_at"),
        ("deactivations SET at = 'soon'", "deactivated_at"),
        ("deactivations SET writer = '{'", "deactivated_by"),
    ],
)
def test_a_damaged_asset_is_marked(change: str, reason: str) -> None:
    """Lists of assets show the sound ones as they are and the damaged one with what is wrong; its state is there."""
    with connect("memory://") as store:
        for name in ("a", "bad"):
            store.asset_store(Asset(name)).set("k", 1)
        store.assets.deactivate(Asset("bad"))
        sound = store.assets.get(Asset("a"))
        sql(store, f"UPDATE {change} WHERE {'asset' if 'deact' in change else 'id'} = {store.assets.get(Asset('bad')).id}")
        first, second = store.assets.list()
        assert first == sound
        assert second.damaged.startswith(reason)
        store.assets.activate(Asset("bad"))
        assert store.asset_store(Asset("bad")).get("k") == 1
