"""Engines whose driver is asynchronous too: a pool for each event loop beside the one for blocking calls."""

from __future__ import annotations

import asyncio
import weakref
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from milepost.clock import Clock
from milepost.errors import StoreClosedError
from milepost.metastore.engines.flow import Action, Run, Sleep, sender, thrower
from milepost.metastore.engines.network import POOL_SIZE, NetworkEngine, abandon
from milepost.metastore.operations.base import Operation

__all__ = ["AsyncNetworkEngine"]

R = TypeVar("R")


class LoopPool:
    """The connections of one event loop."""

    def __init__(self) -> None:
        self.idle: deque[Any] = deque()
        self.slots = asyncio.Semaphore(POOL_SIZE)


class Tied(NamedTuple):
    """An asynchronous connection with the pool that it belongs to."""

    raw: Any
    pool: LoopPool


class AsyncNetworkEngine(NetworkEngine):
    """Runs operations on a database server, with asynchronous connections for asynchronous calls."""

    def __init__(self, target: str, clock: Clock) -> None:
        super().__init__(target, clock)
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopPool] = weakref.WeakKeyDictionary()

    @abstractmethod
    async def aopen(self) -> Any:
        """Open an asynchronous connection in autocommit mode."""

    @abstractmethod
    async def aexecute(self, connection: Any, action: Run) -> Any:
        """Carry a `Run` out on an asynchronous connection."""

    async def arun(self, make: Callable[[], Operation[R]], *, write: bool, repeatable: bool, direct: bool = False) -> R:
        """As `run`, without blocking the event loop."""
        drive = self.drive(make, write=write, repeatable=repeatable, direct=direct)
        pool = self._pool()
        async with pool.slots:
            try:
                step: Callable[[], Action] = lambda: next(drive)  # noqa: E731
                while True:
                    action = step()
                    try:
                        answer = await self._ado(action, pool)
                    except self.driver_error as error:
                        step = thrower(drive, error)
                    else:
                        step = sender(drive, answer)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            finally:
                drive.close()

    async def _ado(self, action: Action, pool: LoopPool) -> Any:
        if type(action) is Run:
            return await self.aexecute(action.connection.raw, action)
        if type(action) is Sleep:
            return await asyncio.sleep(action.seconds)
        if self.closed:
            raise StoreClosedError(f"the store {self.target} is closed")
        try:
            return pool.idle.pop()
        except IndexError:
            return Tied(await self.aopen(), pool)

    def _pool(self) -> LoopPool:
        loop = asyncio.get_running_loop()
        pool = self._loops.get(loop)
        if pool is None:
            pool = self._loops[loop] = LoopPool()
            # Where a loop ends without the store being closed in it, as with several asyncio.run().
            weakref.finalize(loop, self.drop_all, pool.idle)
        return pool

    def idle_with(self, connection: Any) -> deque[Any]:
        """Return the pool that a connection belongs to."""
        return connection.pool.idle if type(connection) is Tied else super().idle_with(connection)

    @abstractmethod
    def drop_raw(self, connection: Any) -> None:
        """Close a connection of either kind at once, without a word to the server and without waiting."""

    def drop(self, connection: Any) -> None:
        """Close a connection, of a loop or not."""
        self.drop_raw(connection.raw if type(connection) is Tied else connection)

    def close(self) -> None:
        """Close idle connections now and the others when their calls end."""
        super().close()
        for pool in list(self._loops.values()):
            self.drop_all(pool.idle)

    def after_fork_in_child(self) -> None:
        """Forget the connections of the parent: neither use nor close them."""
        super().after_fork_in_child()
        for pool in self._loops.values():  # so that the end of an inherited loop does not close them
            abandon(pool.idle)
        self._loops = weakref.WeakKeyDictionary()
