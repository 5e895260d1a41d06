"""The accessor of one asset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from milepost import calls
from milepost.accessors.base import Accessor, _value
from milepost.values import JSONValue

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
        return _value(key, *self._metastore.call(calls.PutDefault(self._handle, self._item(key, value))))

    async def aset_default(self, key: str, value: JSONValue) -> Any:
        """As `set_default`."""
        return _value(key, *await self._metastore.acall(calls.PutDefault(self._handle, self._item(key, value))))

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

    def clear(self) -> None:
        """Drop all keys of the asset."""
        self._metastore.call(calls.Clear(self._handle))

    async def aclear(self) -> None:
        """As `clear`."""
        await self._metastore.acall(calls.Clear(self._handle))
