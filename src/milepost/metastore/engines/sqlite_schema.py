"""Open a SQLite file: settings of a connection, who made the file, its schema and how it is brought up to date."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from pathlib import Path

from milepost.errors import DamagedStoreError, MilepostError, SchemaOutdatedError, SchemaTooNewError, StoreUnreachableError
from milepost.metastore.migrations import migrations

__all__ = ["BUSY_SECONDS", "busy", "check", "connect", "look", "prepare_file", "upgrade", "verify"]

APPLICATION_ID = 0x4D6C7053
"""In the header of every Milepost file, so that others' files are refused ("MlpS")."""

MINIMUM_SQLITE = (3, 35, 0)
BUSY_SECONDS = 60.0
"""How long a call waits for other processes before it gives up."""

_FILE_MODE = stat.S_IRUSR | stat.S_IWUSR


class Connection(sqlite3.Connection):
    """A connection that can be referred to weakly."""

    __slots__ = ("__weakref__",)


def busy(error: sqlite3.Error) -> bool:
    """Tell whether another connection was in the way (SQLITE_BUSY or SQLITE_LOCKED, whatever the detail)."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # Python 3.10 does not give the code
        return "locked" in str(error)
    return code & 0xFF in (5, 6)


def prepare_file(path: Path) -> None:
    """Create the folder and an empty file that only its owner may read, with their names made durable.

    Raises:
        StoreUnreachableError: It cannot be created.
    """
    try:
        if path.exists():
            return
        missing = [parent for parent in path.parents if not parent.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, _FILE_MODE))
        for folder in {path.parent, *(parent.parent for parent in missing)}:
            _sync_folder(folder)
    except OSError as error:
        raise StoreUnreachableError(f"cannot create the store {path}: {error.strerror or error}") from error


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # folders cannot be synced there
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def connect(target: str, synchronous: str) -> sqlite3.Connection:
    """Open a connection with the settings that all have.

    Args:
        target: A file name, or ``:memory:``.
        synchronous: ``full`` or ``normal``.

    Raises:
        StoreUnreachableError: It cannot be opened, or stays locked.
        DamagedStoreError: It is no database.
    """
    if sqlite3.sqlite_version_info < MINIMUM_SQLITE:
        raise StoreUnreachableError(
            f"SQLite {sqlite3.sqlite_version} is too old; Milepost needs {'.'.join(map(str, MINIMUM_SQLITE))} or later"
        )
    deadline = time.monotonic() + BUSY_SECONDS
    wait = 0.001
    while True:
        connection: sqlite3.Connection | None = None
        try:
            connection = sqlite3.connect(
                target,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=256,
                factory=Connection,
            )
            # A change of the journal mode does not wait for others by itself, so the loop does.
            if connection.execute("PRAGMA journal_mode").fetchone()[0] not in ("wal", "memory"):
                # Not before it is known to be ours: what is refused stays as it is.
                _refuse_newer(_version(connection, target), len(migrations("sqlite")), target)
                connection.execute("PRAGMA journal_mode = WAL")
            # On macOS a plain fsync does not reach the disk; these two are ignored elsewhere.
            connection.execute("PRAGMA fullfsync = ON")
            connection.execute("PRAGMA checkpoint_fullfsync = ON")
            connection.execute(f"PRAGMA synchronous = {'NORMAL' if synchronous == 'normal' else 'FULL'}")
            return connection
        except (MilepostError, sqlite3.Error) as error:
            if connection is not None:
                connection.close()
            if isinstance(error, MilepostError):
                raise
            if not busy(error) or time.monotonic() > deadline:
                raise opening_error(target, error) from error
        time.sleep(wait)
        wait = min(wait * 2, 0.1)


def look(target: str) -> sqlite3.Connection:
    """Open a connection to a file that must be there, and change none of its settings.

    Raises:
        StoreUnreachableError: It is not there or cannot be opened.
    """
    path = Path(target)
    try:
        if not path.exists():
            raise StoreUnreachableError(f"there is no store {target}; the first run, write or import creates it")
        return sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            factory=Connection,
        )
    except OSError as error:
        raise StoreUnreachableError(f"cannot open the store {target}: {error.strerror or error}") from error
    except sqlite3.Error as error:
        raise opening_error(target, error) from error


def opening_error(target: str, error: sqlite3.Error) -> Exception:
    """Return the project's own error for one that SQLite raised while a store was opened."""
    if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
        return DamagedStoreError(f"{target} is not a Milepost store or is damaged: {error}")
    return StoreUnreachableError(f"cannot open the store {target}: {error}")


def _version(connection: sqlite3.Connection, target: str) -> int:
    """Return the number of the schema in the file; 0 for an empty one.

    Raises:
        DamagedStoreError: The file belongs to something else.
    """
    # All at one moment: another process may be about to commit the first schema.
    alone = not connection.in_transaction
    if alone:
        connection.execute("BEGIN")
    try:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        tables = connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    finally:
        if alone and connection.in_transaction:
            connection.execute("ROLLBACK")
    if application == APPLICATION_ID:
        return version
    if application or tables:
        raise DamagedStoreError(f"{target} is a SQLite file of something else than Milepost; name another file")
    return 0


def _refuse_newer(version: int, newest: int, target: str) -> None:
    if version > newest:
        raise SchemaTooNewError(f"{target} has schema {version} and this release knows {newest}; upgrade Milepost to use it")


def check(connection: sqlite3.Connection, target: str) -> int:
    """Return the version of the schema, which is the one that this release needs.

    Raises:
        SchemaTooNewError: A newer release wrote the file.
        SchemaOutdatedError: It has yet to be upgraded.
        DamagedStoreError: It belongs to something else.
    """
    version, newest = _version(connection, target), len(migrations("sqlite"))
    _refuse_newer(version, newest, target)
    if version < newest:
        raise SchemaOutdatedError(
            f"{target} has schema {version} and needs {newest}; `milepost db upgrade` or the next use of it upgrades it"
        )
    return version


def verify(connection: sqlite3.Connection, target: str) -> None:
    """Check the schema and the whole file and change nothing.

    Raises:
        StoreError: As in `check`; `DamagedStoreError` also where SQLite finds the file corrupt.
    """
    check(connection, target)
    if (said := connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
        raise DamagedStoreError(f"{target} is corrupt: {' '.join(said.split())}")


def upgrade(connection: sqlite3.Connection, target: str, steps: int | None = None) -> int:
    """Bring the schema up to date; safe when several processes do so at once.

    Args:
        connection: A connection outside a transaction.
        target: The name to use in errors.
        steps: Up to which version; by default the newest.

    Returns:
        The version that was found, 0 for an empty file.

    Raises:
        SchemaTooNewError: A newer release wrote the file.
        DamagedStoreError: It belongs to something else.
    """
    pending = migrations("sqlite")
    newest = len(pending)
    version = _version(connection, target)
    _refuse_newer(version, newest, target)
    if version == newest:
        return version
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection, target)  # another process may have been first
        _refuse_newer(version, newest, target)
        for step in pending[version:steps]:
            for statement in step.statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {step.version}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    return version
