"""What a store tells about assets: records, references, earlier values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal, NamedTuple

from milepost.entry import Writer
from milepost.scopes import AssetScope

__all__ = ["DIRECTIONS", "AssetChanges", "AssetRecord", "AssetReference", "Direction", "PastEntry"]

Direction = Literal["inlet", "outlet", "schedule", "watch"]

DIRECTIONS: Final = ("inlet", "outlet", "schedule", "watch")
"""How a DAG can refer to an asset: a task reads or writes it, the DAG is scheduled by it, a trigger watches it."""


@dataclass(frozen=True, slots=True)
class AssetReference:
    """One DAG that refers to an asset.

    Args:
        dag_id: The DAG.
        direction: ``inlet``, ``outlet``, ``schedule`` or ``watch``.

    .. versionadded:: 0.1
    """

    dag_id: str
    direction: Direction


@dataclass(frozen=True, slots=True)
class AssetRecord:
    """What is recorded of one asset.

    Args:
        id: Its number, never used for another asset.
        name: Its name.
        uri: Its URI; the same as the name where only one of them was given.
        active: Whether it can be read and written.
        created_at: When it was first recorded (aware, UTC).
        updated_at: When its record last changed (aware, UTC).
        references: The DAGs that refer to it.
        aliases: The aliases that stand for it, sorted.
        deactivated_at: When it was deactivated (aware, UTC); `None` while it is active.
        deactivated_by: Who did that.
        cause: Why: ``command``, or ``unreferenced``: no DAG refers to it any more.
        damaged: What of its record somebody damaged, so that something else stands for it here; `None` if all is sound.

    .. versionadded:: 0.1
    """

    id: int
    name: str
    uri: str
    active: bool
    created_at: datetime
    updated_at: datetime
    references: tuple[AssetReference, ...] = ()
    aliases: tuple[str, ...] = ()
    deactivated_at: datetime | None = None
    deactivated_by: Writer | None = None
    cause: str | None = None
    damaged: str | None = None

    @property
    def scope(self) -> AssetScope:
        """Its number and both of its names."""
        return AssetScope(self.id, self.name, self.uri)

    def kept_until(self, grace_hours: float) -> datetime | None:
        """Return when a collection may remove it with its state (aware, UTC).

        Args:
            grace_hours: ``orphan_grace_hours``.

        Returns:
            `None` while it is active, and while something reads it: a DAG that refers to it but as an outlet, or an alias.
        """
        read = self.aliases or any(one.direction != "outlet" for one in self.references)
        if self.active or self.deactivated_at is None or read:
            return None
        try:
            return self.deactivated_at + timedelta(hours=grace_hours)
        except OverflowError:
            return None  # beyond year 9999


@dataclass(frozen=True, slots=True)
class AssetChanges:
    """What declaring the assets of a DAG changed.

    Args:
        added: Assets recorded for the first time.
        activated: Assets that were deactivated and are active again.
        deactivated: Assets that no DAG refers to any more.

    .. versionadded:: 0.1
    """

    added: tuple[AssetScope, ...] = ()
    activated: tuple[AssetScope, ...] = ()
    deactivated: tuple[AssetScope, ...] = ()


class PastEntry(NamedTuple):
    """An earlier value of an asset's key.

    A tuple, unlike `Entry`, because it comes by the hundred: a frozen dataclass takes ten times as long to make.

    Args:
        key: The key.
        value: The value; a `DamagedValue` where something of the row cannot be read.
        version: An opaque text that no other write ever has.
        created_at: When the key came into being (aware, UTC).
        updated_at: When this value was written (aware, UTC).
        writer: Who wrote it.
        replaced_at: When another value took its place, or it was deleted (aware, UTC).
        replaced_by: Who did that.
        cause: How: ``set``, ``advance``, ``stage``, ``rollback``, ``restore``, ``copy``, ``delete`` or ``clear``.

    .. versionadded:: 0.1
    """

    key: str
    value: Any
    version: str
    created_at: datetime
    updated_at: datetime
    writer: Writer
    replaced_at: datetime
    replaced_by: Writer
    cause: str
