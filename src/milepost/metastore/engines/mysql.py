"""The MySQL and MariaDB engine, over PyMySQL. Asynchronous calls run in threads of the engine's own.

The asynchronous drivers of this database were tried and left out: one connection of theirs that outlives its event loop, as
with several ``asyncio.run``, cannot be closed without an error.
"""

from __future__ import annotations

import functools
import re
import ssl
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
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
    ValueTooLargeError,
)
from milepost.metastore.engines.flow import Drive, Run, Session, Verdict
from milepost.metastore.engines.network import NetworkEngine
from milepost.metastore.migrations import Migration
from milepost.metastore.statements import Statements

try:
    import pymysql
except ImportError as error:
    raise MissingDependencyError("MySQL needs a driver: pip install 'milepost[mysql]'") from error

__all__ = ["MysqlEngine"]

# The start of the statement, so that all columns of a row have one time.
_NOW = "CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)"

_LARGE = 1_000_000
"""Characters from which on a text is sent in base64: escaped it can double, and a server may take 16 MiB a packet."""
_MIGRATION_LOCK = "milepost.migrations"
_LOCK_SECONDS = 60
_SESSIONS = "SELECT 1 FROM information_schema.processlist WHERE id = %(p0)s"

# read committed: fewer gap locks, and each statement sees what was committed before it
_ISOLATION = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
_SESSION = (
    "SET SESSION time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', innodb_lock_wait_timeout = 20"
)

# server has gone away, lost during query, cannot connect, shutting down, killed, connection killed, too many connections
_LOST_CODES = frozenset({0, 1040, 1053, 1927, 2002, 2003, 2006, 2013, 2014, 2055, 4031})
# access denied (to the database, by password or socket), unknown database
_REFUSED_CODES = frozenset({1044, 1045, 1049, 1698})
# duplicate, lock wait, deadlock, row is referenced or refers to what is gone, record changed
_CONFLICT_CODES = frozenset({1020, 1062, 1205, 1213, 1451, 1452})


@functools.cache
def _statements(own_time: bool) -> Statements:
    def placeholder(position: int, name: str) -> str:
        return _NOW if name == "now" and not own_time else f"%(p{position})s"

    return Statements("mysql", placeholder)


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
    try:
        return ssl.create_default_context(cafile=file)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no certificate"
        raise ConfigurationError(f"{mask_url(url)}: ssl_ca {file!r} cannot be used: {reason}") from error


class _Large:
    """A long text as a parameter."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def _large_literal(large: _Large, _: object = None) -> str:
    return f"CONVERT(FROM_BASE64('{b64encode(large.text.encode()).decode()}') USING utf8mb4)"


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
            "connect_timeout": self.connect_seconds,
            "read_timeout": self.connect_seconds,
            "write_timeout": self.connect_seconds,
            "init_command": _ISOLATION,
            "ssl_disabled": "ssl" not in self._arguments,
        }

    def open(self) -> Any:
        """Open a blocking connection."""
        connection: Any = pymysql.Connection(**self._settings(), defer_connect=True)
        if "ssl" not in self._arguments:
            # The driver's default, encrypted where the server can be, would read all of the machine's certificates each
            # time (25 ms) to check none.
            connection.ssl, connection._ssl_required, connection.ctx = True, False, _unchecked()
        connection.connect()
        with connection.cursor() as cursor:
            cursor.execute(_SESSION)
        connection.encoders[_Large] = _large_literal
        connection.opened = time.monotonic()
        self.allow(connection, self.answer_seconds)
        return connection

    def allow(self, connection: Any, seconds: float) -> None:
        """Have statements on a connection wait so long for their answers."""
        # The driver takes one limit for connecting and for statements, and they need different ones.
        connection._read_timeout = connection._write_timeout = seconds

    def execute(self, action: Any) -> Any:
        """Run a statement."""
        arguments: dict[str, Any] = {}
        large = 0
        for position, value in enumerate(action.parameters):
            if type(value) is str and len(value) > _LARGE:
                large = max(large, len(value.encode()))
                value = _Large(value)  # noqa: PLW2901
            arguments[f"p{position}"] = value
        with action.connection.cursor() as cursor:
            if large:
                self._check_packet(cursor, cursor.mogrify(action.text, arguments), large)
            cursor.execute(action.text, arguments)
            return _answer(action.answer, cursor)

    @staticmethod
    def _check_packet(cursor: Any, text: str, size: int) -> None:
        """Make sure that the server takes a statement; otherwise it would just hang up.

        Raises:
            ValueTooLargeError: It does not; the message names the server's option.
        """
        cursor.execute("SELECT @@max_allowed_packet")
        packet = int(cursor.fetchone()[0])
        if len(text.encode()) >= packet:
            raise ValueTooLargeError(
                size,
                packet * 3 // 4,
                f"three quarters of the server's max_allowed_packet, {packet:,} bytes",
                "raise max_allowed_packet in the server's configuration",
            )

    def opened(self, connection: Any) -> tuple[int, float]:
        """Return the thread of a connection's session and when it was opened."""
        return connection.thread_id(), connection.opened

    def end(self, connection: Any, session: Session) -> Drive[bool]:
        """Tell the server to end a session; whether there was one."""
        ((_, uptime),) = yield Run(connection, "SHOW GLOBAL STATUS LIKE 'Uptime'", (), "rows")
        if int(uptime) < time.monotonic() - session.opened + 2:
            return False  # it was started since, and counts its sessions anew
        if not (yield Run(connection, _SESSIONS, (session.number,), "rows")):
            return False
        try:
            yield Run(connection, "KILL CONNECTION %(p0)s", (session.number,), "count")
        except pymysql.Error as error:
            if error.args[0] != 1094:  # there is none: it has just ended by itself
                raise
        return True

    def drop(self, connection: Any) -> None:
        """Close the socket."""
        connection._force_close()  # close() would say good-bye and may wait for that

    def judge(self, error: Exception) -> Verdict:
        """Say what an error means, by its number."""
        code = error.args[0] if error.args else 0
        if code in _CONFLICT_CODES:
            return Verdict.CONFLICT
        if isinstance(error.__context__, TimeoutError):
            return Verdict.SILENT
        if code in _LOST_CODES and isinstance(error, pymysql.OperationalError | pymysql.InterfaceError):
            return Verdict.LOST
        return Verdict.FAILED

    def judge_opening(self, error: Exception) -> Verdict:
        """Say what an error means, by its number: the server is there and refuses, or may come back."""
        return Verdict.FAILED if error.args and error.args[0] in _REFUSED_CODES else Verdict.LOST

    def translate(self, error: Exception) -> Exception:
        """Return the project's own error for one of the driver's."""
        code = error.args[0] if error.args else 0
        text = " ".join(" ".join(str(part) for part in error.args[1:]).split() or str(error).split())
        if code in (1146, 1054):
            return SchemaOutdatedError(f"{self.target} lacks tables of this release ({text}); run: {self.upgrade_command}")
        if code in (126, 127, 1034, 1194, 1195):
            return DamagedStoreError(f"the store {self.target} is damaged: {text}")
        # Without a number it comes from the driver, which could not make sense of what the server said.
        if isinstance(error, pymysql.OperationalError | pymysql.InterfaceError) or type(code) is not int:
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

    def settled(self, connection: Any) -> int:
        """Return the number of the schema once no other process is migrating: here each statement commits by itself."""
        with self._migrating(connection):
            return self.version(connection)

    def migrate(self, connection: Any, pending: list[Migration]) -> None:
        """Bring the schema up to date, statement by statement; processes that do so at once take turns."""
        with self._migrating(connection), connection.cursor() as cursor:
            cursor.execute(
                "CREATE TABLE IF NOT EXISTS milepost_migrations (version bigint NOT NULL PRIMARY KEY, "
                "name varchar(100) NOT NULL, applied_at timestamp NOT NULL DEFAULT current_timestamp) ENGINE=InnoDB"
            )
            # Others may have been first while this one waited for the lock.
            for step in pending[self.version(connection) :]:
                for statement in step.statements:
                    cursor.execute(statement)
                cursor.execute("INSERT INTO milepost_migrations (version, name) VALUES (%s, %s)", (step.version, step.name))

    @contextmanager
    def _migrating(self, connection: Any) -> Iterator[None]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT GET_LOCK(%s, %s)", (_MIGRATION_LOCK, _LOCK_SECONDS))
            if cursor.fetchone()[0] != 1:
                raise StoreUnreachableError(f"another process has been upgrading {self.target} for over {_LOCK_SECONDS} s")
            try:
                yield
            finally:
                cursor.execute("SELECT RELEASE_LOCK(%s)", (_MIGRATION_LOCK,))


@functools.cache
def _unchecked() -> ssl.SSLContext:
    """Return what encrypts connections to servers for which the URL names no certificate to check them by."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


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
