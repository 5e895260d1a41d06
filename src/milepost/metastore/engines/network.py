"""What engines for database servers share: pools, transactions, what to do when a connection or a transaction fails.

The flow of a call is written once, as a generator of actions (take a connection, run a statement, wait, …). A blocking and
an asynchronous runner carry the actions out.
"""

from __future__ import annotations

import functools
import os
import random
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from milepost.clock import Clock, SystemClock
from milepost.errors import (
    OutcomeUnknownError,
    SchemaOutdatedError,
    SchemaTooNewError,
    StoreClosedError,
    StoreUnreachableError,
)
from milepost.metastore.migrations import Migration, migrations
from milepost.metastore.operations.base import Batch, Operation
from milepost.metastore.statements import BATCH, Statement
from milepost.threads import outcome

__all__ = [
    "POOL_SIZE",
    "Action",
    "Drive",
    "NetworkEngine",
    "Run",
    "Session",
    "Sleep",
    "Take",
    "Verdict",
    "abandon",
    "sender",
    "thrower",
]

R = TypeVar("R")

POOL_SIZE = 10
"""Connections at the same time per process and event loop; further calls wait."""

_BATCH_CHARS = 1_000_000
"""Most characters in a step of a statement for many rows, so that large values do not add up beyond what a server takes."""

_CONFLICT_TRIES = 100


class Verdict(Enum):
    """What an error of the driver means."""

    LOST = "the connection is gone"
    SILENT = "the server took the statement and has not answered in time"
    CONFLICT = "another transaction was in the way; this one had no effect and can be run again"
    FAILED = "anything else"


class Take(NamedTuple):
    """Take a connection from the pool, or open one."""


class Run(NamedTuple):
    """Run a statement; the answer is rows, a count or a number."""

    connection: Any
    text: str
    parameters: tuple[Any, ...]
    answer: str


class Session(NamedTuple):
    """What a server knows a connection by.

    Args:
        number: The server's number for it.
        opened: When it was opened, in seconds of the monotonic clock.
        lost: When it was lost.
    """

    number: int
    opened: float
    lost: float


class Sleep(NamedTuple):
    """Wait."""

    seconds: float


Action = Take | Run | Sleep
Drive = Generator[Action, Any, R]


class NetworkEngine(ABC):
    """Runs operations on a database server.

    Args:
        target: How errors name the server; without secrets.
        clock: The time; with the system's clock, the server's counts.

    Attributes:
        found: The version of the schema when `prepare` first looked; 0: none.
    """

    statements: dict[str, Statement]
    dialect: str
    driver_error: type[Exception]
    begin: str = "BEGIN"
    connect_seconds: int = 10
    """How long one attempt to connect, or one step of it, may take."""
    patience_seconds: float = 15.0
    """How long a call goes on trying to reach a server whose connections break."""
    answer_seconds: float = 120.0
    """How long a statement waits for its answer, locks of others included."""
    migrate_seconds: float = 3_600.0
    """The same for a statement of a migration."""
    ending_seconds: float = 5.0
    """How long a session that lost its connection may take to end, once told to."""

    def __init__(self, target: str, clock: Clock) -> None:
        self.target = target
        self.clock = clock
        self.own_time = not isinstance(clock, SystemClock)
        self._idle: deque[Any] = deque()
        self._slots = threading.BoundedSemaphore(POOL_SIZE)
        self._executor: ThreadPoolExecutor | None = None
        self._gate = threading.Lock()
        self.closed = False
        self.found: int | None = None
        _engines.add(self)

    # -- what a dialect brings --------------------------------------------------------------------------------------

    @abstractmethod
    def version(self, connection: Any) -> int:
        """Return the number of the schema; 0 where there is none."""

    @abstractmethod
    def migrate(self, connection: Any, pending: list[Migration]) -> None:
        """Run the migrations that are missing; safe where several processes do so at once."""

    def settled(self, connection: Any) -> int:
        """Return the number of the schema once nobody is in the middle of changing it, where that can be seen."""
        return self.version(connection)

    @abstractmethod
    def open(self) -> Any:
        """Open a blocking connection in autocommit mode."""

    @abstractmethod
    def execute(self, action: Any) -> Any:
        """Carry a `Run` out on a blocking connection."""

    @abstractmethod
    def drop(self, connection: Any) -> None:
        """Close a connection at once, without a word to the server and without waiting."""

    def allow(self, connection: Any, seconds: float) -> None:  # noqa: B027  (for drivers that can)
        """Have statements on a blocking connection wait so long for their answers."""

    @abstractmethod
    def judge(self, error: Exception) -> Verdict:
        """Say what an error of the driver means."""

    def judge_opening(self, error: Exception) -> Verdict:  # noqa: ARG002  (some drivers can tell more)
        """Say what an error of the driver means where it could not open a connection."""
        return Verdict.LOST

    @abstractmethod
    def translate(self, error: Exception) -> Exception:
        """Return the project's own error for one of the driver's."""

    @abstractmethod
    def opened(self, connection: Any) -> tuple[int, float]:
        """Return the number of a connection's session and when it was opened."""

    @abstractmethod
    def end(self, connection: Any, session: Session) -> Drive[bool]:
        """Tell the server to end a session; whether there was one."""

    # -- schema -------------------------------------------------------------------------------------------------------

    def prepare(self, *, upgrade: bool | None = None) -> None:
        """Check the schema, creating it in an empty database.

        Args:
            upgrade: `True`: bring an older one up to date; `None`: only create; `False`: change nothing.

        Raises:
            SchemaTooNewError: A newer release wrote it.
            SchemaOutdatedError: It has to be upgraded first.
            StoreUnreachableError: The server cannot be reached, or it has no store and none is to be made.
        """
        pending = migrations(self.dialect)
        newest = len(pending)
        try:
            connection = self.open()
        except self.driver_error as error:
            raise self.translate(error) from error
        try:
            version = self.version(connection)
            self.found = version if self.found is None else self.found
            if 0 < version < newest:
                self.allow(connection, self.migrate_seconds)
                version = self.settled(connection)
            if version < newest and (upgrade or (upgrade is None and version == 0)):
                self.allow(connection, self.migrate_seconds)
                self.migrate(connection, pending)
                version = self.version(connection)
        except self.driver_error as error:
            raise self.translate(error) from error
        finally:
            connection.close()
        if version > newest:
            raise SchemaTooNewError(
                f"{self.target} has schema {version} and this release knows {newest}; upgrade Milepost to use it"
            )
        if version == 0 < newest:
            raise StoreUnreachableError(f"there is no store in {self.target}; the first run, write or import creates it")
        if version < newest:
            raise SchemaOutdatedError(f"{self.target} has schema {version} and needs {newest}; run: {self.upgrade_command}")

    @property
    def upgrade_command(self) -> str:
        """The command that brings the schema up to date, for people to copy; secrets stay hidden."""
        hint = " (with what *** stands for)" if "***" in self.target else ""
        return f"milepost db upgrade --url '{self.target}'{hint}"

    # -- the flow of a call -------------------------------------------------------------------------------------------

    def drive(  # noqa: PLR0912, PLR0915  (one flow, better seen as a whole)
        self, make: Callable[[], Operation[R]], *, write: bool, repeatable: bool, direct: bool = False
    ) -> Drive[R]:
        """Run an operation in a transaction, again where that is harmless.

        Args:
            make: Makes the operation; once for each try.
            write: Whether to run it in a transaction.
            repeatable: Whether it may run twice, so that a connection lost in mid-commit is no matter.
            direct: Whether it is one statement that writes, and so a transaction of its own.
        """
        deadline: float | None = None  # counted from the first loss: waiting for a lock is no reason to give up sooner
        conflicts = 0
        wait = 0.01
        lost: list[Session] = []
        while True:
            connection: Any = None
            committing = direct
            operation = make()
            try:
                connection = yield Take()
                while lost:
                    yield from self._end(connection, lost[-1])
                    lost.pop()
                if write:
                    yield Run(connection, self.begin, (), "count")
                result = yield from self._steps(connection, operation)
                if write:
                    committing = True
                    yield Run(connection, "COMMIT", (), "count")
            except self.driver_error as error:
                verdict = self.judge_opening(error) if connection is None else self.judge(error)
                if verdict is Verdict.SILENT:
                    # Not again, repeatable or not: what was sent may still arrive, after later writes even.
                    self._lose(connection)
                    raise self._silent(committing) from error
                if verdict is Verdict.LOST:
                    if connection is not None and (write or direct):
                        lost.append(Session(*self.opened(connection), time.monotonic()))
                    self._lose(connection)
                    if committing and not repeatable:
                        raise OutcomeUnknownError(
                            f"the connection to {self.target} was lost while a change was being committed; it may or may "
                            "not have taken effect: read before you repeat it"
                        ) from error
                    deadline = deadline or time.monotonic() + self.patience_seconds
                    if time.monotonic() > deadline:
                        raise self.translate(error) from error
                elif verdict is Verdict.FAILED:
                    self._lose(connection, all_idle=False)  # nobody knows its state
                    raise self.translate(error) from error
                else:
                    yield from self._rollback(connection, write=write)
                    conflicts += 1
                    if conflicts > _CONFLICT_TRIES:
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
            yield Sleep(random.uniform(0, wait))  # noqa: S311  (no secret)
            wait = min(wait * 2, 0.5)

    def _end(self, connection: Any, session: Session) -> Drive[None]:
        """Have the session of a lost connection ended before its work is done again.

        The server may not know of the loss. What was sent could then still take effect, after the second try and over later
        writes, and locks would be held. Where the server does not let us, that risk remains.
        """
        deadline = time.monotonic() + self.ending_seconds
        try:
            while (yield from self.end(connection, session)) and time.monotonic() < deadline:
                yield Sleep(0.01)
        except self.driver_error as error:
            if self.judge(error) is not Verdict.FAILED:
                raise

    def _silent(self, committing: bool) -> StoreUnreachableError:
        said = f"the store {self.target} has not answered for {self.answer_seconds:.0f} s"
        if committing:
            return OutcomeUnknownError(f"{said}; a change may or may not have taken effect: read before you repeat it")
        return StoreUnreachableError(f"{said}; nothing was changed")

    def _rollback(self, connection: Any, *, write: bool) -> Drive[None]:
        if connection is None:
            return
        try:
            if write:
                yield Run(connection, "ROLLBACK", (), "count")
        except (self.driver_error, GeneratorExit) as error:
            self._lose(connection, all_idle=False)
            if isinstance(error, GeneratorExit):
                raise
        else:
            self._give(connection)

    def _steps(self, connection: Any, operation: Operation[R]) -> Drive[R]:
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
                answer = yield Run(connection, statement.text, self._timed(statement, parameters), statement.answer)

    def _timed(self, statement: Statement, parameters: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*parameters, self.clock.now()) if statement.timed and self.own_time else parameters

    def _batch(self, connection: Any, statement: Statement, batch: Batch) -> Drive[int]:
        rows, shared = batch.rows, self._timed(statement, batch.shared)
        count = 0
        for start in range(0, len(rows), BATCH):
            block = rows[start : start + BATCH]
            chars = sum(len(cell) for row in block for cell in row if type(cell) is str)
            if len(block) == BATCH and chars <= _BATCH_CHARS:
                parameters = (*chain.from_iterable(block), *shared)
                count += yield Run(connection, statement.many, parameters, "count")
                continue
            for row in block:
                count += yield Run(connection, statement.text, (*row, *shared), "count")
        return count

    def run(self, make: Callable[[], Operation[R]], *, write: bool, repeatable: bool, direct: bool = False) -> R:
        """Run an operation; what it wrote is durable when this returns.

        Raises:
            StoreUnreachableError: The server does not answer.
            OutcomeUnknownError: The connection was lost in mid-commit and the operation may not run twice.
        """
        drive = self.drive(make, write=write, repeatable=repeatable, direct=direct)
        held: list[Any] = []
        try:
            step: Callable[[], Action] = lambda: next(drive)  # noqa: E731
            while True:
                action = step()
                try:
                    answer = self._do(action, held)
                except self.driver_error as error:
                    step = thrower(drive, error)
                else:
                    step = sender(drive, answer)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        finally:
            drive.close()
            if held:
                self._slots.release()

    def _do(self, action: Action, held: list[Any]) -> Any:
        if type(action) is Run:
            return self.execute(action)
        if type(action) is Sleep:
            return time.sleep(action.seconds)
        if self.closed:
            raise StoreClosedError(f"the store {self.target} is closed")
        if not held:
            self._slots.acquire()
            held.append(True)
        try:
            return self._idle.pop()
        except IndexError:
            return self.open()

    async def arun(self, make: Callable[[], Operation[R]], *, write: bool, repeatable: bool, direct: bool = False) -> R:
        """As `run`, in a thread of the engine's own; when cancelled, end no sooner than the work."""
        closed = f"the store {self.target} is closed"
        with self._gate:
            if self.closed:
                raise StoreClosedError(closed)
            if self._executor is None:
                self._executor = ThreadPoolExecutor(POOL_SIZE, thread_name_prefix="milepost")
            executor = self._executor
        try:
            job = executor.submit(functools.partial(self.run, make, write=write, repeatable=repeatable, direct=direct))
        except RuntimeError:
            raise StoreClosedError(closed) from None  # another thread closed it just now
        return await outcome(job)

    # -- pools --------------------------------------------------------------------------------------------------------

    def _give(self, connection: Any) -> None:
        idle = self.idle_with(connection)
        idle.append(connection)
        if self.closed:
            self.drop_all(idle)

    def _lose(self, connection: Any, *, all_idle: bool = True) -> None:
        """Drop a connection that failed; the idle ones have most likely failed with it."""
        if connection is not None:
            self.drop(connection)
            if all_idle:
                self.drop_all(self.idle_with(connection))

    def idle_with(self, connection: Any) -> deque[Any]:  # noqa: ARG002  (there is a second pool where calls can be asynchronous)
        """Return the pool that a connection belongs to."""
        return self._idle

    def drop_all(self, idle: deque[Any]) -> None:
        """Drop all connections of a pool."""
        while idle:
            try:
                connection = idle.pop()
            except IndexError:
                return
            self.drop(connection)

    def close(self) -> None:
        """Close idle connections now and the others when their calls end."""
        with self._gate:
            self.closed = True
            executor, self._executor = self._executor, None
        self.drop_all(self._idle)
        if executor is not None:
            executor.shutdown(wait=True)

    def after_fork_in_child(self) -> None:
        """Forget the connections of the parent: neither use nor close them."""
        abandon(self._idle)
        self._executor = None
        self._gate = threading.Lock()
        self._slots = threading.BoundedSemaphore(POOL_SIZE)


def abandon(idle: deque[Any]) -> None:
    """Take all connections out of a pool and keep them from ever being used or closed by this process."""
    _abandoned.extend(idle)
    idle.clear()


def sender(drive: Drive[Any], answer: Any) -> Callable[[], Action]:
    """Return the step that goes on with the answer of an action."""
    return lambda: drive.send(answer)


def thrower(drive: Drive[Any], error: Exception) -> Callable[[], Action]:
    """Return the step that goes on with the error of an action."""
    return lambda: drive.throw(error)


_engines: weakref.WeakSet[NetworkEngine] = weakref.WeakSet()
_abandoned: list[Any] = []


def _after_fork_in_child() -> None:
    for engine in list(_engines):
        engine.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
