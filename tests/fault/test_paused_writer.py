"""S-26: an attempt that wakes after it was superseded or cleared."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import milepost
from milepost import Asset
from tests.fault.helpers import SCOPE, Child, url

ASSET = Asset("a", uri="s3://bucket/a")


def dump(path: Path) -> dict[str, list[Any]]:
    """Return every row of every table."""
    with closing(sqlite3.connect(path)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in tables}


def supersede(store: milepost.Store) -> None:
    """Let attempt 2 take over."""
    later = store.instances.open(SCOPE, 2, outlets=[ASSET])
    later["task_store"].delete("mine")
    later["task_store"].set("n", 100)
    later["asset_store"][ASSET].set("n", 100)


def clear(store: milepost.Store) -> None:
    """Clear the instance, with nothing opened since."""
    store.instances.clear(SCOPE)


def clear_and_keep(store: milepost.Store) -> None:
    """Clear the instance and keep its state."""
    store.instances.clear(SCOPE, keep=True)


def clear_and_retry(store: milepost.Store) -> None:
    """Clear the instance and let attempt 2 begin."""
    store.instances.clear(SCOPE)
    supersede(store)


def new_incarnation(store: milepost.Store) -> None:
    """Let a new run of the same id take over, which counts its attempts from 1 again."""
    store.instances.open(SCOPE, 1, incarnation="first")
    later = store.instances.open(SCOPE, 1, incarnation="second", outlets=[ASSET])
    later["task_store"].set("n", 100)


def delete_run(store: milepost.Store) -> None:
    """Delete the run."""
    store.instances.delete_run(SCOPE.dag_id, SCOPE.run_id)


BY_NUMBER = (supersede, clear, clear_and_keep, clear_and_retry)
"""After these the number of the attempt alone, without an accessor, is stale as well."""


@pytest.mark.parametrize("twin", ["sync", "async"])
@pytest.mark.parametrize("takeover", [*BY_NUMBER, delete_run, new_incarnation])
def test_s26_an_attempt_that_wakes_too_late_changes_nothing(
    takeover: Callable[[milepost.Store], None], twin: str, start: Callable[..., Child], path: Path
) -> None:
    """S-26: its writes, to tasks and assets, raise `StaleAttemptError`, no row of any table moves, nothing reads absent."""
    child = start("paused", path, twin, *(["lifecycle"] if takeover in BY_NUMBER else []))
    child.expect("paused")
    with milepost.connect(url(path)) as store:
        takeover(store)
        before = dump(path)
        child.say("wake")
        outcomes = [line.split(": ", 1) for line in child.finish()]
        assert dump(path) == before
    writes = [(name, result) for name, result in outcomes if "." in name]
    assert len(writes) == (31 if takeover in BY_NUMBER else 28)
    assert [(name, result) for name, result in writes if result != "StaleAttemptError"] == []
    reads = {name: result for name, result in outcomes if "." not in name}
    assert reads.pop("mine") in ("StaleAttemptError", "returned 1")
    assert set(reads.values()) == {"StaleAttemptError"}


def test_s26_a_deferral_that_resumes_is_not_mistaken_for_a_stale_attempt(start: Callable[..., Child], path: Path) -> None:
    """S-26: the same attempt opened again in another process goes on, and so does the first process of it."""
    child = start("paused", path, "sync")
    child.expect("paused")
    with milepost.connect(url(path)) as store:
        store.instances.finish(SCOPE, 1, "deferred")
        again = store.instances.open(SCOPE, 1, outlets=[ASSET])
        assert again["task_store"].get("n") == 1
        again["task_store"].set("n", 2)
    child.say("wake")
    assert child.finish()[:2] == ["task.set: returned None", "task.set: returned None"]
