"""The metastore over SQL: it finds the operation of a call and has an engine run it."""

from __future__ import annotations

import sqlite3
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

from milepost import calls
from milepost.abc import Metastore, Policy
from milepost.calls import Call
from milepost.clock import Clock
from milepost.metastore.engines import sqlite_schema as schema
from milepost.metastore.engines.sqlite import STATEMENTS, SqliteEngine
from milepost.metastore.operations import OPERATIONS, Environment
from milepost.scopes import TaskScope

__all__ = ["SqliteMetastore"]

R = TypeVar("R")

_GET = STATEMENTS["entry_get"].text
_PUT = STATEMENTS["entry_put_fenced"].text
_put_order = itemgetter(*STATEMENTS["entry_put_fenced"].used)
assert STATEMENTS["entry_get"].used == (0, 1, 2)


class SqliteMetastore(Metastore):
    """Everything in one SQLite file.

    `Get` and a `Put` of one item on a task instance have a direct path with a single statement; the benchmarks say why.
    Whatever is not plain on it (a miss, a first write, a stale attempt) falls through to the operation.

    Args:
        path: The file; `None` keeps everything in memory.
        clock: The time.
        policy: Settings that operations obey.
        synchronous: ``full``: durable against power loss; ``normal``: against crashes of the process only.
        direct: Whether to use the direct paths.
        upgrade: Create what is missing and bring an older schema up to date; otherwise leave the file as it is.

    .. versionadded:: 0.1
    """

    def __init__(
        self,
        path: Path | None,
        *,
        clock: Clock,
        policy: Policy,
        synchronous: str = "full",
        direct: bool = True,
        upgrade: bool = True,
    ) -> None:
        self.engine = SqliteEngine(path, clock=clock, synchronous=synchronous, upgrade=upgrade)
        self.found_schema = self.engine.found
        self._environment = Environment(policy)
        self._clock_now = clock.now
        self._direct = direct

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.engine.target!r})"

    def call(self, call: Call[R], /) -> R:
        """Run a call; see `Metastore.call`."""
        if self._direct:
            if type(call) is calls.Get:
                found = self._get(call.handle, call.key)
                if found is not None:
                    return found  # type: ignore[return-value]
            elif type(call) is calls.Put and len(call.items) == 1 and self._put(call):
                return None  # type: ignore[return-value]
        operation, write, direct = OPERATIONS[type(call)]
        if self._direct and direct is not None and type(call) is not calls.Put:
            done = self.engine.run(lambda: direct(call, self._environment), write=False)
            if done is not None:
                return done[0]  # type: ignore[no-any-return]
        return self.engine.run(lambda: operation(call, self._environment), write=write)  # type: ignore[no-any-return]

    def _get(self, handle: calls.Handle, key: str) -> tuple[Any, Any] | None:
        if handle.owner_id is None or type(handle.scope) is not TaskScope:
            return None
        engine = self.engine
        connection = engine.take()
        try:
            return connection.execute(_GET, (handle.owner_id, key, self._clock_now())).fetchone()  # type: ignore[no-any-return]
        except sqlite3.Error:
            return None  # bytes that are no text, or real trouble: the operation says which
        finally:
            engine.give(connection)

    def _put(self, call: calls.Put) -> bool:
        handle = call.handle
        if handle.owner_id is None or handle.logged or type(handle.scope) is not TaskScope:
            return False
        engine = self.engine
        key, text, encoding, version = call.items[0]
        connection = engine.take()
        try:
            parameters = (
                handle.owner_id, handle.fence, key, text, encoding, version, call.retention, handle.writer,
                self._clock_now(),
            )  # fmt: skip
            return connection.execute(_PUT, _put_order(parameters)).rowcount == 1
        except sqlite3.Error as error:
            raise engine.translate(error) from error
        finally:
            engine.give(connection)

    async def acall(self, call: Call[R], /) -> R:
        """Run a call in one of the engine's threads; see `Metastore.acall`."""
        return await self.engine.arun(lambda: self.call(call))

    def now(self) -> int:
        """Return the time of this process in microseconds UTC."""
        return self._clock_now()

    def verify(self) -> None:
        """Check the schema and the file; see `Metastore.verify`."""
        connection = self.engine.take()
        try:
            schema.verify(connection, self.engine.target)
        except sqlite3.Error as error:
            raise self.engine.translate(error) from error
        finally:
            self.engine.give(connection)

    def close(self) -> None:
        """Close all connections."""
        self.engine.close()

    async def aclose(self) -> None:
        """Close all connections."""
        import asyncio

        await asyncio.get_running_loop().run_in_executor(None, self.engine.close)
