"""One store per variant: SQLite file or memory, direct paths or not, blocking or asynchronous calls."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from milepost import ManualClock, Store, TaskScope, Writer
from milepost.config import load_settings
from milepost.metastore.memory import MemoryMetastore
from milepost.metastore.sql import SqliteMetastore
from tests.support.driver import Loops, Twin, drive

VARIANTS = [
    f"{kind}-{path}-{style}"
    for kind in ("sqlite", "memory")
    for path in ("direct", "operations")
    for style in ("sync", "async")
]

Make = Callable[..., Any]
SCOPE = TaskScope("dag", "run", "task")


@pytest.fixture
def clock() -> ManualClock:
    """A clock that moves only when told to."""
    return ManualClock()


@pytest.fixture
def loops() -> Iterator[Loops]:
    """The event loops of the asynchronous variants."""
    loops = Loops()
    yield loops
    loops.close()


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> str:
    """The name of the variant under test."""
    return str(request.param)


@pytest.fixture
def make(variant: str, clock: ManualClock, loops: Loops, tmp_path: Path) -> Iterator[Make]:
    """Return a function from settings to a store; two stores of a test share the file but never the memory.

    Teardown asserts that every connection is back in its pool.
    """
    kind, path, style = variant.split("-")
    stores: list[Store] = []

    def build(*, writer: Writer | None = None, **settings: Any) -> Any:
        loaded = load_settings({"url": "memory://", **settings}, {})
        options: dict[str, Any] = {"clock": clock, "policy": loaded, "direct": path == "direct"}
        metastore = SqliteMetastore(tmp_path / "store.db", **options) if kind == "sqlite" else MemoryMetastore(**options)
        store = Store(metastore, loaded, writer or Writer("python"))
        stores.append(store)
        return drive(store, style, loops)

    yield build
    for store in stores:
        engine = store.metastore.engine  # type: ignore[attr-defined]
        assert engine._opened == len(engine._idle), "a connection was not given back"
        store.close()
        assert engine._opened == 0


@pytest.fixture
def store(make: Make) -> Any:
    """A store with the default settings."""
    return make()


@pytest.fixture
def task(store: Any) -> Any:
    """The unfenced accessor of one task instance."""
    return store.task_store(SCOPE)


@pytest.fixture
def asset(store: Any) -> Any:
    """The accessor of one asset."""
    from milepost import Asset

    return store.asset_store(Asset("orders", uri="s3://orders"))


@pytest.fixture(params=["task", "attempt", "asset", "task_asset"])
def accessor(request: pytest.FixtureRequest, store: Any) -> Any:
    """Each kind of accessor: of a task and of an asset, outside of attempts and by one."""
    from milepost import Asset

    if request.param == "task":
        return store.task_store(SCOPE)
    if request.param == "asset":
        return store.asset_store(Asset("orders"))
    opened = store.instances.open(SCOPE, 1, inlets=[Asset("orders")])
    return opened["task_store"] if request.param == "attempt" else opened["asset_store"][Asset("orders")]


def real(thing: Any) -> Any:
    """Return the object behind a driver."""
    return thing.real if isinstance(thing, Twin) else thing


def as_writer(store: Any, writer: Writer, **settings: Any) -> Any:
    """Return the same store used by somebody else, perhaps with other settings."""
    other = Store(real(store).metastore, dataclasses.replace(store.settings, **settings), writer)
    return Twin(other, store._loops) if isinstance(store, Twin) else other


def sql(store: Any, text: str, *parameters: Any) -> list[Any]:
    """Run a statement of the test's own on the database, as someone who looks at it or damages it would."""
    engine = real(store).metastore.engine
    connection = engine.take()
    try:
        return list(connection.execute(text, parameters).fetchall())
    finally:
        engine.give(connection)
