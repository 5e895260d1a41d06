"""What engines for database servers share: pools of connections, blocking calls, the schema."""

from __future__ import annotations

import functools
import os
import threading
import time
import weakref
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from milepost.clock import Clock
from milepost.errors import SchemaOutdatedError, SchemaTooNewError, StoreClosedError, StoreUnreachableError
from milepost.metastore.engines.flow import Action, Flow, Run, Sleep, sender, thrower
from milepost.metastore.migrations import Migration, migrations
from milepost.metastore.operations.base import Operation
from milepost.threads import outcome

__all__ = ["POOL_SIZE", "NetworkEngine", "abandon"]

R = TypeVar("R")

POOL_SIZE = 10
"""Connections at the same time per process and event loop; further calls wait."""


class NetworkEngine(Flow):
    """Runs operations on a database server.

    Args:
        target: How errors name the server; without secrets.
        clock: The time; with the system's clock, the server's counts.

    Attributes:
        found: The version of the schema when `prepare` first looked; 0: none.
    """

    dialect: str
    connect_seconds: int = 10
    """How long one attempt to connect, or one step of it, may take."""
    migrate_seconds: float = 3_600.0
    """How long a statement of a migration waits for its answer, locks of others included."""

    def __init__(self, target: str, clock: Clock) -> None:
        super().__init__(target, clock)
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

    def allow(self, connection: Any, seconds: float) -> None:
        """Have statements on a blocking connection wait so long for their answers."""

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

    # -- calls --------------------------------------------------------------------------------------------------------

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

    def give(self, connection: Any) -> None:
        """Take a connection back that works."""
        idle = self.idle_with(connection)
        idle.append(connection)
        if self.closed:
            self.drop_all(idle)

    def lose(self, connection: Any, *, all_idle: bool = True) -> None:
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


_engines: weakref.WeakSet[NetworkEngine] = weakref.WeakSet()
_abandoned: list[Any] = []


def _after_fork_in_child() -> None:
    for engine in list(_engines):
        engine.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
