"""The metastore on a database server."""

from __future__ import annotations

from typing import Any, TypeVar

from milepost import calls
from milepost.abc import Metastore, Policy
from milepost.calls import Call
from milepost.errors import MilepostError, OutcomeUnknownError
from milepost.metastore.engines.network import NetworkEngine
from milepost.metastore.operations import DIRECT, OPERATIONS, Environment
from milepost.values import decode

__all__ = ["NetworkMetastore"]

R = TypeVar("R")


class NetworkMetastore(Metastore):
    """Everything on a PostgreSQL or MySQL server, shared by many processes and machines.

    Args:
        engine: Connects to the server; its schema has been prepared.
        policy: Settings that operations obey.
        direct: Whether a `Put` of one item takes the path of one statement, which saves three of four round trips.

    .. versionadded:: 0.1
    """

    def __init__(self, engine: NetworkEngine, *, policy: Policy, direct: bool = True) -> None:
        self.engine = engine
        self.found_schema = engine.found
        self._environment = Environment(policy)
        self._direct = direct

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.engine.target!r})"

    def call(self, call: Call[R], /) -> R:
        """Run a call; see `Metastore.call`."""
        environment = self._environment
        if self._direct and (direct := DIRECT.get(type(call))) is not None:
            done = self.engine.run(lambda: direct(call, environment), write=False, repeatable=True, direct=True)
            if done is not None:
                return done[0]  # type: ignore[no-any-return]
        operation, write = OPERATIONS[type(call)]
        try:
            return self.engine.run(  # type: ignore[no-any-return]
                lambda: operation(call, environment), write=write, repeatable=call.repeatable
            )
        except OutcomeUnknownError as unknown:
            try:
                known = _recognised(call, self.call(check) if (check := _check(call)) else None)
            except MilepostError as error:  # that the row cannot be read now says nothing about the write
                raise unknown from error
            if known is None:
                raise
            return known[0]  # type: ignore[no-any-return]

    async def acall(self, call: Call[R], /) -> R:
        """Run a call without blocking the event loop; see `Metastore.acall`."""
        environment = self._environment
        if self._direct and (direct := DIRECT.get(type(call))) is not None:
            done = await self.engine.arun(lambda: direct(call, environment), write=False, repeatable=True, direct=True)
            if done is not None:
                return done[0]  # type: ignore[no-any-return]
        operation, write = OPERATIONS[type(call)]
        try:
            return await self.engine.arun(lambda: operation(call, environment), write=write, repeatable=call.repeatable)
        except OutcomeUnknownError as unknown:
            try:
                known = _recognised(call, await self.acall(check) if (check := _check(call)) else None)
            except MilepostError as error:
                raise unknown from error
            if known is None:
                raise
            return known[0]  # type: ignore[no-any-return]

    def now(self) -> int:
        """Return the time of this process in microseconds UTC."""
        return self.engine.clock.now()

    def verify(self) -> None:
        """Check the schema; see `Metastore.verify`."""
        self.engine.prepare(upgrade=False)

    def close(self) -> None:
        """Close all connections."""
        self.engine.close()

    async def aclose(self) -> None:
        """Close all connections; the loop goes on while running calls end."""
        import asyncio

        await asyncio.to_thread(self.engine.close)


def _check(call: Call[Any]) -> calls.Read | None:
    """Return the read that tells whether a write took effect: its version is one that no other write has."""
    if isinstance(call, calls.PutIf):
        return calls.Read(call.handle, call.item.key)
    return calls.Read(call.handle, call.key) if isinstance(call, calls.Increment) else None


def _recognised(call: Call[Any], row: calls.Stored | None) -> tuple[Any] | None:
    """Return the answer of a write, in a tuple, if the row shows that it took effect; otherwise nobody knows."""
    if isinstance(call, calls.PutIf) and row is not None and row.version == call.item.version:
        return (None,)
    if isinstance(call, calls.Increment) and row is not None and row.version == call.version:
        return (decode(row.value),)
    return None
