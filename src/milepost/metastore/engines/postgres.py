"""The PostgreSQL engine: psycopg 3, blocking and asynchronous."""

from __future__ import annotations

import functools
import re
import time
from typing import Any

from milepost.clock import Clock
from milepost.config import PERCENT_HINT, mask_url
from milepost.errors import (
    ConfigurationError,
    DamagedStoreError,
    MissingDependencyError,
    SchemaOutdatedError,
    StoreError,
    StoreUnreachableError,
)
from milepost.metastore.engines.flow import Drive, Run, Session, Verdict
from milepost.metastore.engines.network import NetworkEngine
from milepost.metastore.engines.network_async import AsyncNetworkEngine
from milepost.metastore.migrations import Migration
from milepost.metastore.statements import Statements

try:
    import psycopg
    from psycopg import sql
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.types.numeric import Int8Dumper
except ImportError as error:
    raise MissingDependencyError("PostgreSQL needs a driver: pip install 'milepost[postgres]'") from error

__all__ = ["PostgresEngine"]

# The type of each parameter by its name, so that a NULL has one too and a statement is prepared once. Others are text.
_TYPES = dict.fromkeys(
    (
        "active", "after", "after_index", "asset", "at", "attempt", "batch", "before", "blob", "change",
        "clear_on_success", "cleared_attempt", "clears", "created_at", "cutoff", "default_day", "encoding", "event",
        "expires_at", "fence", "finished_at", "fresh", "generation", "id", "instance", "keep", "limit", "logical_date",
        "map_index", "max_tries", "offset", "opened_at", "owner", "pending", "replaced_at", "retention", "run", "running",
        "staged_at", "submission", "ttl", "unfinished_cutoff", "updated_at",
    ),
    "bigint",
) | {"hash": "bytea", "run_hash": "bytea", "asset_hash": "bytea", "alias_hash": "bytea"}  # fmt: skip

# The start of the statement, so that all columns of a row have one time and an index can be used.
_NOW = "CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint)"

_MIGRATION_LOCK = 0x4D6C7053  # an advisory lock's number: "MlpS"

_LOST_STATES = frozenset({"57P01", "57P02", "57P03", "57P05"})  # shut down, crashed, starting up, idle too long
_END = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1::bigint AND usename = current_user "
    "AND backend_start < clock_timestamp() - $2::bigint * interval '1 microsecond'"
)
_CONFLICT_STATES = frozenset({"40001", "40P01", "23505", "23503", "55P03"})
# serialization, deadlock, somebody else inserted or deleted first, lock not available


@functools.cache
def _statements(own_time: bool) -> Statements:
    def placeholder(position: int, name: str) -> str:
        if name == "now" and not own_time:
            return _NOW
        return f"${position + 1}::{'bigint' if name == 'now' else _TYPES.get(name, 'text')}"

    return Statements("postgres", placeholder)


_CHOICES = {
    "sslmode": ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "channel_binding": ("disable", "prefer", "require"),
    "gssencmode": ("disable", "prefer", "require"),
    "target_session_attrs": ("any", "read-write", "read-only", "primary", "standby", "prefer-standby"),
    "load_balance_hosts": ("disable", "random"),
}
_INTEGERS = (
    "connect_timeout",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_count",
    "tcp_user_timeout",
)


def _parse(url: str) -> dict[str, Any]:
    """Return the parameters of a URL, as libpq understands it.

    Raises:
        ConfigurationError: It is not valid, or a parameter has a value that libpq would refuse.
    """
    shown = mask_url(url)
    try:
        found = conninfo_to_dict(url)
    except (psycopg.ProgrammingError, UnicodeDecodeError) as error:
        reason = (
            "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error).partition('"')[0].strip(" :\n")
        )  # what it quotes may be the password
        raise ConfigurationError(f"{shown} is not a valid URL ({reason}); {PERCENT_HINT}") from None
    before_query = url.partition("?")[0].partition("://")[2]
    ports = str(found.get("port") or "").split(",")
    bad_port = any(port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536) for port in ports)
    if bad_port or before_query.count("@") > 1 or "@" in before_query.partition("/")[2]:
        raise ConfigurationError(f"{shown} is not a valid URL ({'port' if bad_port else 'an @ too many'}); {PERCENT_HINT}")
    for name, choices in _CHOICES.items():
        if found.get(name, choices[0]) not in choices:
            raise ConfigurationError(f"{shown}: {name} must be one of {', '.join(choices)}")
    for name in _INTEGERS:
        if not re.fullmatch(r"-?\d{1,9}", str(found.get(name, 0))):
            raise ConfigurationError(f"{shown}: {name} must be a whole number")
    return found


class _SilentError(psycopg.OperationalError):
    """A statement was sent and its answer has not come in time."""


def _limited(waiting: Any, seconds: float) -> Any:
    """Hand a generator of the driver on, which says what it waits for, until it has waited so long in vain."""
    deadline = time.monotonic() + seconds
    try:
        wanted = next(waiting)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > deadline:
                raise _SilentError(f"no answer for {seconds:.0f} s")
            wanted = waiting.send(ready)
    except StopIteration as done:
        return done.value


class _Connection(psycopg.Connection[Any]):
    """A blocking connection whose statements do not wait for ever."""

    seconds = NetworkEngine.answer_seconds
    session = (0, 0.0)

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """Wait for the server."""
        return super().wait(_limited(gen, self.seconds), *args, **options)


class _AsyncConnection(psycopg.AsyncConnection[Any]):
    """The same for asynchronous calls."""

    seconds = NetworkEngine.answer_seconds
    session = (0, 0.0)

    async def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """Wait for the server."""
        return await super().wait(_limited(gen, self.seconds), *args, **options)


class PostgresEngine(AsyncNetworkEngine):
    """Runs operations on PostgreSQL, 13 or later.

    Args:
        url: Any libpq URI.
        clock: The time; with the system's clock, the server's counts.
        prepare: Whether to prepare statements; off where a pooler in between gives out another server connection for
            each transaction (PgBouncer before 1.21).

    Raises:
        ConfigurationError: The URL is not valid.
    """

    dialect = "postgres"
    driver_error = psycopg.Error

    def __init__(self, url: str, *, clock: Clock, prepare: bool = True) -> None:
        super().__init__(mask_url(url), clock)
        self.statements = _statements(self.own_time)
        self._parameters = _parse(url)
        self._prepare = prepare

    def _settings(self) -> dict[str, Any]:
        return {
            "connect_timeout": self.connect_seconds,
            # A server that vanished is noticed within a minute even where nothing is sent.
            "keepalives_idle": 20,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            **self._parameters,
            "autocommit": True,
            "cursor_factory": psycopg.RawCursor,
            "prepare_threshold": 1 if self._prepare else None,
        }

    def open(self) -> psycopg.Connection:
        """Open a blocking connection."""
        connection = _Connection.connect(**self._settings())
        connection.session = (connection.info.backend_pid, time.monotonic())
        self.allow(connection, self.answer_seconds)
        connection.adapters.register_dumper(int, Int8Dumper)
        return connection

    async def aopen(self) -> psycopg.AsyncConnection:
        """Open an asynchronous connection."""
        settings = self._settings() | {"cursor_factory": psycopg.AsyncRawCursor}
        connection = await _AsyncConnection.connect(**settings)
        connection.session = (connection.info.backend_pid, time.monotonic())
        self.allow(connection, self.answer_seconds)
        connection.adapters.register_dumper(int, Int8Dumper)
        return connection

    def execute(self, action: Any) -> Any:
        """Run a statement."""
        cursor = action.connection.execute(action.text, action.parameters)
        if action.answer == "count":
            return cursor.rowcount
        return cursor.fetchall() if action.answer == "rows" else cursor.fetchone()[0]

    async def aexecute(self, connection: Any, action: Run) -> Any:
        """Run a statement without blocking the event loop."""
        cursor = await connection.execute(action.text, action.parameters)
        if action.answer == "count":
            return cursor.rowcount
        return await cursor.fetchall() if action.answer == "rows" else (await cursor.fetchone())[0]

    def allow(self, connection: Any, seconds: float) -> None:
        """Have statements on a connection wait so long for their answers."""
        connection.seconds = seconds

    def opened(self, connection: Any) -> tuple[int, float]:
        """Return the process of a connection's session and when it was opened."""
        return getattr(connection, "raw", connection).session  # type: ignore[no-any-return]

    def end(self, connection: Any, session: Session) -> Drive[bool]:
        """Tell the server to end a session; whether there was one."""
        # One that began after the loss is somebody else's, in a process of the same number.
        ago = int((time.monotonic() - session.lost) * 1_000_000)
        return bool((yield Run(connection, _END, (session.number, ago), "rows")))

    def drop_raw(self, connection: Any) -> None:
        """Close the socket."""
        connection.pgconn.finish()

    def judge(self, error: Exception) -> Verdict:
        """Say what an error means, by its SQLSTATE."""
        if isinstance(error, _SilentError):
            return Verdict.SILENT
        state = getattr(error, "sqlstate", None)
        if state in _CONFLICT_STATES:
            return Verdict.CONFLICT
        # The driver has no SQLSTATE where the connection broke.
        if state in _LOST_STATES or (isinstance(error, psycopg.OperationalError) and (state or "08")[:2] == "08"):
            return Verdict.LOST
        return Verdict.FAILED

    def translate(self, error: Exception) -> Exception:
        """Return the project's own error for one of the driver's."""
        text = " ".join(str(error).split())
        state = getattr(error, "sqlstate", None) or ""
        if state in ("42P01", "42703", "3F000"):
            return SchemaOutdatedError(f"{self.target} lacks tables of this release ({text}); run: {self.upgrade_command}")
        if isinstance(error, psycopg.OperationalError):
            return StoreUnreachableError(f"cannot reach the store {self.target}: {text}")
        if state == "42501":
            return StoreError(
                f"the store {self.target} lacks a right ({text}): the role needs CREATE on the database, "
                "or a schema milepost that it owns"
            )
        if state.startswith("XX"):
            return DamagedStoreError(f"the store {self.target} is damaged: {text}")
        return StoreError(f"the store {self.target} failed: {text}")

    # -- schema -------------------------------------------------------------------------------------------------------

    def version(self, connection: psycopg.Connection) -> int:
        """Return the number of the schema; 0 where there is none."""
        row = connection.execute("SELECT to_regclass('milepost.migrations') IS NOT NULL").fetchone()
        if not row or not row[0]:
            return 0
        row = connection.execute("SELECT coalesce(max(version), 0) FROM milepost.migrations").fetchone()
        return int(row[0]) if row else 0

    def migrate(self, connection: psycopg.Connection, pending: list[Migration]) -> None:
        """Bring the schema up to date, in one transaction; processes that do so at once take turns."""
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock($1)", (_MIGRATION_LOCK,))
            # PostgreSQL asks for the right to make one even where it is there, made by somebody who may.
            row = connection.execute("SELECT to_regnamespace('milepost') IS NOT NULL").fetchone()
            if not row or not row[0]:
                connection.execute("CREATE SCHEMA milepost")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS milepost.migrations "
                "(version bigint PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
            )
            # Others may have been first while this one waited for the lock.
            for step in pending[self.version(connection) :]:
                for statement in step.statements:
                    connection.execute(sql.SQL(statement))
                connection.execute(
                    "INSERT INTO milepost.migrations (version, name) VALUES ($1, $2)", (step.version, step.name)
                )
