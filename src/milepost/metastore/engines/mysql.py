"""The MySQL and MariaDB engine, over PyMySQL. Asynchronous calls run in threads of the engine's own.

The asynchronous drivers of this database were tried and left out: one connection of theirs that outlives its event loop, as
with several ``asyncio.run``, cannot be closed without an error.
"""

from __future__ import annotations

import functools
import re
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

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
from milepost.metastore.engines.network import NetworkEngine, Verdict
from milepost.metastore.migrations import Migration
from milepost.metastore.statements import Statement, load

try:
    import pymysql
except ImportError as error:
    raise MissingDependencyError("MySQL needs a driver: pip install 'milepost[mysql]'") from error

__all__ = ["MysqlEngine"]

# The start of the statement, so that all columns of a row have one time.
_NOW = "CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)"

CONNECT_SECONDS = 10
_MIGRATION_LOCK = "milepost.migrations"
_LOCK_SECONDS = 60

# read committed: fewer gap locks, and each statement sees what was committed before it
_ISOLATION = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
_SESSION = (
    "SET SESSION time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', innodb_lock_wait_timeout = 20"
)

# server has gone away, lost during query, cannot connect, shutting down, killed, connection killed, too many connections
_LOST_CODES = frozenset({0, 1040, 1053, 1927, 2002, 2003, 2006, 2013, 2014, 2055, 4031})
# duplicate, lock wait, deadlock, row is referenced or refers to what is gone, record changed
_CONFLICT_CODES = frozenset({1020, 1062, 1205, 1213, 1451, 1452})


@functools.cache
def _statements(own_time: bool) -> dict[str, Statement]:
    def placeholder(position: int, name: str) -> str:
        return _NOW if name == "now" and not own_time else f"%(p{position})s"

    return load("mysql", placeholder)


def _parse(url: str) -> dict[str, Any]:
    """Return the driver's arguments for a URL.

    Raises:
        ConfigurationError: The URL is malformed, names no database or has an unknown option.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "localhost", parts.port
        user, password = unquote(parts.username or "root", errors="strict"), unquote(parts.password or "", errors="strict")
        database = unquote(parts.path[1:], errors="strict")
        pairs = parse_qs(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query), errors="strict")
    except ValueError:  # its text may have the password
        raise ConfigurationError(f"{mask_url(url)} is not a valid URL; {PERCENT_HINT}") from None
    if unknown := set(pairs) - {"unix_socket", "ssl_ca"}:
        raise ConfigurationError(f"{mask_url(url)}: unknown option {sorted(unknown)[0]!r}; known: unix_socket, ssl_ca")
    if not database:
        raise ConfigurationError(f"{mask_url(url)} names no database; write mysql://user:password@host:3306/database")
    if parts.fragment or "/" in parts.path[1:] or "@" in parts.path or not re.fullmatch(r"[\w.:%-]+", host):
        raise ConfigurationError(f"{mask_url(url)} is not a valid URL; {PERCENT_HINT}")
    options = {name: values[-1] for name, values in pairs.items()}
    arguments: dict[str, Any] = {
        "host": host,
        "port": 3306 if port is None else port,
        "user": user,
        "password": password,
        "unix_socket": options.get("unix_socket"),
        "database": database,
    }
    if "ssl_ca" in options:
        arguments["ssl"] = _ssl_context(url, options["ssl_ca"])
    return arguments


def _ssl_context(url: str, file: str) -> Any:
    import ssl

    try:
        return ssl.create_default_context(cafile=file)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no certificate"
        raise ConfigurationError(f"{mask_url(url)}: ssl_ca {file!r} cannot be used: {reason}") from error


class MysqlEngine(NetworkEngine):
    """Runs operations on MariaDB (10.6 or later) or MySQL (8.0 or later).

    Args:
        url: ``mysql://user:password@host:port/database``, with ``?unix_socket=`` and ``?ssl_ca=``.
        clock: The time; with the system's clock, the server's counts.

    Raises:
        ConfigurationError: The URL is not valid.
    """

    dialect = "mysql"
    driver_error = pymysql.Error

    def __init__(self, url: str, *, clock: Clock) -> None:
        super().__init__(mask_url(url), clock)
        self.statements = _statements(self.own_time)
        self._arguments = _parse(url)

    def _settings(self) -> dict[str, Any]:
        return {
            **self._arguments,
            "autocommit": True,
            "charset": "utf8mb4",
            "connect_timeout": CONNECT_SECONDS,
            "init_command": _ISOLATION,
        }

    def open(self) -> Any:
        """Open a blocking connection."""
        connection = pymysql.connect(**self._settings())
        with connection.cursor() as cursor:
            cursor.execute(_SESSION)
        return connection

    @staticmethod
    def _named(action: Any) -> dict[str, Any]:
        return {f"p{position}": value for position, value in enumerate(action.parameters)}

    def execute(self, action: Any) -> Any:
        """Run a statement."""
        with action.connection.cursor() as cursor:
            cursor.execute(action.text, self._named(action))
            return _answer(action.answer, cursor)

    def drop(self, connection: Any) -> None:
        """Close the socket."""
        connection._force_close()  # close() would say good-bye and may wait for that

    def judge(self, error: Exception) -> Verdict:
        """Say what an error means, by its number."""
        code = error.args[0] if error.args else 0
        if code in _CONFLICT_CODES:
            return Verdict.CONFLICT
        if code in _LOST_CODES and isinstance(error, pymysql.OperationalError | pymysql.InterfaceError):
            return Verdict.LOST
        return Verdict.FAILED

    def translate(self, error: Exception) -> Exception:
        """Return the project's own error for one of the driver's."""
        code = error.args[0] if error.args else 0
        text = " ".join(str(part) for part in error.args[1:]) or str(error)
        if code in (1146, 1054):
            return SchemaOutdatedError(f"{self.target} lacks tables of this release ({text}); run: milepost db upgrade")
        if code in (126, 127, 1034, 1194, 1195):
            return DamagedStoreError(f"the store {self.target} is damaged: {text}")
        if isinstance(error, pymysql.OperationalError | pymysql.InterfaceError):
            return StoreUnreachableError(f"cannot reach the store {self.target}: {text}")
        return StoreError(f"the store {self.target} failed: {text}")

    # -- schema -------------------------------------------------------------------------------------------------------

    def version(self, connection: Any) -> int:
        """Return the number of the schema; 0 where there is none."""
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM information_schema.tables "
                "WHERE table_schema = database() AND table_name = 'milepost_migrations'"
            )
            if not cursor.fetchone()[0]:
                return 0
            cursor.execute("SELECT coalesce(max(version), 0) FROM milepost_migrations")
            return int(cursor.fetchone()[0])

    def migrate(self, connection: Any, pending: list[Migration]) -> None:
        """Bring the schema up to date, statement by statement; processes that do so at once take turns."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT GET_LOCK(%s, %s)", (_MIGRATION_LOCK, _LOCK_SECONDS))
            if cursor.fetchone()[0] != 1:
                raise StoreUnreachableError(f"another process has been upgrading {self.target} for over {_LOCK_SECONDS} s")
            try:
                cursor.execute(
                    "CREATE TABLE IF NOT EXISTS milepost_migrations (version bigint NOT NULL PRIMARY KEY, "
                    "name varchar(100) NOT NULL, applied_at timestamp NOT NULL DEFAULT current_timestamp) ENGINE=InnoDB"
                )
                # Others may have been first while this one waited for the lock.
                for step in pending[self.version(connection) :]:
                    for statement in step.statements:
                        cursor.execute(statement)
                    cursor.execute(
                        "INSERT INTO milepost_migrations (version, name) VALUES (%s, %s)", (step.version, step.name)
                    )
            finally:
                cursor.execute("SELECT RELEASE_LOCK(%s)", (_MIGRATION_LOCK,))


def _answer(kind: str, cursor: Any) -> Any:
    if kind == "rows":
        return [tuple(map(_text, row)) for row in cursor.fetchall()]
    return cursor.rowcount if kind == "count" else cursor.lastrowid


def _text(cell: Any) -> Any:
    """Return the text in a binary column; bytes that are no text, which someone put there, stay bytes."""
    if type(cell) is not bytes:
        return cell
    try:
        return cell.decode()
    except UnicodeDecodeError:
        return cell
