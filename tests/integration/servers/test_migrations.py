"""Schemas of PostgreSQL and MySQL/MariaDB: many first starts, upgrades, newer and older ones, agreement with SQLite."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

from milepost import (
    ManualClock,
    SchemaOutdatedError,
    SchemaTooNewError,
    StoreError,
    StoreUnreachableError,
    TaskScope,
    connect,
)
from milepost.cli import main
from milepost.config import mask_url
from milepost.metastore.engines import sqlite_schema
from milepost.metastore.engines.mysql import MysqlEngine
from milepost.metastore.migrations import Migration, migrations
from milepost.metastore.statements import Statements
from tests.fault.helpers import children
from tests.fault.server_helpers import DIALECTS
from tests.support.servers import TABLES, Database, Databases, wait_until

SCOPE = TaskScope("d", "r", "t", -1)


@pytest.fixture(params=DIALECTS)
def fresh(request: pytest.FixtureRequest, databases: Databases) -> Iterator[Database]:
    """A database without tables on each kind of server."""
    return databases.fresh(request.param)


def _versions(database: Database) -> list[Any]:
    table = "milepost.migrations" if database.dialect == "postgres" else "milepost_migrations"
    return [row[0] for row in database.execute(f"SELECT version FROM {table} ORDER BY version")]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_processes_that_start_together_make_one_schema(dialect: str, databases: Databases) -> None:
    """Four processes that connect at once to an empty database, ten times over, all succeed and keep their writes."""
    with children() as start:
        rounds = [databases.fresh(dialect) for _ in range(10)]
        group = [start("server_clients", rounds[0].url, "first", f"p{number}", 0) for number in range(4)]
        for child in group:
            child.expect("ready")
        for database in rounds:
            for child in group:
                child.say(database.url)
            for child in group:
                child.expect("done")
            with connect(database.url) as store:
                assert store.task_store(SCOPE).keys() == ["p0", "p1", "p2", "p3"]
            assert _versions(database) == [step.version for step in migrations(dialect)]
        for child in group:
            child.finish()


def test_a_role_needs_no_right_beyond_a_schema_of_its_own(databases: Databases) -> None:
    """PostgreSQL: without it, the error names the right that is missing; where somebody has made the schema, all works."""
    fresh = databases.fresh("postgres")
    role = f"{fresh.name}_role"
    fresh.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'a-password'")
    try:
        parts = urlsplit(fresh.url)
        place = parts.netloc.rpartition("@")[2]
        url = urlunsplit(parts._replace(netloc=f"{role}:a-password@{place}"))
        with pytest.raises(StoreError, match=r"the role needs CREATE on the database, or a schema milepost that it owns"):
            connect(url)
        fresh.execute(f"CREATE SCHEMA milepost AUTHORIZATION {role}")
        with connect(url) as store:
            store.task_store(SCOPE).set("k", 1)
        assert _versions(fresh) == [step.version for step in migrations("postgres")]
    finally:
        fresh.execute(f"DROP OWNED BY {role}")
        fresh.execute(f"DROP ROLE {role}")


@pytest.mark.parametrize("options", [{}, {"upgrade": False}], ids=["creating", "reading"])
def test_the_middle_of_another_processs_migration_is_waited_out(databases: Databases, options: dict[str, Any]) -> None:
    """MySQL shows each migration as it is done: who connects in between waits for the last one, and then has a store."""
    fresh, steps = databases.fresh("mysql"), migrations("mysql")
    engine = MysqlEngine(fresh.url, clock=ManualClock())
    assert fresh.execute("SELECT GET_LOCK('milepost.migrations', 60)") == [(1,)]  # one for all databases of the server
    engine.migrate(fresh.own, steps[:1])
    opened: list[list[str]] = []

    def open_it() -> None:
        with connect(fresh.url, **options) as store:
            opened.append(store.task_store(SCOPE).keys())

    other = threading.Thread(target=open_it)
    other.start()
    query = "SELECT 1 FROM information_schema.processlist WHERE info LIKE %s AND db = database() AND id <> connection_id()"
    wait_until(lambda: opened or fresh.execute(query, "SELECT GET_LOCK%"), "nobody waits for the migration")
    engine.migrate(fresh.own, steps)
    fresh.execute("SELECT RELEASE_LOCK('milepost.migrations')")
    other.join(60)
    assert opened == [[]]
    assert _versions(fresh) == [step.version for step in steps]


def test_a_newer_schema_is_refused(fresh: Database) -> None:
    """A database that a newer release wrote is refused and left as it is."""
    connect(fresh.url).close()
    table = "milepost.migrations" if fresh.dialect == "postgres" else "milepost_migrations"
    fresh.execute(f"INSERT INTO {table} (version, name) VALUES (99, 'later')")
    for options in ({}, {"upgrade": False}, {"migrate": True}):
        with pytest.raises(SchemaTooNewError, match="upgrade Milepost"):
            connect(fresh.url, **options)
    assert _versions(fresh)[-1] == 99


def test_nothing_is_created_where_that_was_not_asked_for(fresh: Database) -> None:
    """`connect(upgrade=False)` on an empty database says that there is no store, and what makes one; it creates nothing."""
    with pytest.raises(StoreUnreachableError, match=r"there is no store in .*; the first run, write or import creates it"):
        connect(fresh.url, upgrade=False)
    schema = "milepost" if fresh.dialect == "postgres" else fresh.name
    assert fresh.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = %s", schema) == []


def test_an_older_schema_is_upgraded_on_request_only(
    fresh: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`connect` refuses an older schema and names `milepost db upgrade`, which upgrades it and keeps the data."""
    with connect(fresh.url, clock=ManualClock()) as store:
        store.task_store(SCOPE).set("k", {"kept": 2**70})
    table = "milepost.leases" if fresh.dialect == "postgres" else "milepost_leases"
    later = Migration(len(migrations(fresh.dialect)) + 1, "later", f"ALTER TABLE {table} ADD COLUMN note bigint;\n")
    steps = [*migrations(fresh.dialect), later]
    monkeypatch.setattr("milepost.metastore.engines.network.migrations", lambda _: steps)
    for options in ({}, {"upgrade": False}):
        with pytest.raises(SchemaOutdatedError, match="milepost db upgrade --url ") as refused:
            connect(fresh.url, **options)
        assert mask_url(fresh.url) in str(refused.value)
    assert _versions(fresh) == [step.version for step in steps[:-1]]
    with pytest.raises(SystemExit) as ended:
        main(["db", "upgrade", "--url", fresh.url])
    assert ended.value.code in (0, None)
    assert f"upgraded from schema {later.version - 1} to {later.version}" in capsys.readouterr().out
    assert _versions(fresh) == [step.version for step in steps]
    with connect(fresh.url) as store:
        assert store.task_store(SCOPE).get("k") == {"kept": 2**70}
        store.verify()


def test_all_dialects_have_the_same_tables_and_columns(fresh: Database) -> None:
    """Every table has the same columns in the same order as on SQLite."""
    connect(fresh.url).close()
    lite = sqlite3.connect(":memory:", isolation_level=None)
    sqlite_schema.upgrade(lite, "memory", len(migrations("sqlite")))
    prefix, schema = ("", "milepost") if fresh.dialect == "postgres" else ("milepost_", fresh.name)
    for table in TABLES:
        expected = [row[1] for row in lite.execute(f"PRAGMA table_info({table})")]
        found = fresh.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s "
            "ORDER BY ordinal_position",
            schema,
            f"{prefix}{table}",
        )
        assert [row[0] for row in found] == expected
    lite.close()


def test_all_dialects_have_the_same_statements() -> None:
    """Every statement is there in each dialect, with the same parameters, the same answer and the same part to repeat."""
    placeholder: Callable[[int, str], str] = lambda position, _: f"?{position}"  # noqa: E731
    shapes = {
        dialect: {
            name: (one.parameters, one.answer, bool(one.many)) for name, one in Statements(dialect, placeholder).items()
        }
        for dialect in ("sqlite", *DIALECTS)
    }
    del shapes["sqlite"]["collect_entry"]  # SQLite alone collects row by row, by primary key
    assert shapes["postgres"] == shapes["sqlite"]
    assert shapes["mysql"] == shapes["sqlite"]


def test_all_dialects_have_the_same_migrations() -> None:
    """Numbers and names of the migrations agree."""
    names = {dialect: [(step.version, step.name) for step in migrations(dialect)] for dialect in ("sqlite", *DIALECTS)}
    assert names["postgres"] == names["mysql"] == names["sqlite"]
