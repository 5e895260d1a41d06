"""`connect` and `Store`: the one door to the state, where settings, metastore and backend meet."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Coroutine, Generator, Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from milepost import calls
from milepost.abc import BaseStateBackend, Metastore
from milepost.accessors import AssetStoreAccessor, TaskStoreAccessor
from milepost.calls import Handle
from milepost.clock import Clock, SystemClock
from milepost.config import Settings, load_settings, mask_url, naming_the_place
from milepost.entry import Writer
from milepost.errors import ConfigurationError, InvalidValueError, UnsupportedTypeError
from milepost.instances import Instances
from milepost.program import Program, arun, run
from milepost.references import asset_scope
from milepost.scopes import AssetScope, TaskScope

if TYPE_CHECKING:  # they would make every start slower
    from milepost.collection import Progress
    from milepost.metastore.engines.network import NetworkEngine
    from milepost.registry import Assets
    from milepost.reports import CleanReport, StoreStats, TransferReport
    from milepost.runs import Runs
    from milepost.tokens import Tokens

__all__ = ["Store", "aconnect", "connect", "sqlite_path"]

_PYTHON = Writer("python")
_LOGGED = frozenset({"cli", "api"})
_KINDS = "url is sqlite:///FILE, postgresql://…, mysql://…, http(s)://… or memory://"
"""Writers whose edits of task state go to the change log: people, not code."""


def connect(
    url: str | None = None,
    *,
    clock: Clock | None = None,
    writer: Writer = _PYTHON,
    upgrade: bool = True,
    migrate: bool = False,
    token: str | None = None,
    secret: str | None = None,
    **settings: Any,
) -> Store:
    """Open a store, creating it where nothing is there yet.

    Args:
        url: ``sqlite:///relative.db``, ``sqlite:////absolute.db``, ``postgresql://…``, ``mysql://…``, ``memory://``, or the
            ``http(s)://host:port`` of a server; by default as configured, which is a SQLite file in the user's state folder.
        clock: Where the time comes from; by default the system.
        writer: Who is on record for writes outside of attempts.
        upgrade: `False` opens only what is there and leaves it as it is: nothing is created, no older schema is brought up
            to date.
        migrate: `True` brings an older schema on a database server up to date too, as ``milepost db upgrade`` does.
        token: For a server: the token of an attempt; by default ``MILEPOST_TOKEN``.
        secret: For a server: the worker secret, which opens all of it; by default as configured in ``[server]``.
        **settings: Options of ``[state_store]`` by name; they win over the environment.

    Returns:
        The store; close it, or use it as a context manager.

    Raises:
        ConfigurationError: An option is unknown or has a bad value.
        StoreError: The store cannot be opened, is too new, or is no Milepost store; without ``upgrade`` also: it is not
            there (`StoreUnreachableError`) or too old (`SchemaOutdatedError`).

    .. versionadded:: 0.1
    """
    arguments = {"url": url, **settings}
    loaded = load_settings(arguments)
    if loaded.url.startswith(("http://", "https://")):
        return Store(_behind_server(loaded, arguments, clock or SystemClock(), token, secret), loaded, writer)
    with naming_the_place("url", arguments):
        metastore = _open(loaded, clock or SystemClock(), upgrade, migrate)
    try:
        if loaded.backend is not None:
            with naming_the_place("backend", arguments):
                metastore = _with_backend(metastore, loaded.backend)
    except BaseException:
        metastore.close()
        raise
    return Store(metastore, loaded, writer)


def aconnect(
    url: str | None = None,
    *,
    clock: Clock | None = None,
    writer: Writer = _PYTHON,
    upgrade: bool = True,
    migrate: bool = False,
    token: str | None = None,
    secret: str | None = None,
    **settings: Any,
) -> Opening:
    """Open a store without blocking the event loop; as `connect`.

    Returns:
        What to wait for: ``store = await aconnect(…)``, or ``async with aconnect(…) as store:``, which closes it too.
    """
    import asyncio

    options: dict[str, Any] = {"clock": clock, "writer": writer, "upgrade": upgrade, "migrate": migrate}
    return Opening(asyncio.to_thread(connect, url, token=token, secret=secret, **options, **settings))


class Opening(Coroutine[Any, Any, "Store"]):
    """A store that is being opened: a coroutine and an asynchronous context manager. What `aconnect` returns.

    .. versionadded:: 0.1
    """

    def __init__(self, opening: Coroutine[Any, Any, Store]) -> None:
        self._opening = opening
        self._store: Store | None = None

    def send(self, value: Any, /) -> Any:
        """Go on, as a coroutine."""
        return self._opening.send(value)

    def throw(self, *error: Any) -> Any:
        """Go on with an exception, as a coroutine."""
        return self._opening.throw(*error)

    def close(self) -> None:
        """Give up, as a coroutine."""
        self._opening.close()

    def __await__(self) -> Generator[Any, Any, Store]:
        return self._opening.__await__()

    async def __aenter__(self) -> Store:
        self._store = await self._opening
        return self._store

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._store is not None:
            await self._store.aclose()


def _behind_server(
    settings: Settings, arguments: Mapping[str, Any], clock: Clock, token: str | None, secret: str | None
) -> Metastore:
    if settings.backend is not None:
        raise ConfigurationError("a backend of the store works where the store is: configure it at the server, not here")
    from milepost.remote.client import HttpMetastore
    from milepost.remote.connection import parse_url
    from milepost.remote.credentials import find_credential

    with naming_the_place("url", arguments):
        address = parse_url(settings.url)
    credential, source = find_credential(settings.url, address.host, token, secret)
    return HttpMetastore(settings.url, credential, source=source, clock=clock)


def _open(settings: Settings, clock: Clock, upgrade: bool, migrate: bool) -> Metastore:
    url = settings.url
    if url.startswith("sqlite:///"):
        from milepost.metastore.sql import SqliteMetastore

        path = sqlite_path(url)
        return SqliteMetastore(path, clock=clock, policy=settings, synchronous=settings.synchronous, upgrade=upgrade)
    if url.startswith(("postgresql://", "postgres://")):
        from milepost.metastore.engines.postgres import PostgresEngine

        return _on_server(PostgresEngine(url, clock=clock, prepare=settings.prepared_statements), settings, upgrade, migrate)
    if url.startswith(("mysql://", "mariadb://")):
        from milepost.metastore.engines.mysql import MysqlEngine

        return _on_server(MysqlEngine(url, clock=clock), settings, upgrade, migrate)
    if url in ("memory://", "memory:///"):
        from milepost.metastore.memory import MemoryMetastore

        return MemoryMetastore(clock=clock, policy=settings)
    scheme, _, driver = url.partition("://")[0].partition("+")
    raise ConfigurationError(
        f"no store of the kind {mask_url(url)!r} is known to this release; "
        + (f"write {scheme}://, without +{driver}" if driver else _KINDS)
    )


def _on_server(engine: NetworkEngine, settings: Settings, upgrade: bool, migrate: bool) -> Metastore:
    from milepost.metastore.network import NetworkMetastore

    engine.prepare(upgrade=(True if migrate else None) if upgrade else False)
    return NetworkMetastore(engine, policy=settings)


def sqlite_path(url: str) -> Path:
    """Return the file that a ``sqlite:///`` URL names.

    Raises:
        ConfigurationError: It names none.
    """
    name = url[len("sqlite:///") :]
    if "%" in name:
        from urllib.parse import unquote

        name = unquote(name)
    if not name or name.endswith("/"):
        raise ConfigurationError(f"{url!r} names no file; write sqlite:///relative.db or sqlite:////absolute.db")
    return Path(name).expanduser().absolute()


def _with_backend(metastore: Metastore, dotted: str) -> Metastore:
    from milepost.metastore.backend import BackendMetastore, MetastoreStateBackend

    module, _, name = dotted.rpartition(".")
    try:
        cls = getattr(importlib.import_module(module), name) if module else None
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"backend {dotted!r} cannot be imported: {error}") from error
    if not (isinstance(cls, type) and issubclass(cls, BaseStateBackend)):
        raise ConfigurationError(f"backend {dotted!r} is not a subclass of milepost.BaseStateBackend")
    if cls is MetastoreStateBackend:
        return metastore
    try:
        backend = cls()
    except TypeError as error:
        raise ConfigurationError(f"backend {dotted!r} cannot be made without arguments: {error}") from error
    return BackendMetastore(metastore, backend)


class Store:
    """Everything that is kept: task state, asset state, instances, runs.

    Safe to use from several threads and tasks, and after a fork.

    Args:
        metastore: Where it is kept.
        settings: The settings in force.
        writer: Who is on record for writes outside of attempts.

    Attributes:
        instances: The life of task instances.
        settings: The settings in force.

    .. versionadded:: 0.1
    """

    def __init__(self, metastore: Metastore, settings: Settings, writer: Writer = _PYTHON) -> None:
        self._metastore = metastore
        self._writer = writer
        self.settings = settings
        self.instances = Instances(metastore, writer, settings.max_value_bytes)

    def __repr__(self) -> str:
        return f"<Store {self.settings!r}>"

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Store:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @cached_property
    def runs(self) -> Runs:
        """Runs and the results of their tasks."""
        from milepost.runs import Runs

        return Runs(self._metastore)

    @cached_property
    def assets(self) -> Assets:
        """Which assets there are, and who refers to them."""
        from milepost.registry import Assets

        return Assets(self._metastore, self._writer)

    @cached_property
    def tokens(self) -> Tokens:
        """Tokens that open the REST API of a server."""
        from milepost.tokens import Tokens

        return Tokens(self._metastore, self._writer)

    @property
    def metastore(self) -> Metastore:
        """Where everything is kept."""
        return self._metastore

    def task_store(self, scope: TaskScope, *, attempt: int | None = None) -> TaskStoreAccessor:
        """Return the accessor of a task instance.

        Args:
            scope: The task instance.
            attempt: Open this attempt, as `Instances.open` does, and work as it. `None`: unfenced, for people and tools;
                the first write records the instance.

        Raises:
            StaleAttemptError: The attempt is not the current one.
        """
        if attempt is not None:
            return self.instances.open(scope, attempt)["task_store"]  # type: ignore[no-any-return]
        return self._unfenced(scope)

    async def atask_store(self, scope: TaskScope, *, attempt: int | None = None) -> TaskStoreAccessor:
        """As `task_store`."""
        if attempt is not None:
            return (await self.instances.aopen(scope, attempt))["task_store"]  # type: ignore[no-any-return]
        return self._unfenced(scope)

    def _unfenced(self, scope: TaskScope) -> TaskStoreAccessor:
        if not isinstance(scope, TaskScope):
            raise UnsupportedTypeError(f"task_store takes a TaskScope, not {type(scope).__name__}")
        handle = Handle(scope, self._writer.encode(scope), logged=self._writer.kind in _LOGGED)
        return TaskStoreAccessor(self._metastore, handle, self.settings.max_value_bytes)

    def asset_store(self, asset: Any) -> AssetStoreAccessor:
        """Return the accessor of an asset.

        Args:
            asset: An `Asset`, which is recorded if it is not known yet; or a reference to a known one: `AssetRef`, or an
                `AssetScope` without name, URI or both.

        Raises:
            TypeError: Not an asset.
            AssetNotFoundError: A reference to an asset that nothing has declared, or an id that no asset has.
            ValueError: Its names lead to two different assets.
        """
        return self._asset(*self._metastore.call(self._find(asset)))

    async def aasset_store(self, asset: Any) -> AssetStoreAccessor:
        """As `asset_store`."""
        return self._asset(*await self._metastore.acall(self._find(asset)))

    @staticmethod
    def _find(asset: Any) -> calls.FindAsset:
        return calls.FindAsset(asset_scope(asset), register=True)

    def _asset(self, number: int, name: str, uri: str) -> AssetStoreAccessor:
        people = self._writer.kind in _LOGGED  # they are told otherwise
        handle = Handle(AssetScope(number, name, uri), self._writer.encode(), owner_id=number, warns=not people)
        return AssetStoreAccessor(self._metastore, handle, self.settings.max_value_bytes)

    def clean(
        self,
        *,
        dry_run: bool = False,
        batch_size: int | None = None,
        batches: int | None = None,
        first: int = 0,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> CleanReport:
        """Remove what has expired or is past its time, in bounded batches, beside live traffic.

        Args:
            dry_run: Remove nothing and report what would go.
            batch_size: Rows per statement, 1 or more; by default as configured.
            batches: The most batches of each kind; by default until nothing is due.
            first: The most keys of each kind that the report of a dry run names.
            progress: Called after each batch with the kind (``expired``, ``retired``, ``changes``, ``orphans``), the rows of
                it (of orphans: the assets) removed so far, and those that were due.

        Returns:
            How many rows went, or would go. One collector works at a time: while another does, nothing, and who that is.
        """
        return run(self._metastore, self._collect(dry_run, batch_size, batches, first, progress))

    async def aclean(
        self,
        *,
        dry_run: bool = False,
        batch_size: int | None = None,
        batches: int | None = None,
        first: int = 0,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> CleanReport:
        """As `clean`; ``progress`` is a plain function."""
        return await arun(self._metastore, self._collect(dry_run, batch_size, batches, first, progress))

    def _collect(
        self, dry_run: bool, batch_size: int | None, batches: int | None, first: int, progress: Progress | None
    ) -> Program[CleanReport]:
        if batch_size is not None and not 1 <= batch_size < 2**31:
            raise InvalidValueError(f"batch_size must be 1 to {2**31 - 1}, got {batch_size}")
        from milepost import collection

        return collection.collect(
            self.settings,
            dry_run=dry_run,
            batch_size=batch_size,
            batches=batches,
            first=first,
            progress=progress,
            writer=self._writer.encode(),
        )

    def stats(self) -> StoreStats:
        """Return how much the store holds. Reads whole tables."""
        return self._metastore.call(calls.Stats())

    async def astats(self) -> StoreStats:
        """As `stats`."""
        return await self._metastore.acall(calls.Stats())

    def export(self, stream: IO[bytes]) -> TransferReport:
        """Write everything as JSON lines, page by page, beside live traffic (so it is no snapshot).

        Args:
            stream: Takes bytes.

        Returns:
            What was written. Damaged rows are left out, counted and named.

        Raises:
            BackendUnsupportedError: A ``[state_store] backend`` keeps the entries.
        """
        from milepost import transfer

        return transfer.export(self._metastore, stream)

    async def aexport(self, stream: IO[bytes]) -> TransferReport:
        """As `export`, in a thread; the stream is used there."""
        from milepost import transfer

        return await transfer.in_thread(lambda check: transfer.export(self._metastore, stream, check))

    def import_(self, stream: IO[bytes]) -> TransferReport:
        """Fill this store, which must be empty, from what `export` wrote, and compare the two.

        All of it is read and checked before anything is written. If the process is killed later, start with a new store.

        Args:
            stream: Gives bytes; what cannot be read twice, such as a pipe, is copied to a temporary file.

        Returns:
            What was read, and found again in the store.

        Raises:
            ConflictError: The store is not empty, or does not hold what was read: something else wrote to it meanwhile.
            InvalidValueError: The stream is cut, altered or not an export; nothing was written.
            BackendUnsupportedError: A ``[state_store] backend`` keeps the entries.
        """
        from milepost import transfer

        return transfer.import_(self._metastore, stream)

    async def aimport_(self, stream: IO[bytes]) -> TransferReport:
        """As `import_`, in a thread; the stream is used there."""
        from milepost import transfer

        return await transfer.in_thread(lambda check: transfer.import_(self._metastore, stream, check))

    def verify(self) -> None:
        """Check the schema and the file, changing nothing.

        Raises:
            StoreError: Something is wrong with them; the message says what to do.
        """
        self._metastore.verify()

    def close(self) -> None:
        """Give back all connections; calls after it raise `StoreClosedError`."""
        self._metastore.close()

    async def aclose(self) -> None:
        """As `close`."""
        await self._metastore.aclose()
