"""Which event is which: ids for events that come without one."""

from __future__ import annotations

import secrets
from collections import Counter
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from milepost import calls
from milepost.abc import Metastore
from milepost.scopes import AssetScope
from milepost.values import canonical

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.calls import Call, Handle
    from milepost.sdk.triggers import TriggerEvent

__all__ = ["EventIds", "Noticing"]


class Noticing(Metastore):
    """Hands all calls on, and notices that there was one.

    Args:
        inner: The metastore.

    Attributes:
        used: Whether there was a call.
    """

    def __init__(self, inner: Metastore) -> None:
        self.inner = inner
        self.used = False

    def call(self, call: Call[Any], /) -> Any:
        """Run a call; see `Metastore.call`."""
        self.used = True
        return self.inner.call(call)

    async def acall(self, call: Call[Any], /) -> Any:
        """Run a call; see `Metastore.acall`."""
        self.used = True
        return await self.inner.acall(call)

    def now(self) -> int:
        """Return the metastore's time."""
        return self.inner.now()

    def verify(self) -> None:
        """Check the metastore's schema."""
        self.inner.verify()

    def close(self) -> None:
        """Leave the metastore open: it serves all triggers."""

    async def aclose(self) -> None:
        """Leave the metastore open: it serves all triggers."""


class EventIds:
    """Names the events of one trigger.

    A trigger that has used its stores has a cursor in them, and without one every event is another. With one, an event is
    told from others by its payload, by where the cursor stands, and by how often that payload came since the cursor moved:
    so a trigger that is started again, and finds the cursor where it was, yields the same events under the same ids.
    Triggers of one asset are told apart by the names of their watchers.

    Args:
        store: What the trigger uses its stores through.
        handles: The assets that it watches.
    """

    def __init__(self, store: Noticing, handles: Sequence[Handle]) -> None:
        self._store = store
        self._handles = handles
        self._cursor = b""
        self._seen: Counter[bytes] = Counter()

    def start(self) -> None:
        """Begin anew: the trigger has been started again."""
        self._seen.clear()

    async def name(self, event: TriggerEvent) -> str:
        """Return the id of an event.

        Raises:
            ValueError: The payload is no JSON.
            TypeError: The payload is of a type that JSON does not have.
        """
        if event.id is not None:
            return event.id
        if not self._store.used:
            return secrets.token_hex(16)
        cursor = await self._read_cursor()
        if cursor != self._cursor:
            self._cursor = cursor
            self._seen.clear()
        payload = "null" if event.payload is None else canonical(event.payload)
        base = blake2b(cursor + payload.encode(), digest_size=16).digest()
        self._seen[base] += 1
        return blake2b(base + str(self._seen[base]).encode(), digest_size=16).hexdigest()

    async def _read_cursor(self) -> bytes:
        """Return a digest of what the trigger has stored: tasks and other triggers of the asset move no cursor of it."""
        digest = blake2b(digest_size=16)
        for handle in self._handles:
            assert isinstance(handle.scope, AssetScope)
            digest.update(repr((handle.scope.name, handle.scope.uri, handle.writer)).encode())
            for row in await self._store.inner.acall(calls.Items(handle)):
                # A user's backend knows neither writers nor versions.
                if row.writer in (None, handle.writer):
                    digest.update(f"{row.key!r} {row.version or row.value}\n".encode())
        return digest.digest()
