"""The calls that all accessors share: `Reader` for reading, `Accessor` for reading and writing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from milepost import calls
from milepost.abc import Metastore
from milepost.calls import PLAIN, Handle, Item, Stored, new_version, stored_value
from milepost.clock import from_micros, to_micros
from milepost.entry import DamagedValue, Entry, Writer
from milepost.errors import DamagedEntryError, InvalidValueError, UnsupportedTypeError, VersionConflictError
from milepost.program import Program, arun, run
from milepost.retention import Retention
from milepost.scopes import AssetScope, TaskScope, check_key, check_text, key_text
from milepost.values import JSONValue, decode, encode

__all__ = ["Accessor", "Reader", "read_row"]

_UPDATE_TRIES = 10_000


class Reader:
    """Reads of one owner's live keys.

    Every method that does I/O has a twin whose name starts with ``a``, which does not block the event loop.
    A stale attempt never reads "absent": it gets a stored value or `StaleAttemptError`.

    .. versionadded:: 0.1
    """

    __slots__ = ("_handle", "_metastore")

    def __init__(self, metastore: Metastore, handle: Handle) -> None:
        self._metastore = metastore
        self._handle = handle

    @property
    def scope(self) -> TaskScope | AssetScope:
        """The task instance or asset whose keys these are."""
        return self._handle.scope

    def __repr__(self) -> str:
        attempt = "" if self._handle.attempt is None else f", attempt {self._handle.attempt}"
        return f"<{type(self).__name__} {self._handle.scope}{attempt}>"

    def __bool__(self) -> bool:
        return True

    # -- one key --------------------------------------------------------------------------------------------------

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value under ``key``, or ``default`` if it is absent or expired.

        Args:
            key: 1 to 512 characters, any but NUL and lone surrogates.
            default: Anything.

        Returns:
            The value as it was set, type included.

        Raises:
            TypeError: The key is not a `str`.
            InvalidKeyError: The key breaks the rules.
            DamagedEntryError: Someone damaged the stored row.
            StaleAttemptError: The key is absent and this attempt is no longer the current one.
        """
        found = self._metastore.call(calls.Get(self._handle, check_key(key)))
        if found is None:
            return default
        if found[1] != PLAIN:
            return stored_value(key, *found)
        try:
            return decode(found[0])
        except ValueError as error:
            raise DamagedEntryError(key, str(error)) from error

    async def aget(self, key: str, default: Any = None) -> Any:
        """As `get`."""
        found = await self._metastore.acall(calls.Get(self._handle, check_key(key)))
        return default if found is None else stored_value(key, *found)

    def entry(self, key: str) -> Entry | None:
        """Return the value with version, times, expiry and writer, or `None` if the key is absent.

        Raises:
            DamagedEntryError: Someone damaged the stored row.
            StaleAttemptError: As in `get`.
        """
        return self._entry(self._metastore.call(calls.Read(self._handle, check_key(key))))

    async def aentry(self, key: str) -> Entry | None:
        """As `entry`."""
        return self._entry(await self._metastore.acall(calls.Read(self._handle, check_key(key))))

    def _entry(self, row: Stored | None) -> Entry | None:
        if row is None:
            return None
        entry = read_row(row, self.scope if isinstance(self.scope, TaskScope) else None)
        if isinstance(entry, DamagedValue):
            raise DamagedEntryError(entry.key, entry.reason)
        return entry

    def __contains__(self, key: object) -> bool:
        return self._metastore.call(calls.Get(self._handle, check_key(key))) is not None

    async def acontains(self, key: str) -> bool:
        """Return whether ``key`` is live, as ``key in accessor`` does."""
        return await self._metastore.acall(calls.Get(self._handle, check_key(key))) is not None

    # -- many keys ------------------------------------------------------------------------------------------------

    def keys(self, prefix: str = "") -> list[str]:
        """Return the live keys that start with ``prefix``, sorted by code point; values are not loaded."""
        return [key_text(key) for key in self._metastore.call(calls.Keys(self._handle, _prefix(prefix)))]

    async def akeys(self, prefix: str = "") -> list[str]:
        """As `keys`."""
        return [key_text(key) for key in await self._metastore.acall(calls.Keys(self._handle, _prefix(prefix)))]

    def items(self, prefix: str = "") -> list[tuple[str, Any]]:
        """Return pairs of key and value, sorted by key, from one moment.

        A row that someone damaged does not hide the others: its value is a `DamagedValue`.
        """
        return _pairs(self.scope, self._metastore.call(calls.Items(self._handle, _prefix(prefix))))

    async def aitems(self, prefix: str = "") -> list[tuple[str, Any]]:
        """As `items`."""
        return _pairs(self.scope, await self._metastore.acall(calls.Items(self._handle, _prefix(prefix))))

    def get_many(self, keys: Iterable[str]) -> dict[str, Any]:
        """Return those of ``keys`` that are live with their values, in the order given, in one round trip.

        Raises:
            DamagedEntryError: Someone damaged one of the rows.
            StaleAttemptError: A key is absent and this attempt is no longer the current one.
        """
        wanted = _keys(keys)
        return _present(wanted, self._metastore.call(calls.GetMany(self._handle, wanted)) if wanted else [])

    async def aget_many(self, keys: Iterable[str]) -> dict[str, Any]:
        """As `get_many`."""
        wanted = _keys(keys)
        return _present(wanted, await self._metastore.acall(calls.GetMany(self._handle, wanted)) if wanted else [])

    def __len__(self) -> int:
        return self._metastore.call(calls.Count(self._handle))

    async def alen(self) -> int:
        """Return the number of live keys, as ``len(accessor)`` does."""
        return await self._metastore.acall(calls.Count(self._handle))

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())


class Accessor(Reader):
    """Reads and writes of one owner's keys. Every write is durable when it returns.

    All writes raise `StaleAttemptError`, and change nothing, where the attempt is no longer the current one.

    Args:
        metastore: Where the state is kept.
        handle: Whose state it is and who works on it.
        limit: The most bytes of a value; 0 means no limit.

    .. versionadded:: 0.1
    """

    __slots__ = ("_limit",)

    def __init__(self, metastore: Metastore, handle: Handle, limit: int) -> None:
        super().__init__(metastore, handle)
        self._limit = limit

    def _item(self, key: str, value: JSONValue) -> Item:
        return Item(check_key(key), encode(value, self._limit), PLAIN, new_version())

    def _puts(self, mapping: Mapping[str, JSONValue], retention: Retention) -> calls.Put:
        if not isinstance(mapping, Mapping):
            raise UnsupportedTypeError(f"set_many takes a mapping of keys to values, not {type(mapping).__name__}")
        limit, draw = self._limit, new_version()
        items = [
            Item(check_key(key), encode(value, limit), PLAIN, f"{draw}{number:x}")
            for number, (key, value) in enumerate(mapping.items())
        ]
        return calls.Put(self._handle, items, retention)

    def delete(self, key: str) -> None:
        """Drop ``key``; nothing if it is absent."""
        self._metastore.call(calls.Delete(self._handle, check_key(key)))

    async def adelete(self, key: str) -> None:
        """As `delete`."""
        await self._metastore.acall(calls.Delete(self._handle, check_key(key)))

    def increment(self, key: str, by: int | float = 1) -> int | float:
        """Add ``by`` to a number, atomically and exactly; an absent key counts from 0. A live key keeps its expiry.

        Args:
            key: The key.
            by: An `int` or a `float`, negative too.

        Returns:
            The new number.

        Raises:
            TypeError: The stored value, or ``by``, is no number (`bool` is none).
            ValueError: The sum is not finite.
        """
        return self._metastore.call(self._increment(key, by))

    async def aincrement(self, key: str, by: int | float = 1) -> int | float:
        """As `increment`."""
        return await self._metastore.acall(self._increment(key, by))

    def _increment(self, key: str, by: int | float) -> calls.Increment:
        if type(by) not in (int, float):
            raise UnsupportedTypeError(f"can only increment by an int or a float, not {type(by).__name__}")
        encode(by, 0)
        return calls.Increment(self._handle, check_key(key), by, new_version())

    def update(self, key: str, fn: Callable[[Any], JSONValue], default: Any = None) -> Any:
        """Read, call ``fn`` with the value (or ``default``), write only over what was read; again on conflict.

        Args:
            key: The key. If it is live, it keeps its expiry.
            fn: Gets the old value and returns the new one, never `None`. May run several times.
            default: What ``fn`` gets if the key is absent.

        Returns:
            The value that was written.

        Raises:
            ValueError: ``fn`` returned `None` or something that cannot be stored.
        """
        return run(self._metastore, self._update(key, fn, default))

    async def aupdate(self, key: str, fn: Callable[[Any], JSONValue], default: Any = None) -> Any:
        """As `update`; ``fn`` is a plain function."""
        return await arun(self._metastore, self._update(key, fn, default))

    def _update(self, key: str, fn: Callable[[Any], JSONValue], default: Any) -> Program[Any]:
        check_key(key)
        for _ in range(_UPDATE_TRIES):
            row = yield calls.Read(self._handle, key)
            new = fn(default if row is None else stored_value(key, row.value, row.encoding))
            if new is None:
                raise InvalidValueError(f"the function given to update({key!r}) returned None; return the new value")
            expected = None if row is None else row.version
            try:
                yield calls.PutIf(self._handle, self._item(key, new), expected, keep_expiry=True)
            except VersionConflictError:
                continue
            return new
        raise VersionConflictError(f"update({key!r}) met another writer {_UPDATE_TRIES:,} times; giving up")


def _prefix(prefix: str) -> str:
    return prefix if prefix == "" else check_text(prefix, "prefix", 512)


def _keys(keys: Iterable[str]) -> list[str]:
    if isinstance(keys, str):
        raise UnsupportedTypeError("get_many takes several keys, not one str; use get() for one")
    return [check_key(key) for key in keys]


def _pairs(scope: TaskScope | AssetScope, rows: Iterable[Stored]) -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    own = scope if isinstance(scope, TaskScope) else None
    writers: set[Any] = set()  # those found readable; the rows of one owner have few
    for row in rows:
        key = key_text(row.key)
        try:
            pairs.append((key, stored_value(key, row.value, row.encoding)))
            # A user's backend has no more than the value.
            if row.version is not None and (fault := _fault(row, own, writers)):
                pairs[-1] = (key, DamagedValue(key, fault))
        except DamagedEntryError as error:
            pairs.append((key, DamagedValue(key, error.reason)))
    return pairs


_FIRST, _LAST = to_micros(datetime.min.replace(tzinfo=timezone.utc)), to_micros(datetime.max.replace(tzinfo=timezone.utc))


def _fault(row: Stored, own: TaskScope | None, writers: set[Any]) -> str | None:
    """Say what of a row beside its value cannot be read, or `None`."""
    key, _, _, version, created, updated, expires, day, writer = row
    if type(key) is not str or type(version) is not str:
        return f"its {'version' if type(key) is str else 'key'} is no text"
    for time in (created, updated) if expires is None else (created, updated, expires):
        if type(time) is not int or not _FIRST <= time <= _LAST:
            return "its times cannot be read"
    if day is not None and type(day) is not int:
        return "its times cannot be read"
    if writer not in writers:
        try:
            Writer.decode(writer, own)
        except (ValueError, TypeError, AttributeError):
            return "its writer cannot be read"
        writers.add(writer)
    return None


def read_row(row: Stored, own: TaskScope | None) -> Entry | DamagedValue:
    """Return the entry that a row is, or what stands for it in lists.

    Args:
        row: The row.
        own: The task instance that it belongs to; `None`: an asset's.
    """
    try:
        value = stored_value(row.key, row.value, row.encoding)
    except DamagedEntryError as error:
        return DamagedValue(key_text(row.key), error.reason)
    if fault := _fault(row, own, set()):
        return DamagedValue(key_text(row.key), fault)
    return Entry(
        key=row.key,
        value=value,
        version=row.version,
        created_at=from_micros(row.created_at),
        updated_at=from_micros(row.updated_at),
        expires_at=None if row.expires_at is None else from_micros(row.expires_at),
        never_expires=row.expires_at is None and row.default_day is None,
        writer=Writer.decode(row.writer, own),
    )


def _present(wanted: list[str], rows: Iterable[tuple[Any, Any, Any]]) -> dict[str, Any]:
    found = {key: (text, encoding) for key, text, encoding in rows}
    return {key: stored_value(key, *found[key]) for key in wanted if key in found}
