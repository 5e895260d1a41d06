"""PostgreSQL by way of PgBouncer in transaction pooling mode, where each transaction may get another connection.

The contract suite runs through it too (see `tests/contract/conftest.py`).
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import milepost
from milepost import Asset, StaleAttemptError, TaskScope, connect
from tests.fault.server_helpers import Pause, together
from tests.support.private import PrivateBouncer
from tests.support.servers import Database, Databases, in_use, wait_until

SCOPE = TaskScope("d", "r", "t", -1)
ASSET = Asset("orders")


@pytest.fixture
def database(databases: Databases) -> Database:
    """An empty database behind PgBouncer."""
    return databases.bounced()


@pytest.fixture
def url(databases: Databases, database: Database) -> str:
    """The URL by way of PgBouncer."""
    return databases.bouncer().url_of(database.url)


def open_store(url: str) -> milepost.Store:
    """Open a store as its documentation says for PgBouncer."""
    return connect(url, prepared_statements=False)


def test_connect_makes_the_schema_through_it(databases: Databases) -> None:
    """`connect` on an empty database, `verify` and the next `connect` work by way of PgBouncer."""
    fresh = databases.fresh("postgres")
    url = databases.bouncer().url_of(fresh.url)
    for number in range(2):
        with open_store(url) as store:
            store.verify()
            assert store.task_store(SCOPE).increment("n") == number + 1


def test_more_callers_than_connections_share_them(url: str, database: Database) -> None:
    """Of 12 threads with transactions of several statements, none fails, no count is lost, and few connections are open."""
    with open_store(url) as first, open_store(url) as second:
        stores = [first, second]

        def work(index: int) -> None:
            task, asset = stores[index % 2].task_store(SCOPE), stores[index % 2].asset_store(ASSET)
            for number in range(10):
                task.increment("n")
                asset.increment("n")
                task.set_many({f"{index}-{number}": 1, f"{index}+{number}": 2})

        together(12, work)
        assert (first.task_store(SCOPE).get("n"), first.asset_store(ASSET).get("n")) == (120, 120)
        assert len(first.task_store(SCOPE)) == 241
        assert len(database.sessions()) <= PrivateBouncer.pool_size


def test_asynchronous_calls_share_connections_too(url: str) -> None:
    """40 asynchronous increments at once are exact, in one event loop after the other."""

    async def count(task: Any) -> list[int]:
        return sorted(await asyncio.gather(*(task.aincrement("n") for _ in range(40))))

    with open_store(url) as store:
        task = store.task_store(SCOPE)
        for round_ in range(2):
            assert asyncio.run(count(task)) == list(range(round_ * 40 + 1, round_ * 40 + 41))
        assert in_use(store.metastore.engine) == 0


def test_a_newer_attempt_waits_for_a_writer_that_passed_the_fence(url: str, database: Database) -> None:
    """The locks of a write hold through PgBouncer: a newer attempt waits for its commit, and the writer is stale then."""
    with open_store(url) as store, open_store(url) as other:
        task = store.instances.open(SCOPE, 1)["task_store"]
        task.set("n", 1)
        pause = Pause(store.metastore.engine, lambda text: text == "COMMIT")
        order: list[str] = []

        def note(what: str, work: Any) -> None:
            work()
            order.append(what)

        writer = threading.Thread(target=note, args=("written", lambda: task.increment("n")))
        taker = threading.Thread(target=note, args=("opened", lambda: other.instances.open(SCOPE, 2)))
        writer.start()
        assert pause.reached.wait(60)
        taker.start()
        try:
            wait_until(lambda: database.blocked() or order, "the newer attempt waits")
            assert order == []
        finally:
            pause.go.set()
            writer.join(60)
            taker.join(60)
        assert sorted(order) == ["opened", "written"]
        with pytest.raises(StaleAttemptError):
            task.set("n", "late")
        assert other.task_store(SCOPE).get("n") == 2


def test_calls_go_on_after_its_connections_and_itself_were_lost(databases: Databases, database: Database) -> None:
    """Sessions that the server ended, and a PgBouncer that was killed and started again, cost no call its outcome."""
    bouncer = PrivateBouncer(database.url)
    try:
        bouncer.start()
        with open_store(bouncer.url_of(database.url)) as store:
            task = store.task_store(SCOPE)
            for number in range(3):
                task.set("n", number)
                assert database.kill_sessions() >= 1
                assert task.get("n") == number
                bouncer.kill()
                bouncer.start()
                assert task.increment("count") == number + 1
                assert asyncio.run(task.aincrement("async")) == number + 1
    finally:
        bouncer.stop()
