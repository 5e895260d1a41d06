"""Databases on PostgreSQL and MySQL/MariaDB servers for tests.

Servers are those that MILEPOST_TEST_POSTGRES_URL and MILEPOST_TEST_MYSQL_URL name, or that answer on their usual ports
here, or, for PostgreSQL, a private one from the programs at hand. What cannot be had skips a test, or fails it in CI.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

from tests.support.private import PrivateBouncer, PrivatePostgres

__all__ = [
    "Database",
    "Databases",
    "connect_to",
    "databases",
    "dialect_sql",
    "engine_of",
    "in_use",
    "many_connections",
    "wait_until",
]

_URLS = {
    "postgres": os.environ.get("MILEPOST_TEST_POSTGRES_URL") or "postgresql://postgres@127.0.0.1:5432/postgres",
    "mysql": os.environ.get("MILEPOST_TEST_MYSQL_URL") or "mysql://root@127.0.0.1:3306/mysql",
}
TABLES = (
    "outcomes",
    "expansions",
    "run_clears",
    "grants",
    "intents",
    "event_runs",
    "events",
    "asset_references",
    "asset_aliases",
    "deactivations",
    "staged",
    "entries",
    "changes",
    "results",
    "leases",
    "tokens",
    "replaced_incarnations",
    "instances",
    "assets",
    "runs",
    "owners",
)
"""Those that refer to others first."""


def dialect_sql(dialect: str, text: str) -> str:
    """Return a statement written for SQLite in another dialect: tables are named as there, `key` needs quotes."""
    names = "|".join(TABLES)
    if dialect == "postgres":
        text = re.sub(rf"(?i)\b(FROM|UPDATE|INTO|JOIN) ({names})\b", r"\1 milepost.\2", text)
        text = re.sub(r"CAST\(x'(\w+)' AS TEXT\)", r"convert_from('\\x\1', 'UTF8')", text)
        text = re.sub(r"\bx'(\w+)'", r"'\\x\1'::bytea", text)
    elif dialect == "mysql":
        text = re.sub(rf"(?i)\b(FROM|UPDATE|INTO|JOIN) ({names})\b", r"\1 milepost_\2", text)
        text = re.sub(r"(?<![\w.`])key\b(?!')", "`key`", text)
        text = re.sub(r"CAST\((x'\w+') AS TEXT\)", r"\1", text)
    return text.replace("?", "%s") if dialect != "sqlite" else text


@contextlib.contextmanager
def _turn(name: str) -> Iterator[None]:
    """Wait until no other process of the test run does a thing, and keep them from doing it."""
    with Path(tempfile.gettempdir(), f"milepost-tests-{os.getuid()}-{name}.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield


@pytest.fixture
def many_connections() -> Iterator[None]:
    """One test with many connections at a time: servers take 100."""
    with _turn("connections"):
        yield


class Database:
    """One database on a server, made for tests and dropped after them.

    Args:
        dialect: ``postgres`` or ``mysql``.
        server: The URL of another database there.
    """

    def __init__(self, dialect: str, server: str) -> None:
        self.dialect = dialect
        self.name = f"milepost_test_{secrets.token_hex(6)}"
        self._server = server
        self.url = urlunsplit(urlsplit(server)._replace(path=f"/{self.name}"))
        self._run_there(f"CREATE DATABASE {self.name}")
        self._own: Any = None

    def _run_there(self, text: str) -> None:
        connection = connect_to(self.dialect, self._server)
        try:
            connection.cursor().execute(text)
        finally:
            connection.close()

    def drop(self) -> None:
        """Drop the database, whoever is connected."""
        if self._own is not None:
            self._own.close()
        self._run_there(f"DROP DATABASE IF EXISTS {self.name}{' WITH (FORCE)' if self.dialect == 'postgres' else ''}")

    @property
    def own(self) -> Any:
        """The connection of the tests themselves, in autocommit mode."""
        if self._own is None:
            self._own = connect_to(self.dialect, self.url)
        return self._own

    def execute(self, text: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run a statement in the dialect, parameters written ``%s``; return its rows as text and numbers."""
        with self.own.cursor() as cursor:
            cursor.execute(text, parameters or None)
            return [tuple(map(_plain, row)) for row in cursor.fetchall()] if cursor.description else []

    def sql(self, text: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run a statement that is written for SQLite."""
        return self.execute(dialect_sql(self.dialect, text), *parameters)

    def schema(self) -> None:
        """Create the tables; commits need not wait for the disk where the server lets one database say so."""
        from milepost import connect

        if self.dialect == "postgres":
            self.execute(f"ALTER DATABASE {self.name} SET synchronous_commit = off")
        connect(self.url).close()

    def empty(self) -> None:
        """Delete all rows, in one transaction."""
        texts = ["BEGIN", *(dialect_sql(self.dialect, f"DELETE FROM {table}") for table in TABLES), "COMMIT"]
        for text in ["; ".join(texts)] if self.dialect == "postgres" else texts:
            self.execute(text)

    def dump(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return every row of every table."""
        return {table: sorted(self.sql(f"SELECT * FROM {table}"), key=repr) for table in TABLES}

    def sessions(self) -> list[int]:
        """Return the numbers of the other sessions in this database."""
        if self.dialect == "postgres":
            query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        else:
            query = "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()"
        return [row[0] for row in self.execute(query)]

    def kill_sessions(self) -> int:
        """End the other sessions of this database; return how many there were."""
        victims = self.sessions()
        for number in victims:
            if self.dialect == "postgres":
                self.execute("SELECT pg_terminate_backend(%s)", number)
            else:
                with contextlib.suppress(Exception):  # it may have ended by itself
                    self.execute(f"KILL {number}")
        return len(victims)

    def blocked(self) -> list[int]:
        """Return the numbers of the sessions that wait for a lock of another."""
        if self.dialect == "postgres":
            return [
                row[0]
                for row in self.execute(
                    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
                )
            ]
        # The server makes this table anew only if nobody looked at it for 0.1 s: tests in other processes, too, take turns.
        with _turn("blocked"):
            time.sleep(0.11)
            return [
                row[0]
                for row in self.execute(
                    "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT' "
                    "AND trx_mysql_thread_id IN (SELECT id FROM information_schema.processlist WHERE db = database())"
                )
            ]


def connect_to(dialect: str, url: str) -> Any:
    """Open a plain connection in autocommit mode."""
    if dialect == "postgres":
        import psycopg

        return psycopg.connect(url, autocommit=True, connect_timeout=5)
    import pymysql

    parts = urlsplit(url)
    return pymysql.connect(
        host=parts.hostname,
        port=parts.port or 3306,
        user=parts.username or "root",
        password=parts.password or "",
        database=parts.path.lstrip("/"),
        autocommit=True,
        charset="utf8mb4",
        connect_timeout=5,
    )


def _plain(cell: Any) -> Any:
    if isinstance(cell, memoryview):
        cell = bytes(cell)
    if isinstance(cell, bytes):
        with contextlib.suppress(UnicodeDecodeError):
            return cell.decode()
    return cell


def wait_until(true: Callable[[], Any], what: str, seconds: float = 60.0) -> None:
    """Poll until a condition holds; fail, naming it, when it does not come true in time."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s in vain: {what}"
        time.sleep(0.002)


def engine_of(database: Database, clock: Any = None, url: str | None = None, **options: Any) -> Any:
    """Return an engine for a database whose schema is there."""
    from milepost.clock import SystemClock

    clock = clock or SystemClock()
    if database.dialect == "postgres":
        from milepost.metastore.engines.postgres import PostgresEngine

        return PostgresEngine(url or database.url, clock=clock, **options)
    from milepost.metastore.engines.mysql import MysqlEngine

    return MysqlEngine(url or database.url, clock=clock, **options)


def in_use(engine: Any) -> int:
    """Return how many places of an engine's pools are taken."""
    from milepost.metastore.engines.network import POOL_SIZE

    taken = POOL_SIZE - engine._slots._value
    for pool in list(getattr(engine, "_loops", {}).values()):
        taken += POOL_SIZE - pool.slots._value
    return taken


class Databases:
    """The databases of one process of the test run: one prepared per dialect, and others on demand."""

    def __init__(self, require: Any) -> None:
        self._require = require
        self._private: PrivatePostgres | None = None
        self._bouncer: PrivateBouncer | None = None
        self._prepared: dict[str, Database] = {}
        self._made: list[Database] = []

    @functools.cache  # noqa: B019  (one per test run)
    def _server(self, dialect: str) -> str | None:
        """Return the URL of a server that answers."""
        try:
            connect_to(dialect, _URLS[dialect]).close()
        except Exception:  # noqa: BLE001  (whatever the driver raises, or that there is none: it cannot be used)
            if dialect != "postgres" or PrivatePostgres.programs() is None:
                return None
            self._private = PrivatePostgres()
            self._private.start()
            return self._private.url
        return _URLS[dialect]

    def fresh(self, dialect: str) -> Database:
        """Return a new database without tables, dropped after the test run if not before."""
        server = self._server(dialect)
        self._require(f"a {dialect} server", server is not None)
        assert server is not None
        database = Database(dialect, server)
        self._made.append(database)
        return database

    def get(self, dialect: str) -> Database:
        """Return the database of this process with its tables, emptied."""
        if dialect not in self._prepared:
            database = self.fresh(dialect)
            database.schema()
            self._prepared[dialect] = database
        self._prepared[dialect].empty()
        return self._prepared[dialect]

    def bouncer(self) -> PrivateBouncer:
        """Return a PgBouncer in front of the PostgreSQL server."""
        if self._bouncer is None:
            self._require("pgbouncer", PrivateBouncer.programs() is not None)
            server = self._server("postgres")
            self._require("a postgres server", server is not None)
            assert server is not None
            self._bouncer = PrivateBouncer(server)
            self._bouncer.start()
        return self._bouncer

    def bounced(self) -> Database:
        """Return an emptied database for use by way of PgBouncer, which stays connected to it."""
        self.bouncer()
        if "bouncer" not in self._prepared:
            database = self._prepared["bouncer"] = self.fresh("postgres")
            database.schema()
        self._prepared["bouncer"].empty()
        return self._prepared["bouncer"]

    def close(self) -> None:
        """Drop what was made and stop what was started."""
        if self._bouncer is not None:
            self._bouncer.stop()
        for database in self._made:
            database.drop()
        if self._private is not None:
            self._private.stop()


@pytest.fixture(scope="session")
def databases(require: Any) -> Iterator[Databases]:
    """The databases of this process."""
    made = Databases(require)
    yield made
    made.close()
