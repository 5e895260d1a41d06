"""The two interfaces that a store can be built on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Protocol, TypeVar

from milepost.calls import Call
from milepost.scopes import Scope

__all__ = ["BaseStateBackend", "BaseStoreBackend", "Metastore", "Policy"]

R = TypeVar("R")


class Policy(Protocol):
    """The settings that a metastore itself obeys."""

    @property
    def on_clear(self) -> str:
        """``discard`` or ``keep``, where neither call nor task says."""
        ...

    @property
    def clear_on_success(self) -> bool:
        """Whether success drops an instance's keys, where the task does not say."""
        ...

    @property
    def max_value_bytes(self) -> int:
        """The most bytes of a value; 0: no limit."""
        ...

    @property
    def asset_history_limit(self) -> int:
        """Earlier values kept per asset key; 0: none."""
        ...


class Metastore(ABC):
    """Where everything is kept.

    There is one way in: a call (see `milepost.calls`, which says what each one does) is run as a whole or not at all.
    Metastores are safe to use from several threads and tasks, and after a fork unless they say otherwise.

    Attributes:
        found_schema: The version of the schema that was there when the metastore was opened, 0 for none; `None` where that
            is not known.

    .. versionadded:: 0.1
    """

    found_schema: int | None = None

    @abstractmethod
    def call(self, call: Call[R], /) -> R:
        """Run a call.

        Args:
            call: What to do.

        Returns:
            The answer that the class of the call names. What it wrote is durable.

        Raises:
            MilepostError: As the class of the call says, or `StoreError` where the store itself is in trouble;
                nothing was written then.
        """

    @abstractmethod
    async def acall(self, call: Call[R], /) -> R:
        """Run a call without blocking the event loop. As `call` otherwise."""

    @abstractmethod
    def now(self) -> int:
        """Return the time in microseconds UTC as far as it is known without asking a server (`milepost.calls.Now` asks)."""

    @abstractmethod
    def verify(self) -> None:
        """Check, changing nothing, that the schema is the one this release needs.

        Raises:
            SchemaTooNewError: A newer release wrote it.
            SchemaOutdatedError: It has to be upgraded first.
            DamagedStoreError: It is no Milepost store, or corrupt.
        """

    @abstractmethod
    def close(self) -> None:
        """Give back all connections. Closing twice is no error; calls after it raise `StoreClosedError`."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close without blocking the event loop."""


class BaseStateBackend(ABC):
    """The simple interface for users' own stores: eight methods that keep JSON text under a scope and a key.

    A subclass can be named as ``[state_store] backend``. Keys and values arrive checked. ``session`` is opaque: hand it
    on to a wrapped backend, or leave it alone. A key is absent where ``get`` returns `None`.

    ``set`` may take one keyword more, ``never_expires``: `True` where the caller asked for `NEVER_EXPIRE`. It is passed
    only if the signature takes it. ``expires_at`` is `None` both for that and for the default retention.

    Two more methods are optional: ``cleanup()`` and ``list(scope)``.

    .. versionadded:: 0.1
    """

    @abstractmethod
    def get(self, scope: Scope, key: str, *, session: Any = None) -> str | None:
        """Return the JSON text under ``key``, or `None` if there is none."""

    @abstractmethod
    def set(self, scope: Scope, key: str, value: str, *, expires_at: datetime | None = None, session: Any = None) -> None:
        """Keep JSON text under ``key``, over any earlier one; durable when it returns.

        Args:
            scope: The task instance or asset.
            key: The key.
            value: JSON text.
            expires_at: When the entry is to go (aware, UTC), or `None`.
            session: Opaque.
        """

    @abstractmethod
    def delete(self, scope: Scope, key: str, *, session: Any = None) -> None:
        """Drop ``key``; nothing if it is absent."""

    @abstractmethod
    def clear(self, scope: Scope, *, all_map_indices: bool = False, session: Any = None) -> None:
        """Drop all keys of ``scope``; with ``all_map_indices`` those of every index of the same task and run."""

    @abstractmethod
    async def aget(self, scope: Scope, key: str, *, session: Any = None) -> str | None:
        """As `get`, without blocking the event loop."""

    @abstractmethod
    async def aset(
        self, scope: Scope, key: str, value: str, *, expires_at: datetime | None = None, session: Any = None
    ) -> None:
        """As `set`, without blocking the event loop."""

    @abstractmethod
    async def adelete(self, scope: Scope, key: str, *, session: Any = None) -> None:
        """As `delete`, without blocking the event loop."""

    @abstractmethod
    async def aclear(self, scope: Scope, *, all_map_indices: bool = False, session: Any = None) -> None:
        """As `clear`, without blocking the event loop."""

    def cleanup(self) -> None:
        """Remove what has expired. Called by a collection; without it, a collection skips the backend and says so.

        Raises:
            NotImplementedError: The backend does not collect.
        """
        raise NotImplementedError(f"{type(self).__name__} has no cleanup()")

    def list(self, scope: Scope) -> Iterable[str]:
        """Return the keys of ``scope``.

        Raises:
            NotImplementedError: The backend does not list.
        """
        raise NotImplementedError(f"{type(self).__name__} has no list(scope)")


BaseStoreBackend = BaseStateBackend
"""Another name of `BaseStateBackend`."""
