"""Stores of a task that has none, and how it is known whether a task used those it has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, TypeVar

from milepost.abc import Metastore
from milepost.accessors import AssetStoreAccessor, AssetStoreAccessors, TaskStoreAccessor
from milepost.calls import Call, Handle
from milepost.errors import MilepostError
from milepost.references import asset_scope, is_alias
from milepost.scopes import AssetScope, TaskScope

__all__ = ["Watched", "unreachable_stores"]

R = TypeVar("R")


class Watched(Metastore):
    """A metastore that remembers whether it was asked for anything.

    Args:
        metastore: The one that does the work. Closing this one leaves it open.

    Attributes:
        used: Whether there was a call since this was last set to `False`.
    """

    def __init__(self, metastore: Metastore) -> None:
        self._metastore = metastore
        self.used = False

    def call(self, call: Call[R], /) -> R:
        """Run a call; see `Metastore.call`."""
        self.used = True
        return self._metastore.call(call)

    async def acall(self, call: Call[R], /) -> R:
        """Run a call; see `Metastore.acall`."""
        self.used = True
        return await self._metastore.acall(call)

    def now(self) -> int:
        """Return the time; see `Metastore.now`."""
        return self._metastore.now()

    def verify(self) -> None:
        """Check the schema; see `Metastore.verify`."""
        self._metastore.verify()

    def close(self) -> None:
        """Nothing: other attempts of the process go on with the same metastore."""

    async def aclose(self) -> None:
        """Nothing, as `close`."""


class _Unreachable(Metastore):
    """A metastore that raises at every call why there is none."""

    def __init__(self, reason: MilepostError) -> None:
        self._reason = reason

    def _raise(self) -> NoReturn:
        raise self._reason.with_traceback(None)

    def call(self, call: Call[R], /) -> R:  # noqa: ARG002
        """Raise."""
        self._raise()

    async def acall(self, call: Call[R], /) -> R:  # noqa: ARG002
        """Raise."""
        self._raise()

    def now(self) -> int:
        """Raise."""
        self._raise()

    def verify(self) -> None:
        """Raise."""
        self._raise()

    def close(self) -> None:
        """Nothing."""

    async def aclose(self) -> None:
        """Nothing."""


def unreachable_stores(
    reason: MilepostError, scope: TaskScope, inlets: Iterable[Any], outlets: Iterable[Any]
) -> Mapping[str, Any]:
    """Return stores like those of an attempt, which raise ``reason`` at the first call.

    Args:
        reason: Why there are none.
        scope: The task instance.
        inlets: The assets that the task reads.
        outlets: The assets that it writes.
    """
    metastore = _Unreachable(reason)
    asset_scopes = [_scopes(inlets), _scopes(outlets)]
    every = dict.fromkeys(one for scopes in asset_scopes for one in scopes)
    names = {number: (one.name or one.uri or "", one.uri or one.name or "") for number, one in enumerate(every, start=1)}
    accessors = {
        number: AssetStoreAccessor(metastore, Handle(AssetScope(number, *both), "", owner_id=number), 0)
        for number, both in names.items()
    }
    return {
        "task_store": TaskStoreAccessor(metastore, Handle(scope, ""), 0),
        "asset_store": AssetStoreAccessors(accessors, names, *asset_scopes),
    }


def _scopes(assets: Iterable[Any]) -> list[AssetScope]:
    named = (asset for asset in assets if any(isinstance(getattr(asset, name, None), str) for name in ("name", "uri")))
    return [asset_scope(asset) for asset in named if not is_alias(asset)]
