"""The SQLite engine: a pool of connections, transactions, time, forks.

Each running call has a connection to itself. Idle ones wait in a deque, whose ``pop`` and ``append`` are atomic, so a
call costs no lock.
"""

from __future__ import annotations

import functools
import os
import sqlite3
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from milepost.clock import Clock
from milepost.errors import DamagedStoreError, StoreClosedError, StoreUnreachableError
from milepost.metastore.engines import sqlite_schema as schema
from milepost.metastore.operations.base import Batch, Operation
from milepost.metastore.statements import BATCH, Statement, Statements

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

__all__ = ["STATEMENTS", "SqliteEngine"]

R = TypeVar("R")
Arrange = Callable[[tuple[Any, ...]], tuple[Any, ...]]

# Plain placeholders: Python 3.12.0 to 3.12.3 take numbered ones for named ones and warn.
STATEMENTS = Statements("sqlite", lambda *_: "?")


def _arrange(used: tuple[int, ...]) -> Arrange | None:
    """Return what puts parameters into the order in which a statement uses them; `None` if that is how they come."""
    if used == tuple(range(len(used))):
        return None
    return itemgetter(*used) if len(used) > 1 else lambda parameters: (parameters[used[0]],)


@functools.cache
def _prepared(name: str) -> tuple[Statement, Arrange | None, Arrange | None]:
    """Return a statement, and what arranges its parameters: those for one row, those for many."""
    statement = STATEMENTS[name]
    return statement, _arrange(statement.used), _arrange(statement.many_used)


_ASYNC_THREADS = 4
_FORK_SECONDS = 5.0


class _Turn:
    """A call that waits for the one connection of a database in memory."""

    __slots__ = ("connection", "ready")

    def __init__(self) -> None:
        self.connection: sqlite3.Connection | None = None
        self.ready = threading.Event()


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
        self._live: weakref.WeakSet[sqlite3.Connection] = weakref.WeakSet()
        self._gate = threading.RLock()
        self._waiting: deque[_Turn] = deque()
        self._forking = False
        self._closed: str | None = None
        self._executor: ThreadPoolExecutor | None = None
        self._create = upgrade or path is None
        with _lock:
            if path is not None and upgrade:
                schema.prepare_file(path)
            if _identity(path) in _unsafe:
                raise StoreClosedError(_forked(self.target))
            _engines.add(self)
        connection = self._open()
        try:
            self.found = (schema.upgrade if self._create else schema.check)(connection, self.target)
        except sqlite3.Error as error:
            connection.close()
            self._live.discard(connection)
            raise schema.opening_error(self.target, error) from error
        except BaseException:
            connection.close()
            self._live.discard(connection)
            raise
        self._idle.append(connection)

    def now(self) -> int:
        """Return the time in microseconds UTC."""
        return self.clock.now()

    # -- connections --------------------------------------------------------------------------------------------

    @property
    def _opened(self) -> int:
        # A weak set rather than a counter: an interrupt (Ctrl-C) can strike between any two instructions and lose a
        # connection, which then closes by itself and must not be waited for.
        return len(self._live)

    def _open(self) -> sqlite3.Connection:
        with self._gate:
            if self._closed is not None:
                raise StoreClosedError(self._closed)
            if self.path is not None or not hasattr(self, "found"):
                connection = schema.connect(self.target, self._synchronous) if self._create else schema.look(self.target)
                self._live.add(connection)
                return connection
            try:
                return self._idle.pop()
            except IndexError:
                turn = _Turn()
                self._waiting.append(turn)
        return self._await_turn(turn)

    def _await_turn(self, turn: _Turn) -> sqlite3.Connection:
        """Wait until `give` hands the connection on; calls get it in the order in which they came."""
        try:
            while self._live and not turn.ready.wait(0.1):
                pass
        except BaseException:
            self._leave(turn)
            if turn.connection is not None:
                self.give(turn.connection)
            raise
        if turn.connection is not None:
            return turn.connection
        self._leave(turn)
        raise StoreClosedError(self._closed or "an interrupted call lost the database in memory")

    def _leave(self, turn: _Turn) -> None:
        with self._gate:
            if turn in self._waiting:
                self._waiting.remove(turn)

    def take(self) -> sqlite3.Connection:
        """Take a connection for this call alone; `give` it back in a ``finally``."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._open()

    def give(self, connection: sqlite3.Connection) -> None:
        """Put a connection back, or close it where the engine was closed or a fork is about to come."""
        if self._forking:  # a thread that calls in a loop would take it again at once, and the fork would wait
            connection.close()
            self._live.discard(connection)  # not before it is closed: the fork waits for this
            return
        if self.path is None:
            # Not by way of the idle ones where others wait: a call in a loop would always take it first.
            with self._gate:
                if self._waiting and self._closed is None:
                    turn = self._waiting.popleft()
                    turn.connection = connection
                    turn.ready.set()
                    return
                self._idle.append(connection)
        else:
            self._idle.append(connection)
        if self._closed is not None:
            self._drain()

    def _drain(self) -> None:
        # Takes no lock: the thread that forks holds the gate and waits for all connections to be closed.
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:
                return
            connection.close()
            self._live.discard(connection)

    def close(self) -> None:
        """Close idle connections now and the others when their calls end."""
        with self._gate:
            if self._closed is None:
                self._closed = f"the store {self.target} is closed"
            while self._waiting:
                self._waiting.popleft().ready.set()
        self._drain()
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=True)

    # -- forks ----------------------------------------------------------------------------------------------------
    # SQLite's locks belong to the process, while a child would inherit the library's belief to hold them. So no
    # connection may be open while a process forks: idle ones are closed and opened again when next needed.

    def before_fork(self) -> None:
        """Close every connection; wait a little for running calls. Opening is barred until the fork is over."""
        self._gate.acquire()
        if self.path is None:
            return
        self._forking = True
        deadline = time.monotonic() + _FORK_SECONDS
        while True:
            self._drain()
            if not self._live or time.monotonic() > deadline:
                return
            time.sleep(0.0005)

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._forking = False
        self._gate.release()

    def after_fork_in_child(self) -> None:
        """Start with no connections, or refuse to work where that would not be safe."""
        self._gate = threading.RLock()
        self._waiting.clear()
        self._forking = False
        self._executor = None
        if self.path is None:
            refusal = "a memory:// store lives in one process; this one is a fork of it: use a sqlite:/// file"
        elif self._live or _identity(self.path) in _unsafe:
            refusal = _forked(self.target)
        else:
            return
        self._closed = self._closed or refusal
        # Never closed: closing would act on files and locks of the parent.
        _abandoned.extend(self._live)
        self._idle.clear()

    # -- running ----------------------------------------------------------------------------------------------------

    def run(self, make: Callable[[], Operation[R]], *, write: bool, repeatable: bool = True) -> R:  # noqa: ARG002
        """Run an operation; one that writes in a transaction that is durable when this returns.

        Args:
            make: Makes the operation.
            write: Whether to run it in a transaction.
            repeatable: Of no matter here: nothing comes between a commit and its answer.

        Raises:
            StoreUnreachableError: The file stays locked or cannot be written.
            DamagedStoreError: SQLite finds the file corrupt.
        """
        operation = make()
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
            self._settle(connection)

    def _settle(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            # Closing rolls back too. The error that led here is the one to report.
            connection.close()
            self._live.discard(connection)
        else:
            self.give(connection)

    def _step(self, connection: sqlite3.Connection, operation: Operation[R]) -> R:
        answer: Any = None
        while True:
            try:
                name, parameters = operation.send(answer)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            statement, arrange, arrange_many = _prepared(name)
            if type(parameters) is Batch:
                answer = self._batch(connection, statement, parameters, arrange or tuple, arrange_many or tuple)
                continue
            if statement.timed:
                parameters = (*parameters, self.clock.now())
            if arrange is not None:
                parameters = arrange(parameters)
            if statement.each is not None:
                rows = self._rows(connection, statement.text, parameters)
                each, arrange, _ = _prepared(statement.each)
                answer = connection.executemany(each.text, map(arrange or tuple, rows)).rowcount if rows else 0
            elif statement.answer == "count":
                answer = connection.execute(statement.text, parameters).rowcount
            elif statement.answer == "number":
                answer = connection.execute(statement.text, parameters).lastrowid
            else:
                answer = self._rows(connection, statement.text, parameters)

    def _batch(
        self, connection: sqlite3.Connection, statement: Statement, batch: Batch, arrange: Arrange, arrange_many: Arrange
    ) -> int:
        rows = batch.rows
        shared = (*batch.shared, self.clock.now()) if statement.timed else batch.shared
        whole = len(rows) - len(rows) % BATCH
        count = 0
        for start in range(0, whole, BATCH):
            parameters = (*chain.from_iterable(rows[start : start + BATCH]), *shared)
            count += connection.execute(statement.many, arrange_many(parameters)).rowcount
        if whole < len(rows):
            count += connection.executemany(statement.text, [arrange((*row, *shared)) for row in rows[whole:]]).rowcount
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
        """Run blocking work in one of the engine's own threads; when cancelled, end no sooner than the work."""
        from concurrent.futures import ThreadPoolExecutor

        from milepost.threads import outcome

        executor = self._executor
        if executor is None:
            with self._gate:
                if self._closed is not None:
                    raise StoreClosedError(self._closed)
                if self._executor is None:
                    self._executor = ThreadPoolExecutor(_ASYNC_THREADS, thread_name_prefix="milepost")
                executor = self._executor
        try:
            job = executor.submit(work)
        except RuntimeError:
            if self._closed is None:
                raise
            raise StoreClosedError(self._closed) from None  # another thread closed it just now
        return await outcome(job)

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


def _identity(path: Path | None) -> tuple[int, int] | None:
    """Return what SQLite knows a file by, or `None` if it is not there."""
    if path is None:
        return None
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _forked(target: str) -> str:
    return (
        f"this process was forked while another thread was inside a call to {target}, so it cannot use that file safely; "
        "start a new process (spawn) instead"
    )


_lock = threading.RLock()
"""Held while a file is made, an engine comes to be known, and a process forks: one at a time."""

_engines: weakref.WeakSet[SqliteEngine] = weakref.WeakSet()
_forking: list[SqliteEngine] = []
_fork_began = False
_abandoned: list[sqlite3.Connection] = []
_unsafe: set[tuple[int, int] | None] = set()
"""Files on which SQLite believes to hold locks that this process, being a fork, does not hold."""


def _before() -> None:
    global _fork_began  # noqa: PLW0603
    _lock.acquire()
    _fork_began = True
    _forking[:] = _engines
    for engine in _forking:
        engine.before_fork()


def _after_in_parent() -> None:
    global _fork_began  # noqa: PLW0603
    if not _fork_began:  # this module was loaded while others prepared the very same fork
        return
    _fork_began = False
    for engine in _forking:
        engine.after_fork_in_parent()
    _forking.clear()
    _lock.release()


def _after_in_child() -> None:
    global _lock, _fork_began  # noqa: PLW0603
    _lock = threading.RLock()
    _fork_began = False
    _unsafe.update(_identity(engine.path) for engine in _forking if engine.path is not None and engine._opened)
    _unsafe.discard(None)
    for engine in _forking:
        engine.after_fork_in_child()
    _forking.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
