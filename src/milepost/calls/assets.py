"""Assets: which there are, who refers to them, and the calls that only their values have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from milepost.asset_records import AssetChanges, AssetRecord
from milepost.calls.base import Call, Handle, Item
from milepost.ordering import Order
from milepost.run_records import Archive
from milepost.scopes import AssetScope

__all__ = [
    "Advance",
    "AssetArchives",
    "AssetPage",
    "AssetRows",
    "AttachAsset",
    "CopyAsset",
    "DeclareAssets",
    "FindAsset",
    "Held",
    "HeldKeys",
    "History",
    "ListAssets",
    "Past",
    "RestoreAsset",
    "Rollback",
    "SetActive",
    "Stage",
    "Sweep",
    "Swept",
]


@dataclass(eq=False, slots=True)
class FindAsset(Call[tuple[int, str, str]]):
    """Number, name and URI of an asset; ``register``: record it as active if it is unknown.

    Only a scope with both name and URI, that of a declared asset, is recorded; any other is a reference to one.

    Raises:
        AssetNotFoundError: Unknown.
        ValueError: The names given lead to two different assets.
    """

    scope: AssetScope
    register: bool = False


@dataclass(eq=False, slots=True)
class ListAssets(Call[list[AssetRecord]]):
    """Records of assets by name, URI and number; `None` selects all.

    Args:
        scope: Only what `FindAsset` finds; nothing found: an empty list.
        active: Only active ones, or only deactivated ones.
        dag_id: Only those that this DAG refers to.

    Raises:
        ValueError: The names given lead to two different assets.
    """

    scope: AssetScope | None = None
    active: bool | None = None
    dag_id: str | None = None


class AssetRows(NamedTuple):
    """The answer to `AssetPage`: records, and how many there are on all pages, where that was asked for."""

    records: list[AssetRecord]
    total: int | None


@dataclass(eq=False, slots=True)
class AssetPage(Call[AssetRows]):
    """One page of the records of assets, by number; `None` selects all.

    Args:
        active: Only active ones, or only deactivated ones.
        dag_id: Only those that this DAG refers to.
        prefix: Only those whose name or URI starts with it.
        after: The page begins after this number.
        offset: How many records to leave out besides.
        limit: The most records.
        counted: Whether to count the records of all pages, which takes as long as there are many.
    """

    active: bool | None
    dag_id: str | None
    prefix: str
    after: int
    offset: int
    limit: int
    counted: bool


class Held(NamedTuple):
    """The answer to `HeldKeys`: how many keys (`None`: a backend keeps them, and nobody can tell), and the first of them."""

    keys: int | None
    first: list[str]


@dataclass(eq=False, slots=True)
class HeldKeys(Call[Held]):
    """What a sweep would take with an asset, which may be deactivated.

    Args:
        asset: Its number; of one that is gone there are no keys.
        limit: The most keys to name.
    """

    asset: int
    limit: int


@dataclass(eq=False, slots=True)
class DeclareAssets(Call[AssetChanges]):
    """Replace what some DAGs refer to, all or nothing (SPEC section 5, lifetime).

    Declared assets that are unknown are recorded, references to unknown ones left out. A reference that the DAG had not
    before activates its asset. An asset whose last reference went, and that no alias stands for, is deactivated.

    Args:
        dags: By the id of a DAG, what it refers to and how (`milepost.asset_records.DIRECTIONS`).
        writer: Who declares it, as rows hold it.

    Raises:
        ValueError: The names of one lead to two different assets.
    """

    dags: Mapping[str, Sequence[tuple[AssetScope, str]]]
    writer: str


@dataclass(eq=False, slots=True)
class SetActive(Call[AssetRecord]):
    """Activate or deactivate an asset, by command; nothing if it is so already.

    Raises:
        AssetNotFoundError: Unknown.
        ValueError: The names given lead to two different assets.
    """

    scope: AssetScope
    active: bool
    writer: str


@dataclass(eq=False, slots=True)
class AttachAsset(Call[AssetRecord]):
    """Let an alias stand for an asset, which is recorded and activated if need be; ``attached`` false: no longer.

    An asset that loses its last alias and has no references is deactivated.

    Raises:
        AssetNotFoundError: A reference to an unknown asset, or with ``attached`` false any unknown one.
        ValueError: The names given lead to two different assets.
    """

    alias: str
    scope: AssetScope
    attached: bool
    writer: str


@dataclass(eq=False, slots=True)
class Advance(Call[tuple[Any, Any]]):
    """Write if the key is absent or the value lies beyond the stored one; text and encoding of what is stored afterwards.

    Raises:
        TypeError: The two cannot be compared; nothing was written.
    """

    handle: Handle
    item: Item
    order: Order = None


class Past(NamedTuple):
    """An earlier value of a key, as stored."""

    value: Any
    encoding: Any
    version: Any
    created_at: Any
    updated_at: Any
    writer: Any
    replaced_at: Any
    replaced_by: Any
    cause: Any


@dataclass(eq=False, slots=True)
class History(Call[list[Past]]):
    """The latest ``limit`` earlier values of a key, newest first."""

    handle: Handle
    key: str
    limit: int


@dataclass(eq=False, slots=True)
class Rollback(Call[str]):
    """Write the value that an earlier version had, as ``version``; nothing if ``past`` or ``version`` is current already.

    The answer is the current version.

    Raises:
        NotFoundError: The history has no such version.
    """

    handle: Handle
    key: str
    past: str
    version: str


@dataclass(eq=False, slots=True)
class Stage(Call[None]):
    """Keep a value until the attempt succeeds (`Finish` writes it then) or no longer can (it is dropped).

    A value staged again under the key takes the place of the first, or with ``advance`` only if it lies beyond it.

    Raises:
        StaleAttemptError: The attempt is not the current one.
        InstanceStateError: It has ended.
        AssetNotActiveError: The asset is deactivated.
        TypeError: With ``advance``: it cannot be compared with what is stored or staged.
    """

    handle: Handle
    item: Item
    advance: bool = False
    order: Order = None


@dataclass(eq=False, slots=True)
class CopyAsset(Call[int]):
    """Write all keys of one asset to another, all or nothing; how many.

    Raises:
        ConflictError: The target has one of the keys, and ``force`` is not set.
        AssetNotActiveError: The target is deactivated. The source may be.
    """

    repeatable: ClassVar[bool] = False

    source: Handle
    target: Handle
    force: bool


@dataclass(eq=False, slots=True)
class AssetArchives(Call[list[Archive]]):
    """What was deleted or cleared of an asset and is still in its history, newest first."""

    handle: Handle


@dataclass(eq=False, slots=True)
class RestoreAsset(Call[int]):
    """Bring an archive of an asset back (default: the newest); the number of keys.

    Raises:
        ArchiveNotFoundError: No such archive.
        ConflictError: One of its keys is live, and ``force`` is not set.
        AssetNotActiveError: The asset is deactivated.
    """

    repeatable: ClassVar[bool] = False

    handle: Handle
    archive: int | None
    force: bool


class Swept(NamedTuple):
    """The answer to `Sweep`: how many rows went, and the asset that is gone since."""

    rows: int
    asset: AssetScope | None


@dataclass(eq=False, slots=True)
class Sweep(Call[Swept]):
    """One bounded step of the orphan sweep: remove an asset that is due, or a batch of what swept ones have left.

    An asset is due if it was deactivated before the cutoff and nothing reads it: no DAG refers to it but as an outlet,
    and no alias stands for it. It is gone at once, with its references; its entries and its history follow in batches.

    Args:
        batch: The most rows.
        cutoff: Microseconds UTC.
        writer: Who sweeps, as rows hold it.
    """

    repeatable: ClassVar[bool] = False

    batch: int
    cutoff: int
    writer: str
