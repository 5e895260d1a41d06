"""Pools of connections to database servers: threads, closing, cancellation."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from milepost import StaleAttemptError, Store, StoreClosedError, TaskScope, aconnect, connect
from tests.fault.server_helpers import DIALECTS, together
from tests.support.servers import Database, Databases, dialect_sql, in_use, wait_until

pytestmark = pytest.mark.usefixtures("many_connections")

SCOPE = TaskScope("d", "r", "t")


@pytest.fixture(params=DIALECTS)
def database(request: pytest.FixtureRequest, databases: Databases) -> Database:
    """A prepared database on each kind of server."""
    return databases.get(request.param)


class RowLock:
    """Holds the lock on the row of `SCOPE` from another connection, so that a writer stops inside its statement.

    Args:
        database: Where.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def __enter__(self) -> RowLock:
        self._database.execute("BEGIN")
        self._database.execute(dialect_sql(self._database.dialect, "UPDATE instances SET map_index = map_index"))
        return self

    def release(self) -> None:
        """Let the writer go on."""
        self._database.execute("ROLLBACK")

    def __exit__(self, *_: object) -> None:
        self.release()


def engine(store: Store) -> Any:
    """Return the engine of a store."""
    return store.metastore.engine  # type: ignore[attr-defined]


async def blocked(database: Database) -> None:
    """Wait, without blocking the loop, until a session waits for a lock."""
    await asyncio.to_thread(wait_until, database.blocked, "a session waits for a lock")


async def test_aclose_leaves_the_loop_free(database: Database) -> None:
    """While `aclose` waits for a call in another thread, the event loop goes on with other work."""
    store = await aconnect(database.url)
    await (await store.atask_store(SCOPE)).aset("k", 1)
    task = await store.atask_store(SCOPE, attempt=1)
    with RowLock(database):
        writing = asyncio.create_task(task.aincrement("k"))
        await blocked(database)
        closing = asyncio.create_task(store.aclose())
        await asyncio.to_thread(wait_until, lambda: engine(store).closed, "the store is being closed")
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert not writing.done()
    assert await writing == 2
    await closing
    await asyncio.to_thread(wait_until, lambda: not database.sessions(), "the sessions are gone")


def test_fifty_threads_share_ten_connections(database: Database) -> None:
    """Fifty threads at once all get their turn; no more than ten connections are open, and all are given back."""
    with connect(database.url) as store:
        store.task_store(SCOPE).set("n", 0)
        most = [0]

        def work(number: int) -> None:
            task = store.task_store(SCOPE)
            for _ in range(3):
                task.increment("n")
                task.set(f"k{number}", number)
                most[0] = max(most[0], in_use(engine(store)))
            assert task.get(f"k{number}") == number

        together(50, work)
        assert store.task_store(SCOPE).get("n") == 150
        assert most[0] <= 10
        assert in_use(engine(store)) == 0
        assert len(engine(store)._idle) <= 10
    wait_until(lambda: not database.sessions(), "the sessions are gone")


async def test_a_hundred_tasks_share_ten_connections(database: Database) -> None:
    """A hundred tasks of one loop all get their turn and give their connections back."""
    async with await aconnect(database.url) as store:
        task = await store.atask_store(SCOPE)
        await task.aset("n", 0)
        await asyncio.gather(*(task.aincrement("n") for _ in range(100)))
        assert await task.aget("n") == 100
        assert in_use(engine(store)) == 0
        assert len(await asyncio.to_thread(database.sessions)) <= 20
    await asyncio.to_thread(wait_until, lambda: not database.sessions(), "the sessions are gone")


@pytest.mark.parametrize("call", ["aincrement", "aset", "aget_many"])
async def test_cancelled_calls_leave_no_connection_behind(database: Database, call: str) -> None:
    """A call cancelled inside a statement takes no effect after a later one, and leaks or poisons no connection."""
    async with await aconnect(database.url) as store:
        task = await store.atask_store(SCOPE, attempt=1)
        await task.aset("k", 1)
        arguments = {"aincrement": ("k",), "aset": ("k", 7), "aget_many": (["k"],)}[call]
        for _ in range(3):
            with RowLock(database):
                calls = [asyncio.create_task(getattr(task, call)(*arguments)) for _ in range(15)]
                if call != "aget_many":
                    await blocked(database)
                for one in calls:
                    one.cancel()
                ending = asyncio.gather(*calls, return_exceptions=True)
                await asyncio.sleep(0)
            for end in await ending:
                assert isinstance(end, asyncio.CancelledError | dict)
            await task.aset("k", 100)
            assert await task.aget("k") == 100
        assert in_use(engine(store)) == 0
        await asyncio.gather(*(task.aset(f"k{number}", number) for number in range(30)))
        assert await task.alen() == 31
        assert in_use(engine(store)) == 0


def test_errors_give_connections_back(database: Database) -> None:
    """Calls that end with an error of any kind leave every connection in its pool, and the pool works on."""
    from milepost import StaleAttemptError, UnsupportedTypeError, VersionConflictError

    with connect(database.url) as store:
        stale = store.task_store(SCOPE, attempt=1)
        task = store.task_store(SCOPE, attempt=2)
        task.set("text", "x")
        bad = {
            StaleAttemptError: lambda: stale.set("k", 1),
            VersionConflictError: lambda: task.compare_and_set("text", 1, version="no"),
            UnsupportedTypeError: lambda: task.increment("text"),
            ZeroDivisionError: lambda: task.update("text", lambda _: 1 / 0),
            KeyError: lambda: task.touch("absent", retention=None),
        }
        for error, work in bad.items():
            for _ in range(12):
                with pytest.raises(error):
                    work()
            assert in_use(engine(store)) == 0
        assert task.items() == [("text", "x")]


def test_a_closed_store_says_so_in_every_thread(database: Database) -> None:
    """Closing while threads work: each ends with its result or `StoreClosedError`, and no session stays."""
    store = connect(database.url)
    store.task_store(SCOPE).set("n", 0)
    working = threading.Event()

    def work(number: int) -> None:
        if number == 0:
            working.wait(30)
            store.close()
            return
        task = store.task_store(SCOPE)

        def until_closed() -> None:
            for _ in range(2_000):
                task.increment("n")
                working.set()

        with pytest.raises(StoreClosedError):
            until_closed()

    together(6, work)
    assert in_use(engine(store)) == 0
    wait_until(lambda: not database.sessions(), "the sessions are gone")


async def test_writes_of_one_attempt_go_together(database: Database) -> None:
    """Writes that arrive during another one take one connection; each is stored when it returns, each read gets its own."""
    async with await aconnect(database.url) as store:
        task = await store.atask_store(SCOPE, attempt=1)
        await task.aset("k3", "old")
        with RowLock(database):
            tasks = [asyncio.create_task(task.aset("k0", 0))]
            await blocked(database)
            tasks += [asyncio.create_task(task.aset(f"k{number % 5}", number)) for number in range(1, 30)]
            tasks.append(asyncio.create_task(task.aset_many({"é\U0001f600/": {"a": ['"\\\0']}, "k9": 2**70})))
            await asyncio.sleep(0)
            assert in_use(engine(store)) == 1
        await asyncio.gather(*tasks)
        expected = {f"k{number % 5}": number for number in range(25, 30)} | {"é\U0001f600/": {"a": ['"\\\0']}, "k9": 2**70}
        assert dict(await task.aitems()) == expected
        found = await asyncio.gather(*(task.aget(key, "absent") for key in [*expected, *expected, "absent"]))
        assert found == [*expected.values(), *expected.values(), "absent"]


async def test_writes_that_go_together_are_stale_together(database: Database) -> None:
    """Where another attempt takes over meanwhile, each write that waited raises and none is stored; reads raise, too."""
    async with await aconnect(database.url) as store:
        task = await store.atask_store(SCOPE, attempt=1)
        with RowLock(database):
            tasks = [asyncio.create_task(task.aset("k0", 0))]
            await blocked(database)
            tasks += [asyncio.create_task(task.aset(f"k{number}", number)) for number in range(5)]
            database.execute(dialect_sql(database.dialect, "UPDATE instances SET fence = fence + 1"))
            database.execute("COMMIT")
        tasks += [asyncio.create_task(task.aget(f"k{number}")) for number in range(5)]
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(one) for one in found] == [StaleAttemptError] * 11
        assert await (await store.atask_store(SCOPE)).aitems() == []
