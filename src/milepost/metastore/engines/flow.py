"""The flow of a call on a database server: transactions, and what to do when a connection or a transaction fails.

It is written once, as a generator of actions (take a connection, run a statement, wait, …). A blocking and an asynchronous
runner carry the actions out.
"""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from enum import Enum
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from milepost.clock import Clock, SystemClock
from milepost.errors import OutcomeUnknownError, StoreUnreachableError
from milepost.metastore.operations.base import Batch, Operation
from milepost.metastore.statements import BATCH, Statement
from milepost.tries import note

__all__ = ["Action", "Drive", "Flow", "Run", "Session", "Sleep", "Take", "Verdict", "sender", "thrower"]

R = TypeVar("R")

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


class Flow(ABC):
    """Drives operations through the connections of an engine.

    Args:
        target: How errors name the server; without secrets.
        clock: The time; with the system's clock, the server's counts.
    """

    statements: Mapping[str, Statement]
    driver_error: type[Exception]
    begin: str = "BEGIN"
    patience_seconds: float = 15.0
    """How long a call goes on trying to reach a server whose connections break."""
    answer_seconds: float = 120.0
    """How long a statement waits for its answer, locks of others included."""
    ending_seconds: float = 5.0
    """How long a session that lost its connection may take to end, once told to."""

    def __init__(self, target: str, clock: Clock) -> None:
        self.target = target
        self.clock = clock
        self.own_time = not isinstance(clock, SystemClock)

    # -- what an engine brings ------------------------------------------------------------------------------------------

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

    @abstractmethod
    def give(self, connection: Any) -> None:
        """Take a connection back that works."""

    @abstractmethod
    def lose(self, connection: Any, *, all_idle: bool = True) -> None:
        """Drop a connection that failed; the idle ones have most likely failed with it."""

    # -- the flow ---------------------------------------------------------------------------------------------------------

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
                    self.lose(connection)
                    raise self._silent(committing) from error
                if verdict is Verdict.LOST:
                    if connection is not None and (write or direct):
                        lost.append(Session(*self.opened(connection), time.monotonic()))
                    self.lose(connection)
                    if committing and not repeatable:
                        raise OutcomeUnknownError(
                            f"the connection to {self.target} was lost while a change was being committed; it may or may "
                            "not have taken effect: read before you repeat it"
                        ) from error
                    deadline = deadline or time.monotonic() + self.patience_seconds
                    if time.monotonic() > deadline:
                        raise self.translate(error) from error
                    note(self.translate(error))
                elif verdict is Verdict.FAILED:
                    self.lose(connection, all_idle=False)  # nobody knows its state
                    raise self.translate(error) from error
                else:
                    yield from self._rollback(connection, write=write)
                    conflicts += 1
                    if conflicts > _CONFLICT_TRIES:
                        raise self.translate(error) from error
            except GeneratorExit:  # interrupted or cancelled while waiting: the connection is in an unknown state
                self.lose(connection, all_idle=False)
                raise
            except BaseException:
                yield from self._rollback(connection, write=write)
                raise
            else:
                self.give(connection)
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
            self.lose(connection, all_idle=False)
            if isinstance(error, GeneratorExit):
                raise
        else:
            self.give(connection)

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


def sender(drive: Drive[Any], answer: Any) -> Callable[[], Action]:
    """Return the step that goes on with the answer of an action."""
    return lambda: drive.send(answer)


def thrower(drive: Drive[Any], error: Exception) -> Callable[[], Action]:
    """Return the step that goes on with the error of an action."""
    return lambda: drive.throw(error)
