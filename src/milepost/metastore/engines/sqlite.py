"""The SQLite engine: a pool of connections, transactions, time, forks.

Each running call has a connection to itself. Idle ones wait in a deque, whose ``pop`` and ``append`` are atomic, so a
call costs no lock.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from milepost.clock import Clock
from milepost.errors import DamagedStoreError, StoreClosedError, StoreUnreachableError
from milepost.metastore.engines import sqlite_schema as schema
from milepost.metastore.operations.base import Batch, Operation
from milepost.metastore.statements import BATCH, Statement, load

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

__all__ = ["STATEMENTS", "SqliteEngine"]

R = TypeVar("R")

STATEMENTS: dict[str, Statement] = load("sqlite", lambda position, _: f"?{position + 1}")

_ASYNC_THREADS = 4
_FORK_SECONDS = 5.0


class SqliteEngine:
    """Connections to one SQLite file, or to one private database in memory.

    Args:
        path: The file; `None` for a database in memory, which all calls share, one at a time.
        clock: The time.
        synchronous: ``full`` or ``normal``.
        upgrade: Create what is missing and bring an older schema up to date; otherwise leave the file as it is.

    Attributes:
        found: The version of the schema when the file was opened; 0 for an empty file.

    Raises:
        StoreError: The file cannot be opened, is no Milepost store, or is too new; without ``upgrade`` also: it is not
            there, or too old.
    """

    def __init__(self, path: Path | None, *, clock: Clock, synchronous: str = "full", upgrade: bool = True) -> None:
        self.path = path
        self.clock = clock
        self.target = ":memory:" if path is None else str(path)
        self._synchronous = synchronous
        self._idle: deque[sqlite3.Connection] = deque()
        self._opened = 0
        self._gate = threading.Condition()
        self._closed: str | None = None
        self._executor: ThreadPoolExecutor | None = None
        self._create = upgrade or path is None
        if path is not None and upgrade:
            schema.prepare_file(path)
        connection = self._open()
        try:
            self.found = (schema.upgrade if self._create else schema.check)(connection, self.target)
        except sqlite3.Error as error:
            connection.close()
            raise schema.opening_error(self.target, error) from error
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        _engines.add(self)

    def now(self) -> int:
        """Return the time in microseconds UTC."""
        return self.clock.now()

    # -- connections --------------------------------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        with self._gate:
            while True:
                if self._closed is not None:
                    raise StoreClosedError(self._closed)
                if self.path is not None or not self._opened:
                    self._opened += 1
                    break
                try:
                    return self._idle.pop()
                except IndexError:
                    self._gate.wait()
        try:
            if self._create:
                return schema.connect(self.target, self._synchronous)
            return schema.look(self.target)
        except BaseException:
            with self._gate:
                self._opened -= 1
            raise

    def take(self) -> sqlite3.Connection:
        """Take a connection for this call alone; `give` it back in a ``finally``."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._open()

    def give(self, connection: sqlite3.Connection) -> None:
        """Put a connection back, or close it where the engine was closed meanwhile."""
        self._idle.append(connection)
        if self._closed is not None:
            self._drain()
        elif self.path is None:
            with self._gate:
                self._gate.notify()

    def _drain(self) -> None:
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:
                return
            connection.close()
            with self._gate:
                self._opened -= 1

    def close(self) -> None:
        """Close idle connections now and the others when their calls end."""
        with self._gate:
            if self._closed is None:
                self._closed = f"the store {self.target} is closed"
            self._gate.notify_all()
        self._drain()
        if self._executor is not None:
            self._executor.shutdown(wait=True)
            self._executor = None

    # -- forks ----------------------------------------------------------------------------------------------------
    # SQLite's locks belong to the process, while a child would inherit the library's belief to hold them. So no
    # connection may be open while a process forks: idle ones are closed and opened again when next needed.

    def before_fork(self) -> None:
        """Close every connection; wait a little for running calls. Opening is barred until the fork is over."""
        self._gate.acquire()
        if self.path is None or self._closed is not None:
            return
        deadline = time.monotonic() + _FORK_SECONDS
        while self._opened and time.monotonic() < deadline:
            self._drain()
            if self._opened:
                time.sleep(0.0005)

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._gate.release()

    def after_fork_in_child(self) -> None:
        """Start with no connections, or refuse to work where that would not be safe."""
        self._gate = threading.Condition()
        self._executor = None
        if self._closed is not None:
            return
        if self.path is None:
            self._closed = "a memory:// store lives in one process; this one is a fork of it: use a sqlite:/// file"
        elif self._opened:
            self._closed = (
                f"the process forked while another thread was inside a call to {self.target}; connect anew in the child"
            )
        if self._closed is not None:
            # Never closed: closing would act on files and locks of the parent.
            _abandoned.extend(self._idle)
            self._idle.clear()

    # -- running ----------------------------------------------------------------------------------------------------

    def run(self, operation: Operation[R], *, write: bool) -> R:
        """Run an operation; one that writes in a transaction that is durable when this returns.

        Raises:
            StoreUnreachableError: The file stays locked or cannot be written.
            DamagedStoreError: SQLite finds the file corrupt.
        """
        connection = self.take()
        try:
            if write:
                connection.execute("BEGIN IMMEDIATE")
            result = self._step(connection, operation)
            if write:
                connection.execute("COMMIT")
            return result
        except sqlite3.Error as error:
            raise self.translate(error) from error
        finally:
            operation.close()
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self.give(connection)

    def _step(self, connection: sqlite3.Connection, operation: Operation[R]) -> R:
        answer: Any = None
        while True:
            try:
                name, parameters = operation.send(answer)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            statement = STATEMENTS[name]
            if type(parameters) is Batch:
                answer = self._batch(connection, statement, parameters)
                continue
            if statement.timed:
                parameters = (*parameters, self.clock.now())
            if statement.answer == "count":
                answer = connection.execute(statement.text, parameters).rowcount
            elif statement.answer == "number":
                answer = connection.execute(statement.text, parameters).lastrowid
            else:
                answer = self._rows(connection, statement.text, parameters)

    def _batch(self, connection: sqlite3.Connection, statement: Statement, batch: Batch) -> int:
        rows = batch.rows
        shared = (*batch.shared, self.clock.now()) if statement.timed else batch.shared
        whole = len(rows) - len(rows) % BATCH
        count = 0
        for start in range(0, whole, BATCH):
            parameters = (*chain.from_iterable(rows[start : start + BATCH]), *shared)
            count += connection.execute(statement.many, parameters).rowcount
        if whole < len(rows):
            count += connection.executemany(statement.text, [(*row, *shared) for row in rows[whole:]]).rowcount
        return count

    def _rows(self, connection: sqlite3.Connection, text: str, parameters: tuple[Any, ...]) -> list[Any]:
        try:
            return connection.execute(text, parameters).fetchall()
        except sqlite3.OperationalError:
            if not text.startswith("SELECT"):
                raise
        # Perhaps someone put bytes that are no text into a row. Ask again, with such cells as bytes; any other
        # trouble comes again too.
        connection.text_factory = _text_or_bytes
        try:
            return connection.execute(text, parameters).fetchall()
        finally:
            connection.text_factory = str

    async def arun(self, work: Callable[[], R]) -> R:
        """Run blocking work in one of the engine's own threads."""
        import asyncio
        from concurrent.futures import ThreadPoolExecutor

        if self._executor is None:
            with self._gate:
                if self._closed is not None:
                    raise StoreClosedError(self._closed)
                if self._executor is None:
                    self._executor = ThreadPoolExecutor(_ASYNC_THREADS, thread_name_prefix="milepost")
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def translate(self, error: sqlite3.Error) -> Exception:
        """Return the project's own error for one of SQLite's."""
        if schema.busy(error):
            return StoreUnreachableError(
                f"the store {self.target} stayed locked for {schema.BUSY_SECONDS:.0f} s; another process holds it"
            )
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (11, 26) or type(error) is sqlite3.DatabaseError:
            return DamagedStoreError(f"the store {self.target} is damaged: {error}")
        return StoreUnreachableError(f"the store {self.target} failed: {error}")


def _text_or_bytes(raw: bytes) -> str | bytes:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


_engines: weakref.WeakSet[SqliteEngine] = weakref.WeakSet()
_abandoned: list[sqlite3.Connection] = []


_forking: list[SqliteEngine] = []


def _before() -> None:
    _forking[:] = _engines
    for engine in _forking:
        engine.before_fork()


def _after(step: Callable[[SqliteEngine], None]) -> Callable[[], None]:
    def run() -> None:
        for engine in _forking:
            step(engine)
        _forking.clear()

    return run


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before,
        after_in_parent=_after(SqliteEngine.after_fork_in_parent),
        after_in_child=_after(SqliteEngine.after_fork_in_child),
    )
