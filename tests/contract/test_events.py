"""Events of assets: each is recorded once, with the runs that it starts."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest

from milepost import (
    Asset,
    AssetNotFoundError,
    InvalidKeyError,
    InvalidValueError,
    ManualClock,
    RunEvent,
    TaskScope,
    ValueTooLargeError,
)
from milepost.calls import RecordedEvent
from milepost.events import Events
from milepost.scopes import AssetScope
from tests.contract.conftest import real, sql
from tests.support.driver import Twin

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


def events_of(store: Any) -> Any:
    """Return the events of a store, driven as the store is."""
    own = real(store)
    events = Events(own.metastore, own.settings.max_value_bytes)
    return Twin(events, store._loops) if isinstance(store, Twin) else events


def scope_of(store: Any, name: str) -> AssetScope:
    """Return an asset, recorded, with its number."""
    scope: AssetScope = store.asset_store(Asset(name, uri=f"s3://{name}")).scope
    return scope


def record(store: Any, event_id: str, *names: str, payload: Any = None, dags: tuple[str, ...] = ("dag",)) -> RecordedEvent:
    """Record an event of these assets, for DAGs that are scheduled on all of them."""
    scopes = [scope_of(store, name) for name in names]
    answer: RecordedEvent = events_of(store).record(
        event_id,
        payload,
        assets=[(scope, f"watcher of {scope.name}") for scope in scopes],
        dags=[(dag, [scope.asset_id for scope in scopes]) for dag in dags],
        logical_date=NOON,
    )
    return answer


def test_an_event_starts_a_run_with_its_payload(store: Any) -> None:
    """The run is recorded with the event as its parameters and its cause, and nobody has driven it yet."""
    recorded = record(store, "file-1", "orders", payload={"rows": [1, None]})
    (key,) = recorded.runs
    assert (recorded.new, key.dag_id) == (True, "dag")
    run = store.runs.get(*key)
    about = {"id": "file-1", "asset": "orders", "uri": "s3://orders", "watcher": "watcher of orders"}
    assert json.loads(run.params) == {"event": {**about, "payload": {"rows": [1, None]}}}
    assert (run.state, run.holder, run.logical_date) == (None, None, NOON)
    assert run.incarnation is not None
    assert run.event == RunEvent("file-1", "watcher of orders", "orders", "s3://orders")
    assert store.runs.list() == [run]
    assert events_of(store).pending() == [key]


def test_an_event_counts_once(store: Any) -> None:
    """The same id again changes nothing, whatever it brings; another asset's and another id are other events."""
    first = record(store, "1", "orders", payload=1)
    assert record(store, "1", "orders", payload=2) == (False, first.runs)
    others = [record(store, "1", "rates"), record(store, "2", "orders"), record(store, "1 ", "orders")]
    assert all(other.new and len(other.runs) == 1 for other in others)
    assert len(store.runs.list()) == 4
    assert events_of(store).pending() == [*first.runs, *(other.runs[0] for other in others)]


def test_one_event_of_several_assets_starts_one_run_for_each_dag(store: Any) -> None:
    """What a trigger of two assets yields starts one run of each DAG; its cause is the first asset."""
    recorded = record(store, "1", "orders", "rates", dags=("one", "two"))
    assert [key.dag_id for key in recorded.runs] == ["one", "two"]
    assert {store.runs.get(*key).event.asset for key in recorded.runs} == {"orders"}
    assert record(store, "1", "orders", "rates", dags=("one", "two")) == (False, recorded.runs)


def test_an_event_that_starts_nothing_is_recorded_all_the_same(store: Any) -> None:
    """Without a DAG there is no run, and the event is known from then on."""
    assert record(store, "1", "orders", dags=()) == (True, [])
    assert record(store, "1", "orders") == (False, [])


@pytest.mark.parametrize("state", ["success", "failed"])
def test_a_run_is_pending_until_it_has_ended(store: Any, state: str) -> None:
    """Taking and giving up a run leaves it pending, its end does not, and a clear makes it pending again."""
    recorded = record(store, "1", "orders")
    (key,) = recorded.runs
    for _ in range(2):
        store.runs.begin(*key, holder="one", ttl=10)
        assert events_of(store).pending() == [key]
        store.runs.release(*key, "one")
    scope = TaskScope(*key, "task")
    store.runs.begin(*key, holder="one", ttl=10)
    store.instances.open(scope, 1)
    store.instances.finish(scope, 1, state)
    store.runs.end(*key, "one", state)
    assert events_of(store).pending() == []
    assert record(store, "1", "orders") == (False, [])
    store.instances.clear(scope)
    assert events_of(store).pending() == [key]


def test_a_deleted_run_is_not_started_again(store: Any) -> None:
    """The event outlives the run that it started."""
    (key,) = record(store, "1", "orders").runs
    store.instances.delete_run(*key)
    assert events_of(store).pending() == []
    assert record(store, "1", "orders") == (False, [])
    assert store.runs.list() == []


def test_other_runs_have_no_event(store: Any) -> None:
    """A run that a person started has no event and is never pending."""
    store.runs.begin("dag", "manual", holder="one", ttl=10)
    assert store.runs.get("dag", "manual").event is None
    assert events_of(store).pending() == []


def test_odd_ids_are_different_events(store: Any) -> None:
    """Ids are compared by code point: case, blanks, accents and emoji count (S-11, S-12)."""
    ids = ["a", "A", "é", "e\u0301", "a ", "a\t", "👍", "🎉", "x" * 512]
    assert all(record(store, one, "orders").new for one in ids)
    assert not any(record(store, one, "orders").new for one in ids)
    assert sorted(run.event.id for run in store.runs.list()) == sorted(ids)


def test_bad_events_are_refused(make: Any) -> None:
    """A bad id, a payload that is no JSON or too large, and an asset that is gone record nothing."""
    store = make(max_value_bytes=20)
    for bad in ("", "a\0", "x" * 513):
        with pytest.raises(InvalidKeyError, match="id of an event"):
            record(store, bad, "orders")
    with pytest.raises(ValueTooLargeError):
        record(store, "1", "orders", payload="x" * 20)
    with pytest.raises(InvalidValueError, match="nan"):
        record(store, "1", "orders", payload=[float("nan")])
    with pytest.raises(TypeError, match="datetime"):
        record(store, "1", "orders", payload={"at": NOON})
    gone = (AssetScope(9_999, "gone", "gone"), "w")
    orders = (scope_of(store, "orders"), "w")
    with pytest.raises(AssetNotFoundError, match="gone"):
        events_of(store).record("1", None, assets=[orders, gone], dags=[], logical_date=NOON)
    assert store.runs.list() == []
    assert record(store, "1", "orders", payload="x" * 18).new


def test_events_go_with_a_swept_asset(store: Any, clock: ManualClock) -> None:
    """The sweep takes the events of an orphan along, not the runs that they started, and those are not started again."""
    (key,) = record(store, "1", "orders").runs
    record(store, "2", "rates")
    store.assets.deactivate(Asset.ref(name="orders"))
    clock.advance(hours=25)
    store.clean()
    assert sql(store, "SELECT count(*) FROM events") == [(1,)]
    assert store.runs.get(*key).event is None
    assert record(store, "1", "orders").runs == []
    assert [run.dag_id for run in store.runs.list()] == ["dag", "dag"]


def test_payloads_of_events_go_after_archive_days_and_the_events_stay(store: Any, clock: ManualClock) -> None:
    """A collection drops the payloads of old events, as its dry run says; they stay known, and runs keep theirs."""
    (key,) = record(store, "1", "orders", payload={"rows": [1]}).runs
    clock.advance(days=6)
    record(store, "2", "orders")
    clock.advance(days=2)
    dry = store.clean(dry_run=True, first=5)
    assert (dry.changes, [(one.what, one.owner, one.key) for one in dry.first]) == (
        1,
        [("changes", "orders (s3://orders)", "1")],
    )
    assert store.clean().changes == 1
    assert sql(store, "SELECT payload FROM events ORDER BY id") == [("",), ("null",)]
    assert store.clean().changes == 0
    assert not record(store, "1", "orders", payload={"rows": [1]}).new
    assert json.loads(store.runs.get(*key).params)["event"]["payload"] == {"rows": [1]}
