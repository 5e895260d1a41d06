"""The engine of a simulated client: a file of SQLite in the place of a database server, and its faults.

Each statement waits until the scheduler lets it run, and meets the fault that the scheduler has chosen.
"""

from __future__ import annotations

import sqlite3
import types
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from milepost.errors import StoreError
from milepost.metastore.engines import sqlite_schema
from milepost.metastore.engines.flow import Drive, Run, Session, Sleep, Verdict
from milepost.metastore.engines.network_async import AsyncNetworkEngine, LoopPool
from milepost.metastore.statements import Statements
from tests.simulation.parts import Crash
from tests.support.servers import TABLES

if TYPE_CHECKING:
    from tests.simulation.world import Client

__all__ = ["DEAD", "STATEMENTS", "Engine", "Files", "Pending"]

STATEMENTS = dict(Statements("sqlite", lambda position, _: f":p{position}"))


class Lost(sqlite3.OperationalError):
    """The connection is gone."""


class Deadlock(sqlite3.OperationalError):
    """This transaction was chosen as the victim."""


class Pending(NamedTuple):
    """What a client is about to do next."""

    raw: Any
    text: str

    @property
    def wants_lock(self) -> bool:
        """Whether SQLite would let it wait for another writer's end."""
        return self.raw is not None and not self.raw.in_transaction and not self.text.startswith(("SELECT", "ROLLBACK"))


@types.coroutine
def pause(pending: Pending) -> Generator[Pending, Any, Any]:
    """Let the scheduler go on; return the fault that it chose."""
    return (yield pending)


DEAD = Pending(None, "dead")


class Files:
    """A file with the schema and connections to it, used for one world after the other.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        connection = self.open()
        connection.execute("PRAGMA journal_mode = WAL")
        sqlite_schema.upgrade(connection, str(path))
        self.spare = [connection]
        self.observer = self.open()

    def open(self) -> sqlite3.Connection:
        """Return a new connection."""
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=0, cached_statements=256)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    def empty(self) -> None:
        """Delete all rows and count from 1 again."""
        self.observer.execute("BEGIN IMMEDIATE")
        for table in (*TABLES, "sqlite_sequence"):
            self.observer.execute(f"DELETE FROM {table}")
        self.observer.execute("COMMIT")

    def close(self) -> None:
        """Close all connections."""
        for connection in (self.observer, *self.spare):
            connection.close()


def _named(parameters: Sequence[Any]) -> dict[str, Any]:
    return {f"p{position}": value for position, value in enumerate(parameters)}


class Engine(AsyncNetworkEngine):
    """The engine of database servers on SQLite, whose every statement waits for the scheduler."""

    dialect = "sqlite"
    driver_error = sqlite3.Error
    begin = "BEGIN IMMEDIATE"

    def __init__(self, client: Client) -> None:
        super().__init__("the simulation", client.world.clock)
        self.statements = STATEMENTS
        self._each = {one.text: STATEMENTS[one.each].text for one in STATEMENTS.values() if one.each}
        self._client = client
        self._own_pool = LoopPool()

    def _pool(self) -> LoopPool:
        return self._own_pool

    async def aopen(self) -> Any:
        """Take a connection that nobody uses."""
        spare = self._client.world.files.spare
        return spare.pop() if spare else self._client.world.files.open()

    async def _ado(self, action: Any, pool: LoopPool) -> Any:
        if self._client.dead:
            raise Crash
        if type(action) is Sleep:
            return await pause(Pending(None, "sleep"))
        return await super()._ado(action, pool)

    async def aexecute(self, connection: Any, action: Run) -> Any:
        """Run a statement when told to, with the fault that was chosen."""
        client, text = self._client, action.text
        fault = await pause(Pending(connection, text))
        if fault in ("lost", "deadlock"):
            client.running.disturb(fault, text, within=connection.in_transaction)
            raise (Lost if fault == "lost" else Deadlock)(fault)
        inside = connection.in_transaction
        answer = self._execute(connection, action)
        client.done(text, answer, inside=inside)
        if fault == "crash after":
            await pause(DEAD)
        if fault == "answer lost":
            client.running.disturb(fault, text, within=False)
            raise Lost(fault)
        return answer

    def _execute(self, connection: sqlite3.Connection, action: Run) -> Any:
        cursor = connection.execute(action.text, _named(action.parameters))
        if each := self._each.get(action.text):
            rows = [_named(row) for row in cursor]
            return connection.executemany(each, rows).rowcount if rows else 0
        if action.answer == "count":
            return cursor.rowcount
        return cursor.fetchall() if action.answer == "rows" else cursor.lastrowid

    def drop_raw(self, connection: Any) -> None:
        """Give a connection back; what it had not committed is lost."""
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        self._client.world.files.spare.append(connection)

    def opened(self, connection: Any) -> tuple[int, float]:
        """Return what nobody asks for."""
        return 0, 0.0

    def settled(self, connection: Any) -> int:
        """Return what nobody asks for."""
        return 0

    def end(self, connection: Any, session: Session) -> Drive[bool]:
        """Do nothing: here a session ends with its connection."""
        yield from ()
        return False

    def judge(self, error: Exception) -> Verdict:
        """Say what an injected fault means; SQLite itself has no reason for one."""
        return {Lost: Verdict.LOST, Deadlock: Verdict.CONFLICT}.get(type(error), Verdict.FAILED)

    def translate(self, error: Exception) -> Exception:
        """Return an error of the project."""
        return StoreError(f"{type(error).__name__}: {error}")

    def open(self) -> Any:
        """Not used: there are no blocking calls here."""
        raise NotImplementedError

    execute = version = migrate = open  # type: ignore[assignment]
