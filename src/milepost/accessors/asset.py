"""The accessor of one asset."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from milepost import calls
from milepost.accessors.base import Accessor
from milepost.calls import new_version, stored_value
from milepost.clock import from_micros
from milepost.entry import DamagedValue, Writer
from milepost.errors import DamagedEntryError, InvalidValueError, UnsupportedTypeError
from milepost.ordering import Order, check_order, is_further
from milepost.scopes import check_key
from milepost.values import JSONValue

if TYPE_CHECKING:
    from milepost.asset_records import PastEntry

__all__ = ["AssetStoreAccessor"]


class AssetStoreAccessor(Accessor):
    """The asset store: state of one asset, independent of any run. It has no time-based expiry.

    Every write keeps the value before it in the change log, up to ``asset_history_limit`` per key.

    .. versionadded:: 0.1
    """

    __slots__ = ()

    def set(self, key: str, value: JSONValue) -> None:
        """Write or overwrite a key; arguments and errors as in `TaskStoreAccessor.set`.

        Raises:
            AssetNotActiveError: The asset is deactivated.
        """
        self._metastore.call(calls.Put(self._handle, (self._item(key, value),)))

    async def aset(self, key: str, value: JSONValue) -> None:
        """As `set`."""
        await self._metastore.acall(calls.Put(self._handle, (self._item(key, value),)))

    def set_many(self, mapping: Mapping[str, JSONValue]) -> None:
        """Write several keys, all or nothing, in one round trip."""
        call = self._puts(mapping, None)
        if call.items:
            self._metastore.call(call)

    async def aset_many(self, mapping: Mapping[str, JSONValue]) -> None:
        """As `set_many`."""
        call = self._puts(mapping, None)
        if call.items:
            await self._metastore.acall(call)

    def set_default(self, key: str, value: JSONValue) -> Any:
        """Write a key only if it is absent, and return the value that is stored afterwards."""
        return stored_value(key, *self._metastore.call(calls.PutDefault(self._handle, self._item(key, value))))

    async def aset_default(self, key: str, value: JSONValue) -> Any:
        """As `set_default`."""
        return stored_value(key, *await self._metastore.acall(calls.PutDefault(self._handle, self._item(key, value))))

    def compare_and_set(self, key: str, value: JSONValue, *, version: str | None) -> str:
        """Write only over the version that was read (`None`: only if absent), and return the new version.

        Raises:
            VersionConflictError: Another version is there; nothing was written.
        """
        call = calls.PutIf(self._handle, self._item(key, value), version)
        self._metastore.call(call)
        return call.item.version

    async def acompare_and_set(self, key: str, value: JSONValue, *, version: str | None) -> str:
        """As `compare_and_set`."""
        call = calls.PutIf(self._handle, self._item(key, value), version)
        await self._metastore.acall(call)
        return call.item.version

    # -- forward, back, and only with success -------------------------------------------------------------------------

    def advance(self, key: str, value: JSONValue, *, order: Order = None) -> Any:
        """Move a key forward only: keep the greater of the stored and the new value, atomically. An absent key is written.

        Args:
            key: The key.
            value: A number or a string; numbers are compared exactly (also an `int` with a `float`), strings by code point.
            order: ``"datetime"`` compares ISO 8601 texts with offset by the instant that they name.

        Returns:
            The value that is stored afterwards. If that is the old one, nothing was written.

        Raises:
            TypeError: Not a number or string (`bool` is none), another kind than what is stored, or with
                ``order="datetime"`` no time with offset.
            AssetNotActiveError: The asset is deactivated.
        """
        return stored_value(key, *self._metastore.call(self._advance(key, value, order)))

    async def aadvance(self, key: str, value: JSONValue, *, order: Order = None) -> Any:
        """As `advance`."""
        return stored_value(key, *await self._metastore.acall(self._advance(key, value, order)))

    def _advance(self, key: str, value: JSONValue, order: Order) -> calls.Advance:
        item = self._item(key, value)
        check_order(order)
        is_further(value, value, order, key)
        return calls.Advance(self._handle, item, order)

    def history(self, key: str, limit: int = 20) -> list[PastEntry]:
        """Return earlier values of a key, newest first, each with its writer and who replaced it.

        Args:
            key: The key; it may be absent by now.
            limit: The most values. No more than ``asset_history_limit`` are kept.

        Returns:
            Entries without the current one. The value of a damaged one is a `DamagedValue`.

        Raises:
            ValueError: ``limit`` is below 1.
        """
        return _past(key, self._metastore.call(self._history(key, limit)))

    async def ahistory(self, key: str, limit: int = 20) -> list[PastEntry]:
        """As `history`."""
        return _past(key, await self._metastore.acall(self._history(key, limit)))

    def _history(self, key: str, limit: int) -> calls.History:
        if type(limit) is not int:
            raise UnsupportedTypeError(f"limit must be an int, not {type(limit).__name__}")
        if not 1 <= limit < 2**31:
            raise InvalidValueError(f"limit must be 1 to {2**31 - 1}, got {limit}")
        return calls.History(self._handle, check_key(key), limit)

    def rollback(self, key: str, *, version: str) -> str:
        """Make an earlier value current again. It is a new write, on record as a rollback.

        Args:
            key: The key.
            version: That of an entry in `history`.

        Returns:
            The version of the key now. Where ``version`` is the current one, nothing is written.

        Raises:
            KeyError: The history has no such version.
            AssetNotActiveError: The asset is deactivated.
        """
        call = self._rollback(key, version)
        return self._metastore.call(call)

    async def arollback(self, key: str, *, version: str) -> str:
        """As `rollback`."""
        return await self._metastore.acall(self._rollback(key, version))

    def _rollback(self, key: str, version: str) -> calls.Rollback:
        if not isinstance(version, str):
            raise UnsupportedTypeError(f"version must be a str, not {type(version).__name__}")
        return calls.Rollback(self._handle, check_key(key), version, new_version())

    def stage(self, key: str, value: JSONValue, *, advance: bool = False, order: Order = None) -> None:
        """Write a key if and when this attempt succeeds; until then nobody sees the value, this attempt included.

        What is staged is dropped when the attempt ends otherwise or another one opens. It survives a deferral. Staging the
        same key again replaces what was staged before.

        Args:
            key: The key.
            value: As in `set`.
            advance: Only move forward, as `advance` does, both over what is staged already and over what is stored when the
                attempt succeeds.
            order: As in `advance`; only with ``advance=True``.

        Raises:
            ValueError: No attempt is behind this accessor, or the value cannot be stored.
            TypeError: With ``advance``: as there.
            AssetNotActiveError: The asset is deactivated. If that happens later, the attempt cannot succeed.
            InstanceStateError: The attempt has ended.
        """
        self._metastore.call(self._stage(key, value, advance, order))

    async def astage(self, key: str, value: JSONValue, *, advance: bool = False, order: Order = None) -> None:
        """As `stage`."""
        await self._metastore.acall(self._stage(key, value, advance, order))

    def _stage(self, key: str, value: JSONValue, advance: bool, order: Order) -> calls.Stage:
        item = self._item(key, value)
        check_order(order)
        if advance:
            is_further(value, value, order, key)
        elif order is not None:
            raise InvalidValueError("order says how to advance: give advance=True, too")
        if self._handle.instance_id is None:
            raise InvalidValueError("stage() waits for an attempt to succeed, and none is behind this accessor; use set()")
        return calls.Stage(self._handle, item, bool(advance), order)

    def clear(self) -> None:
        """Drop all keys of the asset. They stay in its history, and `Assets.restore` brings them back."""
        self._metastore.call(calls.Clear(self._handle))

    async def aclear(self) -> None:
        """As `clear`."""
        await self._metastore.acall(calls.Clear(self._handle))


def _past(key: str, rows: list[calls.Past]) -> list[PastEntry]:
    """Return earlier values as people see them.

    Neighbours share times and writers (who replaced one value wrote the next), so each is decoded once.
    """
    from milepost.asset_records import PastEntry

    times: dict[Any, datetime] = {}
    writers: dict[Any, Writer] = {}
    time_of, writer_of = times.get, writers.get
    entries = []
    for row in rows:
        text, encoding, version, created, updated, writer, replaced, replacer, cause = row
        try:
            if type(version) is not str:
                raise TypeError  # noqa: TRY301 - as all else that cannot be read
            entry = PastEntry(
                key,
                stored_value(key, text, encoding),
                version,
                time_of(created) or times.setdefault(created, from_micros(created)),
                time_of(updated) or times.setdefault(updated, from_micros(updated)),
                writer_of(writer) or writers.setdefault(writer, Writer.decode(writer)),
                time_of(replaced) or times.setdefault(replaced, from_micros(replaced)),
                writer_of(replacer) or writers.setdefault(replacer, Writer.decode(replacer)),
                cause,
            )
        except (DamagedEntryError, ValueError, TypeError, AttributeError, OverflowError):
            entry = _damaged(key, row)
        entries.append(entry)
    return entries


def _damaged(key: str, row: calls.Past) -> PastEntry:
    """Return what can be read of an earlier value, marked with what cannot."""
    from milepost.asset_records import PastEntry

    reason = ""
    try:
        stored_value(key, row.value, row.encoding)
    except DamagedEntryError as error:
        reason = error.reason
    created, updated, replaced = _time(row.created_at), _time(row.updated_at), _time(row.replaced_at)
    if created is None or updated is None or replaced is None:
        reason = "its times cannot be read"
    writer, replacer = _writer(row.writer), _writer(row.replaced_by)
    if writer is None or replacer is None:
        reason = "its writer cannot be read"
    if type(row.version) is not str:
        reason = "its version cannot be read"
    return PastEntry(
        key,
        DamagedValue(key, reason),
        row.version if type(row.version) is str else "",
        created or from_micros(0),
        updated or from_micros(0),
        writer or Writer("python"),
        replaced or from_micros(0),
        replacer or Writer("python"),
        row.cause,
    )


def _time(micros: Any) -> datetime | None:
    try:
        return from_micros(micros)
    except (TypeError, OverflowError):
        return None


def _writer(text: Any) -> Writer | None:
    try:
        return Writer.decode(text)
    except (ValueError, TypeError, AttributeError):
        return None
