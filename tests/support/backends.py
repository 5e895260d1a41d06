"""Users' own backends, as a user would write them."""
# ruff: noqa: D102  (as the interface says)

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any, ClassVar

from milepost import AssetScope, BaseStateBackend, MetastoreStateBackend, TaskScope

__all__ = [
    "DictBackend",
    "HidingBackend",
    "ListingBackend",
    "NotABackend",
    "OwnMetastoreBackend",
    "PickyBackend",
    "RefusingBackend",
    "WrappingBackend",
]

Scope = TaskScope | AssetScope


class DictBackend(BaseStateBackend):
    """The eight methods over one dict that outlives every instance; `seen` has the calls."""

    data: ClassVar[dict[tuple[Scope, str], str]] = {}
    seen: ClassVar[list[tuple[Any, ...]]] = []

    @classmethod
    def reset(cls) -> None:
        """Forget everything."""
        cls.data.clear()
        cls.seen.clear()

    def get(self, scope: Scope, key: str, *, session: Any = None) -> str | None:
        return self.data.get((scope, key))

    def set(self, scope: Scope, key: str, value: str, *, expires_at: datetime | None = None, session: Any = None) -> None:
        self.seen.append(("set", key, value, expires_at))
        self.data[scope, key] = value

    def delete(self, scope: Scope, key: str, *, session: Any = None) -> None:
        self.seen.append(("delete", key))
        self.data.pop((scope, key), None)

    def clear(self, scope: Scope, *, all_map_indices: bool = False, session: Any = None) -> None:
        self.seen.append(("clear", all_map_indices))
        for owner, key in list(self.data):
            same_task = (
                all_map_indices
                and isinstance(owner, TaskScope)
                and isinstance(scope, TaskScope)
                and (owner.dag_id, owner.run_id, owner.task_id) == (scope.dag_id, scope.run_id, scope.task_id)
            )
            if owner == scope or same_task:
                del self.data[owner, key]

    async def aget(self, scope: Scope, key: str, *, session: Any = None) -> str | None:
        return self.get(scope, key)

    async def aset(
        self, scope: Scope, key: str, value: str, *, expires_at: datetime | None = None, session: Any = None
    ) -> None:
        self.set(scope, key, value, expires_at=expires_at)

    async def adelete(self, scope: Scope, key: str, *, session: Any = None) -> None:
        self.delete(scope, key)

    async def aclear(self, scope: Scope, *, all_map_indices: bool = False, session: Any = None) -> None:
        self.clear(scope, all_map_indices=all_map_indices)


class ListingBackend(DictBackend):
    """One that also takes `never_expires`, lists and collects."""

    def set(  # type: ignore[override]
        self,
        scope: Scope,
        key: str,
        value: str,
        *,
        expires_at: datetime | None = None,
        never_expires: bool = False,
        session: Any = None,
    ) -> None:
        self.seen.append(("set", key, value, expires_at, never_expires))
        self.data[scope, key] = value

    async def aset(  # type: ignore[override]
        self,
        scope: Scope,
        key: str,
        value: str,
        *,
        expires_at: datetime | None = None,
        never_expires: bool = False,
        session: Any = None,
    ) -> None:
        self.set(scope, key, value, expires_at=expires_at, never_expires=never_expires)

    def list(self, scope: Scope) -> Iterable[str]:
        return [key for owner, key in self.data if owner == scope]

    def cleanup(self) -> None:
        self.seen.append(("cleanup",))


class OwnMetastoreBackend(MetastoreStateBackend):
    """A subclass of the default backend that counts what is set."""

    sets: ClassVar[list[str]] = []

    def set(self, scope: Scope, key: str, value: str, *, expires_at: datetime | None = None, session: Any = None) -> None:
        self.sets.append(key)
        super().set(scope, key, value, expires_at=expires_at, session=session)

    async def aset(
        self, scope: Scope, key: str, value: str, *, expires_at: datetime | None = None, session: Any = None
    ) -> None:
        self.sets.append(key)
        await super().aset(scope, key, value, expires_at=expires_at, session=session)


class RefusingBackend(MetastoreStateBackend):
    """A subclass that marks every text and refuses the key `no`; `late`: whose expiry it moves."""

    def set(self, scope: Scope, key: str, value: str, *, expires_at: datetime | None = None, session: Any = None) -> None:
        if key == "no":
            raise LookupError("refused")
        if key == "late":
            expires_at = datetime(2030, 1, 1, tzinfo=timezone.utc)
        super().set(scope, key, f"[{value}]", expires_at=expires_at, session=session)

    async def aset(
        self, scope: Scope, key: str, value: str, *, expires_at: datetime | None = None, session: Any = None
    ) -> None:
        if key == "no":
            raise LookupError("refused")
        if key == "late":
            expires_at = datetime(2030, 1, 1, tzinfo=timezone.utc)
        await super().aset(scope, key, f"[{value}]", expires_at=expires_at, session=session)


class HidingBackend(MetastoreStateBackend):
    """A subclass that stores every text as hexadecimal digits, and reads it back."""

    def get(self, scope: Scope, key: str, *, session: Any = None) -> str | None:
        text = super().get(scope, key, session=session)
        return None if text is None else bytes.fromhex(json.loads(text)).decode()

    def set(self, scope: Scope, key: str, value: str, *, expires_at: datetime | None = None, session: Any = None) -> None:
        super().set(scope, key, f'"{value.encode().hex()}"', expires_at=expires_at, session=session)

    async def aget(self, scope: Scope, key: str, *, session: Any = None) -> str | None:
        text = await super().aget(scope, key, session=session)
        return None if text is None else bytes.fromhex(json.loads(text)).decode()

    async def aset(
        self, scope: Scope, key: str, value: str, *, expires_at: datetime | None = None, session: Any = None
    ) -> None:
        await super().aset(scope, key, f'"{value.encode().hex()}"', expires_at=expires_at, session=session)


class WrappingBackend(BaseStateBackend):
    """One that holds the default backend and stores every text under another key."""

    def __init__(self) -> None:
        self.inner = MetastoreStateBackend()

    def get(self, scope: Scope, key: str, *, session: Any = None) -> str | None:
        return self.inner.get(scope, f"w/{key}", session=session)

    def set(self, scope: Scope, key: str, value: str, *, expires_at: datetime | None = None, session: Any = None) -> None:
        self.inner.set(scope, f"w/{key}", value, expires_at=expires_at, session=session)

    def delete(self, scope: Scope, key: str, *, session: Any = None) -> None:
        self.inner.delete(scope, f"w/{key}", session=session)

    def clear(self, scope: Scope, *, all_map_indices: bool = False, session: Any = None) -> None:
        self.inner.clear(scope, all_map_indices=all_map_indices, session=session)

    async def aget(self, scope: Scope, key: str, *, session: Any = None) -> str | None:
        return await self.inner.aget(scope, f"w/{key}", session=session)

    async def aset(
        self, scope: Scope, key: str, value: str, *, expires_at: datetime | None = None, session: Any = None
    ) -> None:
        await self.inner.aset(scope, f"w/{key}", value, expires_at=expires_at, session=session)

    async def adelete(self, scope: Scope, key: str, *, session: Any = None) -> None:
        await self.inner.adelete(scope, f"w/{key}", session=session)

    async def aclear(self, scope: Scope, *, all_map_indices: bool = False, session: Any = None) -> None:
        await self.inner.aclear(scope, all_map_indices=all_map_indices, session=session)


class PickyBackend(DictBackend):
    """One that cannot be made without arguments."""

    def __init__(self, folder: str) -> None:
        self.folder = folder


class NotABackend:
    """No backend at all."""
