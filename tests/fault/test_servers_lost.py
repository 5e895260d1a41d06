"""Connections to PostgreSQL and MySQL/MariaDB that are lost: between calls, in mid-transaction, in mid-commit, for good."""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from milepost import OutcomeUnknownError, StoreUnreachableError, TaskScope, connect
from tests.fault.helpers import Child
from tests.fault.server_helpers import DIALECTS, Pause, Proxy
from tests.support.private import PrivateMysql, PrivatePostgres, free_port
from tests.support.servers import Database, Databases, in_use, wait_until

SCOPE = TaskScope("d", "r", "t", -1)


@pytest.fixture(params=DIALECTS)
def database(request: pytest.FixtureRequest, databases: Databases) -> Iterator[Database]:
    """An empty database on each kind of server; after the test nothing of ours is connected to it."""
    database = databases.get(request.param)
    yield database
    wait_until(lambda: not database.sessions(), "sessions of closed stores")


@pytest.fixture
def proxy(database: Database) -> Iterator[Proxy]:
    """A proxy in front of the database."""
    proxy = Proxy(database)
    yield proxy
    proxy.close()


def test_calls_go_on_after_connections_were_killed(database: Database) -> None:
    """Sessions that the server ended between calls are replaced; no call fails."""
    with connect(database.url) as store:
        task = store.task_store(SCOPE)
        for number in range(5):
            task.set("n", number)
            assert database.kill_sessions() >= 1
            assert task.get("n") == number
            database.kill_sessions()
            assert task.increment("count") == number + 1

        async def several() -> None:
            for number in range(5):
                await task.aset("a", number)
                database.kill_sessions()
                assert await task.aget("a") == number

        asyncio.run(several())
        assert in_use(store.metastore.engine) == 0


def test_a_transaction_whose_session_is_killed_runs_again(database: Database) -> None:
    """A session that is ended in mid-transaction costs nothing: the call runs again, as a whole, once."""
    with connect(database.url) as store:
        task = store.task_store(SCOPE)
        task.set("n", 1)
        answers: list[Any] = []
        inner = Pause(store.metastore.engine, lambda text: text.startswith("SELECT value"))
        writer = threading.Thread(target=lambda: answers.append(task.increment("n")))
        writer.start()
        assert inner.reached.wait(60)
        database.kill_sessions()
        inner.go.set()
        writer.join(60)
        assert answers == [2]
        assert task.get("n") == 2


def cut_commit(store: Any, proxy: Proxy, *, warm: bool = True) -> None:
    """Let the next COMMIT of a store reach the server and its answer get lost.

    A COMMIT that the driver has prepared is one message and one answer, so there is a little work first.
    """
    for _ in range(3 if warm else 0):
        store.task_store(TaskScope("d", "warm", "t")).increment("n")

    def arm(text: str) -> bool:
        if text == "COMMIT":
            proxy.cut_after = b""
        return text == "COMMIT"

    Pause(store.metastore.engine, arm).go.set()


UNSURE: dict[str, Callable[[Any], Any]] = {
    "restore": lambda store: store.instances.restore(SCOPE, force=True),
    "clear": lambda store: store.instances.clear(SCOPE),
    "delete_run": lambda store: store.instances.delete_run("d", "r"),
}


@pytest.mark.parametrize("name", UNSURE)
def test_a_loss_in_mid_commit_is_told(database: Database, proxy: Proxy, name: str) -> None:
    """Where the answer to COMMIT is lost, a call that may not run twice raises `OutcomeUnknownError`."""
    with connect(proxy.url) as store:
        task = store.task_store(SCOPE)
        task.set("n", 1)
        store.instances.clear(SCOPE)
        task.set("n", 2)
        cut_commit(store, proxy)
        with pytest.raises(OutcomeUnknownError, match="may or may not"):
            UNSURE[name](store)
        assert proxy.cuts == 1
        assert store.task_store(SCOPE).get("n") == {"restore": 1}.get(name)


def test_a_loss_in_mid_commit_is_no_matter_where_the_version_proves_the_outcome(database: Database, proxy: Proxy) -> None:
    """compare_and_set and increment find their own version and return; calls that may run twice run again."""
    with connect(proxy.url) as store:
        task = store.task_store(SCOPE)
        task.set("n", 1)
        for number in range(2, 6):
            cut_commit(store, proxy)
            assert task.increment("n") == number
        cut_commit(store, proxy)
        version = task.compare_and_set("n", "new", version=task.entry("n").version)
        assert task.entry("n").version == version
        cut_commit(store, proxy)
        task.set_many({"a": 1, "b": 2})

        async def twin() -> Any:
            for _ in range(3):
                await task.aincrement("warm")
            cut_commit(store, proxy, warm=False)
            return await task.aincrement("async")

        assert asyncio.run(twin()) == 1
        assert (task.get("n"), task.get("a"), task.get("async")) == ("new", 1, 1)
        assert proxy.cuts == 7


def test_a_loss_in_mid_commit_is_told_where_somebody_wrote_since(database: Database, proxy: Proxy) -> None:
    """Another version in the row proves nothing, nor does a fence that rose: the outcome is unknown, not stale."""
    with connect(proxy.url) as store, connect(database.url) as other:
        task = store.task_store(SCOPE)
        task.set("n", 1)
        cut_commit(store, proxy)
        proxy.on_cut = lambda: other.task_store(SCOPE).set("n", 10)
        with pytest.raises(OutcomeUnknownError):
            task.increment("n")
        attempt = store.instances.open(SCOPE, 1)["task_store"]

        def supersede() -> None:
            other.instances.open(SCOPE, 2)["task_store"].delete("n")

        cut_commit(store, proxy)
        proxy.on_cut = supersede
        with pytest.raises(OutcomeUnknownError):
            attempt.increment("n")


@pytest.mark.parametrize("way", ["blocking", "asynchronous"])
def test_a_write_that_arrives_late_changes_nothing(database: Database, proxy: Proxy, way: str) -> None:
    """The session whose connection was lost is ended before its write is sent again, so that no late copy follows later."""
    with connect(proxy.url) as store:
        task = store.task_store(SCOPE)

        async def several() -> None:
            await task.aset("n", "first")
            before = database.sessions()
            proxy.withhold = b"late"
            await task.aset("n", "late")
            assert not set(before) & set(database.sessions())
            await task.aset("n", "newer")

        if way == "blocking":
            task.set("n", "first")
            before = database.sessions()
            proxy.withhold = b"late"
            task.set("n", "late")
            assert not set(before) & set(database.sessions())
            task.set("n", "newer")
        else:
            asyncio.run(several())
        assert proxy.withhold is None
        proxy.deliver()
        assert task.get("n") == "newer"


def _unreachable(dialect: str) -> str:
    return f"{'postgresql' if dialect == 'postgres' else 'mysql'}://someone:s3cret@127.0.0.1:{free_port()}/nothing"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_unreachable_server_is_named_at_once(dialect: str) -> None:
    """`connect` to a port where nobody listens says so within a second or two, without the password."""
    began = time.monotonic()
    with pytest.raises(StoreUnreachableError, match="cannot reach") as caught:
        connect(_unreachable(dialect))
    assert time.monotonic() - began < 5
    assert "s3cret" not in str(caught.value)


def test_what_the_server_refuses_is_told_without_secrets(database: Database) -> None:
    """An unknown database or user is an error of the store that names the server and hides the password."""
    base = database.url.rpartition("/")[0]
    scheme, _, rest = base.partition("://")
    host = rest.rpartition("@")[2]
    for url in (f"{scheme}://nobody_here:s3cret@{host}/{database.name}", f"{base}/no_such_database"):
        with pytest.raises(StoreUnreachableError) as caught:
            connect(url)
        assert "s3cret" not in str(caught.value)


def test_a_fork_leaves_the_parents_connections_alone(database: Database) -> None:
    """A forked child opens connections of its own, also in asynchronous calls, and its end closes none of the parent's."""
    with connect(database.url) as store:
        task = store.task_store(SCOPE)
        loop = asyncio.new_event_loop()
        task.set("parent", 0)
        loop.run_until_complete(task.aset("parent", 1))
        before = set(database.sessions())
        pid = os.fork()
        if not pid:
            code = 1
            try:
                task.set("child", 1)
                asyncio.run(task.aset("async child", 1))
                store.close()
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert before <= set(database.sessions())
        loop.run_until_complete(task.aset("parent", 2))
        assert dict(task.items()) == {"parent": 2, "child": 1, "async child": 1}
        loop.run_until_complete(store.aclose())
        loop.close()


def test_many_event_loops_leave_nothing_behind(database: Database) -> None:
    """Connections of an event loop that ended, as after asyncio.run, are closed without the store being closed."""
    with connect(database.url) as store:
        task = store.task_store(SCOPE)
        for number in range(12):
            asyncio.run(task.aset("n", number))
        assert len(database.sessions()) <= 3


def test_a_cancelled_call_leaves_pool_and_database_clean(database: Database) -> None:
    """Calls that are cancelled while they wait for a lock hold no connection and no lock afterwards, and write nothing."""
    with connect(database.url) as store, connect(database.url) as other:
        store.instances.open(SCOPE, 1)["task_store"].set("n", 1)
        pause = Pause(other.metastore.engine, lambda text: text == "COMMIT")
        holder = threading.Thread(target=lambda: other.instances.open(SCOPE, 2))
        holder.start()
        assert pause.reached.wait(60)

        async def scenario() -> None:
            task = store.task_store(SCOPE)
            calls = [asyncio.create_task(task.aset(f"k{number}", 1)) for number in range(14)]
            await asyncio.to_thread(wait_until, database.blocked, "calls wait")
            for call in calls:
                call.cancel()
            pause.go.set()
            answers = await asyncio.gather(*calls, return_exceptions=True)
            assert all(isinstance(answer, asyncio.CancelledError) for answer in answers)
            await task.aset("after", 1)

        asyncio.run(scenario())
        holder.join(60)
        assert store.task_store(SCOPE).get("after") == 1
        assert in_use(store.metastore.engine) == 0


def test_s14_a_client_is_killed_right_after_set(database: Database, start: Callable[..., Child]) -> None:
    """S-14: after SIGKILL at any moment, another process reads the last acknowledged value, or at most the next one."""
    rng = random.Random(14)
    for round_ in range(5):
        child = start("server_clients", database.url, "count", f"p{round_}", 200)
        said = [int(child.line()) for _ in range(rng.randint(1, 60))]
        said += [int(line) for line in child.kill()]
        wait_until(lambda: not database.sessions(), "the server has noticed")  # what it was told last may come until then
        with connect(database.url) as store:
            assert store.task_store(SCOPE).get("n") - said[-1] in (0, 1)


@pytest.mark.parametrize("kind", [PrivatePostgres, PrivateMysql])
def test_writers_live_through_restarts_of_the_server(kind: Any, require: Any, start: Callable[..., Child]) -> None:
    """Whatever was acknowledged is there after the server was killed and started again under load; writers go on."""
    require(kind.__name__.removeprefix("Private"), kind.programs() is not None)
    server = kind()
    try:
        server.start()
        connect(server.url).close()
        group = [start("server_clients", server.url, "ledger", f"p{number}", 0) for number in range(3)]
        acknowledged: list[str] = []
        for child in group:
            child.expect("ready")
        for _ in range(3):
            for child in group:
                acknowledged += [child.line() for _ in range(5)]
            server.kill()
            server.start()
        for child in group:
            acknowledged += [child.line() for _ in range(5)]
            child.say("stop")
        for child in group:
            acknowledged += child.finish()
        with connect(server.url) as store:
            assert set(acknowledged) - set(store.task_store(SCOPE).keys()) == set()
    finally:
        server.stop()
