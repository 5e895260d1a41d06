"""One store per variant: the kind of database, direct paths or not, blocking or asynchronous calls."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from milepost import ManualClock, Store, TaskScope, Writer
from milepost.abc import Metastore
from milepost.clock import Clock
from milepost.config import load_settings
from milepost.metastore.memory import MemoryMetastore
from milepost.metastore.network import NetworkMetastore
from milepost.metastore.sql import SqliteMetastore
from milepost.remote.client import HttpMetastore
from tests.support.driver import Loops, Twin, drive
from tests.support.servers import Database, Databases, engine_of, in_use, wait_until
from tests.support.services import Service
from tests.support.serving import SECRET, Served

WAYS = [f"{path}-{style}" for path in ("direct", "operations") for style in ("sync", "async")]
EMBEDDED = [f"{kind}-{way}" for kind in ("sqlite", "memory") for way in WAYS]
SERVERS = [f"{kind}-{way}" for kind in ("postgres", "mysql") for way in WAYS]
ALWAYS = ["postgres-direct-sync", "postgres-operations-async", "mysql-direct-sync"]
"""What every test runs on; together they go through all code of the servers except MySQL's threads."""
ALL_WAYS = {"test_fencing", "test_threads"}
"""Modules whose tests run on servers in every way: what can differ there is order and concurrency."""
BOUNCED = ["bouncer-direct-sync", "bouncer-operations-async"]
"""The same by way of PgBouncer, which gives each transaction another connection."""
HTTP = ["http-direct-sync", "http-operations-async"]
"""Behind a server (``milepost serve``) with a SQLite file, the first always; `ALL_WAYS` on PostgreSQL behind one, too."""
HTTP_ON_SERVERS = ["httppostgres-direct-sync", "httppostgres-operations-async"]

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


@pytest.fixture
def service() -> Service:
    """A service that knows each job's token once."""
    return Service()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that has a store on the variants that fit its module."""
    if "variant" in metafunc.fixturenames:
        every = metafunc.module.__name__.rpartition(".")[2] in ALL_WAYS
        ways = [*SERVERS, *BOUNCED, *HTTP, *HTTP_ON_SERVERS] if every else [*ALWAYS, HTTP[0]]
        chosen = getattr(metafunc.module, "VARIANTS", [*EMBEDDED, *ways])
        metafunc.parametrize("variant", chosen, indirect=True)


@pytest.fixture
def variant(request: pytest.FixtureRequest) -> str:
    """The name of the variant under test."""
    return str(request.param)


@pytest.fixture
def database(variant: str, databases: Databases) -> Database | None:
    """The database of a variant on a server, without rows."""
    kind = variant.partition("-")[0].removeprefix("http")
    if kind == "bouncer":
        return databases.bounced()
    return databases.get(kind) if kind in ("postgres", "mysql") else None


@pytest.fixture
def make(
    variant: str,
    clock: ManualClock,
    loops: Loops,
    tmp_path: Path,
    database: Database | None,
    databases: Databases,
    request: pytest.FixtureRequest,
) -> Iterator[Make]:
    """Return a function from settings to a store; two stores of a test share the file or database but never the memory.

    Teardown asserts that every connection is back in its pool, and that `close` leaves none on a server.
    """
    kind, path, style = variant.split("-")
    stores: list[Store] = []
    clients: list[HttpMetastore] = []
    bounced = {"url": databases.bouncer().url_of(database.url), "prepare": False} if kind == "bouncer" and database else {}

    def open_metastore(**options: Any) -> Metastore:
        if database is not None:
            return network_metastore(database, **options, **bounced)
        if kind == "memory":
            return MemoryMetastore(**options)
        # What a sync costs is nothing that another door could change.
        return SqliteMetastore(tmp_path / "store.db", **options, synchronous="normal" if kind == "http" else "full")

    def build(*, writer: Writer | None = None, **settings: Any) -> Any:
        loaded = load_settings({"url": "memory://", **settings}, {})
        metastore = open_metastore(clock=clock, policy=loaded, direct=path == "direct")
        store = Store(metastore, loaded, writer or Writer("python"))
        stores.append(store)
        if kind.startswith("http"):
            server: Served = request.getfixturevalue("served")
            client = HttpMetastore(server.add(store, rest=False), SECRET, clock=clock)
            _BEHIND[client] = metastore
            clients.append(client)
            store = Store(client, loaded, writer or Writer("python"))
        return drive(store, style, loops)

    yield build
    for client in clients:
        client.close()
    for store in stores:
        engine = store.metastore.engine  # type: ignore[attr-defined]
        if database is not None:
            assert in_use(engine) == 0, "a connection was not given back"
            store.close()
            continue
        assert engine._opened == len(engine._idle), "a connection was not given back"
        store.close()
        assert engine._opened == 0
    if database is not None and not bounced:
        wait_until(lambda: not database.sessions(), "the server still has sessions of a closed store")


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


def beside(store: Any) -> Any:
    """Return the same store without the server before it, for what happens while that server waits."""
    metastore = _BEHIND.get(real(store).metastore)
    return store if metastore is None else Store(metastore, store.settings)


def as_writer(store: Any, writer: Writer, **settings: Any) -> Any:
    """Return the same store used by somebody else, perhaps with other settings."""
    other = Store(real(store).metastore, dataclasses.replace(store.settings, **settings), writer)
    return Twin(other, store._loops) if isinstance(store, Twin) else other


def network_metastore(database: Database, *, clock: Clock, policy: Any, direct: bool, **options: Any) -> NetworkMetastore:
    """Return a metastore on a prepared database."""
    engine = engine_of(database, clock, **options)
    engine.prepare()
    _DATABASES[engine] = database
    return NetworkMetastore(engine, policy=policy, direct=direct)


_BEHIND: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def engine_behind(store: Any) -> Any:
    """Return the engine of a store, also of one behind a server."""
    metastore = real(store).metastore
    return _BEHIND.get(metastore, metastore).engine


_DATABASES: weakref.WeakKeyDictionary[Any, Database] = weakref.WeakKeyDictionary()


def sql(store: Any, text: str, *parameters: Any) -> list[Any]:
    """Run a statement of the test's own on the database, as someone who looks at it or damages it would.

    It is written for SQLite. A test is skipped where a server refuses the damage that it does.
    """
    engine = engine_behind(store)
    if engine in _DATABASES:
        database = _DATABASES[engine]
        if "value = x'" in text or (database.dialect == "postgres" and "key = x'" in text):
            pytest.skip("this database's columns have types: they hold no bytes in place of text")
        try:
            return database.sql(text, *parameters)
        except Exception as error:
            if text.startswith(("UPDATE entries SET", "UPDATE instances SET", "UPDATE runs SET")):
                pytest.skip(f"this database lets nobody do such damage: {str(error).splitlines()[0]}")
            raise
    connection = engine.take()
    try:
        return list(connection.execute(text, parameters).fetchall())
    finally:
        engine.give(connection)
