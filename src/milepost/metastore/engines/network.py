"""What engines for database servers share: pools, transactions, what to do when a connection or a transaction fails.

The flow of a call is written once, as a generator of actions (take a connection, run a statement, wait, …). A blocking and
an asynchronous runner carry the actions out.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator
from enum import Enum
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from milepost.clock import Clock, SystemClock
from milepost.errors import OutcomeUnknownError, StoreClosedError
from milepost.metastore.operations.base import Batch, Operation
from milepost.metastore.statements import BATCH, Statement

__all__ = ["NetworkEngine", "Verdict"]

R = TypeVar("R")

POOL_SIZE = 10
"""Connections at the same time per process and event loop; further calls wait."""

PATIENCE_SECONDS = 15.0
"""How long a call goes on trying to reach a server that does not answer."""

_CONFLICT_TRIES = 100


class Verdict(Enum):
    """What an error of the driver means."""

    LOST = "the connection is gone"
    CONFLICT = "another transaction was in the way; this one had no effect and can be run again"
    FAILED = "anything else"


class _Take(NamedTuple):
    """Take a connection from the pool, or open one."""


class _Run(NamedTuple):
    """Run a statement; the answer is rows, a count or a number."""

    connection: Any
    text: str
    parameters: tuple[Any, ...]
    answer: str


class _Sleep(NamedTuple):
    """Wait."""

    seconds: float


_Action = _Take | _Run | _Sleep
_Drive = Generator[_Action, Any, R]


class NetworkEngine(ABC):
    """Runs operations on a database server.

    Args:
        target: How errors name the server; without secrets.
        clock: The time; with the system's clock, the server's counts.
    """

    statements: dict[str, Statement]
    driver_error: type[Exception]
    begin: str = "BEGIN"

    def __init__(self, target: str, clock: Clock) -> None:
        self.target = target
        self.clock = clock
        self.own_time = not isinstance(clock, SystemClock)
        self._idle: deque[Any] = deque()
        self._slots = threading.BoundedSemaphore(POOL_SIZE)
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopPool] = weakref.WeakKeyDictionary()
        self._closed = False
        _engines.add(self)

    # -- what a dialect brings --------------------------------------------------------------------------------------

    @abstractmethod
    def prepare(self, *, upgrade: bool | None = None) -> None:
        """Check the schema; create it in an empty database (`None`), upgrade it (`True`) or change nothing (`False`)."""

    @abstractmethod
    def open(self) -> Any:
        """Open a blocking connection in autocommit mode."""

    @abstractmethod
    async def aopen(self) -> Any:
        """Open an asynchronous connection in autocommit mode."""

    @abstractmethod
    def execute(self, action: Any) -> Any:
        """Carry a `_Run` out on a blocking connection."""

    @abstractmethod
    async def aexecute(self, action: Any) -> Any:
        """Carry a `_Run` out on an asynchronous connection."""

    @abstractmethod
    def drop(self, connection: Any) -> None:
        """Close a connection of either kind at once, without a word to the server and without waiting."""

    @abstractmethod
    def judge(self, error: Exception) -> Verdict:
        """Say what an error of the driver means."""

    @abstractmethod
    def translate(self, error: Exception) -> Exception:
        """Return the project's own error for one of the driver's."""

    # -- the flow of a call -------------------------------------------------------------------------------------------

    def _drive(  # noqa: PLR0912  (one flow, better seen as a whole)
        self, make: Callable[[], Operation[R]], *, write: bool, repeatable: bool
    ) -> _Drive[R]:
        """Run an operation in a transaction, again where that is harmless.

        Args:
            make: Makes the operation; once for each try.
            write: Whether to run it in a transaction.
            repeatable: Whether it may run twice, so that a connection lost in mid-commit is no matter.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        conflicts = 0
        wait = 0.01
        while True:
            connection: Any = None
            committing = False
            operation = make()
            try:
                connection = yield _Take()
                if write:
                    yield _Run(connection, self.begin, (), "count")
                result = yield from self._steps(connection, operation)
                if write:
                    committing = True
                    yield _Run(connection, "COMMIT", (), "count")
            except self.driver_error as error:
                verdict = Verdict.LOST if connection is None else self.judge(error)
                if verdict is Verdict.LOST:
                    self._lose(connection)
                    if committing and not repeatable:
                        raise OutcomeUnknownError(
                            f"the connection to {self.target} was lost while a change was being committed; it may or may "
                            "not have taken effect: read before you repeat it"
                        ) from error
                    if time.monotonic() > deadline:
                        raise self.translate(error) from error
                else:
                    yield from self._rollback(connection, write=write)
                    conflicts += 1
                    if verdict is Verdict.FAILED or conflicts > _CONFLICT_TRIES:
                        raise self.translate(error) from error
            except GeneratorExit:  # interrupted or cancelled while waiting: the connection is in an unknown state
                self._lose(connection, all_idle=False)
                raise
            except BaseException:
                yield from self._rollback(connection, write=write)
                raise
            else:
                self._give(connection)
                return result
            finally:
                operation.close()
            yield _Sleep(random.uniform(0, wait))  # noqa: S311  (no secret)
            wait = min(wait * 2, 0.5)

    def _rollback(self, connection: Any, *, write: bool) -> _Drive[None]:
        if connection is None:
            return
        try:
            if write:
                yield _Run(connection, "ROLLBACK", (), "count")
        except self.driver_error:
            self._lose(connection, all_idle=False)
        else:
            self._give(connection)

    def _steps(self, connection: Any, operation: Operation[R]) -> _Drive[R]:
        answer: Any = None
        while True:
            try:
                name, parameters = operation.send(answer)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            statement = self.statements[name]
            if type(parameters) is Batch:
                answer = yield from self._batch(connection, statement, parameters)
            else:
                answer = yield _Run(connection, statement.text, self._timed(statement, parameters), statement.answer)

    def _timed(self, statement: Statement, parameters: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*parameters, self.clock.now()) if statement.timed and self.own_time else parameters

    def _batch(self, connection: Any, statement: Statement, batch: Batch) -> _Drive[int]:
        rows, shared = batch.rows, self._timed(statement, batch.shared)
        whole = len(rows) - len(rows) % BATCH
        count = 0
        for start in range(0, whole, BATCH):
            parameters = (*chain.from_iterable(rows[start : start + BATCH]), *shared)
            count += yield _Run(connection, statement.many, parameters, "count")
        for row in rows[whole:]:
            count += yield _Run(connection, statement.text, (*row, *shared), "count")
        return count

    def run(self, make: Callable[[], Operation[R]], *, write: bool, repeatable: bool) -> R:
        """Run an operation; what it wrote is durable when this returns.

        Raises:
            StoreUnreachableError: The server does not answer.
            OutcomeUnknownError: The connection was lost in mid-commit and the operation may not run twice.
        """
        drive = self._drive(make, write=write, repeatable=repeatable)
        held: list[Any] = []
        try:
            step: Callable[[], _Action] = lambda: next(drive)  # noqa: E731
            while True:
                action = step()
                try:
                    answer = self._do(action, held)
                except self.driver_error as error:
                    step = _thrower(drive, error)
                else:
                    step = _sender(drive, answer)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        finally:
            drive.close()
            if held:
                self._slots.release()

    def _do(self, action: _Action, held: list[Any]) -> Any:
        if type(action) is _Run:
            return self.execute(action)
        if type(action) is _Sleep:
            return time.sleep(action.seconds)
        if self._closed:
            raise StoreClosedError(f"the store {self.target} is closed")
        if not held:
            self._slots.acquire()
            held.append(True)
        try:
            return self._idle.pop()
        except IndexError:
            return self.open()

    async def arun(self, make: Callable[[], Operation[R]], *, write: bool, repeatable: bool) -> R:
        """As `run`, without blocking the event loop."""
        drive = self._drive(make, write=write, repeatable=repeatable)
        pool = self._pool()
        async with pool.slots:
            try:
                step: Callable[[], _Action] = lambda: next(drive)  # noqa: E731
                while True:
                    action = step()
                    try:
                        answer = await self._ado(action, pool)
                    except self.driver_error as error:
                        step = _thrower(drive, error)
                    else:
                        step = _sender(drive, answer)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            finally:
                drive.close()

    async def _ado(self, action: _Action, pool: _LoopPool) -> Any:
        if type(action) is _Run:
            return await self.aexecute(action)
        if type(action) is _Sleep:
            return await asyncio.sleep(action.seconds)
        if self._closed:
            raise StoreClosedError(f"the store {self.target} is closed")
        try:
            return pool.idle.pop()
        except IndexError:
            return _Tied(await self.aopen(), pool)

    # -- pools --------------------------------------------------------------------------------------------------------

    def _pool(self) -> _LoopPool:
        loop = asyncio.get_running_loop()
        pool = self._loops.get(loop)
        if pool is None:
            pool = self._loops[loop] = _LoopPool()
            # Where a loop ends without the store being closed in it, as with several asyncio.run().
            weakref.finalize(loop, self._drop_idle, pool.idle)
        return pool

    def _give(self, connection: Any) -> None:
        idle = connection.pool.idle if type(connection) is _Tied else self._idle
        idle.append(connection)
        if self._closed:
            self._drop_idle(idle)

    def _lose(self, connection: Any, *, all_idle: bool = True) -> None:
        """Drop a connection that failed; the idle ones have most likely failed with it."""
        if connection is None:
            return
        tied = type(connection) is _Tied
        self.drop(connection.raw if tied else connection)
        if all_idle:
            self._drop_idle(connection.pool.idle if tied else self._idle)

    def _drop_idle(self, idle: deque[Any]) -> None:
        while idle:
            try:
                connection = idle.pop()
            except IndexError:
                return
            self.drop(connection.raw if type(connection) is _Tied else connection)

    def close(self) -> None:
        """Close idle connections now and the others when their calls end."""
        self._closed = True
        self._drop_idle(self._idle)
        for pool in list(self._loops.values()):
            self._drop_idle(pool.idle)

    def after_fork_in_child(self) -> None:
        """Forget the connections of the parent: neither use nor close them."""
        _abandoned.extend(self._idle)
        for pool in self._loops.values():
            _abandoned.extend(pool.idle)
        self._idle = deque()
        self._loops = weakref.WeakKeyDictionary()
        self._slots = threading.BoundedSemaphore(POOL_SIZE)


class _LoopPool:
    """The connections of one event loop."""

    def __init__(self) -> None:
        self.idle: deque[Any] = deque()
        self.slots = asyncio.Semaphore(POOL_SIZE)


class _Tied(NamedTuple):
    """An asynchronous connection with the pool that it belongs to."""

    raw: Any
    pool: _LoopPool


def _sender(drive: _Drive[Any], answer: Any) -> Callable[[], _Action]:
    return lambda: drive.send(answer)


def _thrower(drive: _Drive[Any], error: Exception) -> Callable[[], _Action]:
    return lambda: drive.throw(error)


_engines: weakref.WeakSet[NetworkEngine] = weakref.WeakSet()
_abandoned: list[Any] = []


def _after_fork_in_child() -> None:
    for engine in list(_engines):
        engine.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
