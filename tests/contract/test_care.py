"""What a collection tells about itself, and how much a store holds."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from milepost import Asset, DueKey, ManualClock, TaskScope, Writer
from tests.contract.conftest import SCOPE, Make, real, sql

DAY = timedelta(days=1)
START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def test_a_dry_run_names_the_first_keys_of_each_kind(make: Make, clock: ManualClock) -> None:
    """A dry run names up to so many keys of each kind, with whose they are, and exactly rows that the real run removes."""
    store = make(writer=Writer("cli"), archive_days=1)
    task = store.task_store(SCOPE)
    mapped = store.task_store(TaskScope("dag", "run", "mapped", 3))
    for number in range(3):
        task.set(f"short{number}", 1, retention=DAY)
        mapped.set(f"long{number}", 1)
    mapped.delete("long2")
    clock.advance(days=31)
    assert store.clean(dry_run=True, first=2).first == (
        DueKey("expired", "dag/run/task", "short0"),
        DueKey("expired", "dag/run/task", "short1"),
        DueKey("retired", "dag/run/mapped[3]", "long0"),
        DueKey("retired", "dag/run/mapped[3]", "long1"),
        DueKey("changes", "dag/run/task", "short0"),
        DueKey("changes", "dag/run/mapped[3]", "long0"),
    )
    assert store.clean(dry_run=True).first == ()
    store.clean()
    assert store.clean(dry_run=True, first=9).first == ()


def test_a_damaged_key_is_named_all_the_same(store: Any, clock: ManualClock) -> None:
    """A key that is no text does not stop a dry run from naming what is due."""
    store.task_store(SCOPE).set("k", 1, retention=DAY)
    sql(store, "UPDATE entries SET key = CAST(x'ff41' AS TEXT)")
    clock.advance(DAY)
    assert store.clean(dry_run=True, first=5).first == (DueKey("expired", "dag/run/task", "\\xffA"),)


def test_progress_is_told_after_each_batch(store: Any, clock: ManualClock) -> None:
    """The callback hears, batch by batch, how many rows of a kind have gone of those that were due."""
    store.task_store(SCOPE).set_many({f"k{n}": n for n in range(5)}, retention=DAY)
    clock.advance(DAY)
    said: list[tuple[str, int, int]] = []
    store.clean(batch_size=2, progress=lambda *news: said.append(news))
    # What was logged is gone through three times: changes and events by age, values of assets by their number.
    nothing = [(what, 0, 0) for what in ("retired", "changes", "changes", "changes", "orphans")]
    assert said == [("expired", 2, 5), ("expired", 4, 5), ("expired", 5, 5), *nothing]


def test_stats_count_the_rows_of_each_table(store: Any, clock: ManualClock) -> None:
    """The statistics count runs, instances, entries (expired ones apart), assets, changes and results."""
    empty = store.stats()
    assert (empty.runs, empty.instances, empty.entries, empty.newest) == (0, 0, 0, None)
    task = store.instances.open(SCOPE, 1, outlets=[Asset("orders")])["task_store"]
    store.runs.put_result(SCOPE, 1, "1")
    task.set("gone", 1, retention=DAY)
    clock.advance(DAY)
    task.set("k", 1)
    store.asset_store(Asset("orders")).set("w", 1)
    found = store.stats()
    counts = (found.runs, found.instances, found.entries, found.expired, found.assets, found.changes, found.results)
    assert counts == (1, 1, 3, 1, 1, 1, 1)
    assert (found.schema, found.newest) == (empty.schema, START + DAY)
    assert found.bytes >= empty.bytes > 0


def test_a_store_knows_which_schema_it_found(make: Make, variant: str) -> None:
    """A store that was just made says that it found none; opened again, and on a prepared server, it says the version."""
    first = real(make()).metastore.found_schema
    second = real(make()).metastore.found_schema
    newest = real(make()).stats().schema
    expected = {"sqlite": (0, newest), "memory": (0, 0), "http": (None, None)}  # not known behind a server
    assert (first, second) == expected.get(variant.partition("-")[0], (newest, newest))
