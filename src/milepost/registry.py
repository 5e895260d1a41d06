"""The registry of assets: which there are, who refers to them, whether they are active."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from milepost import calls
from milepost.abc import Metastore
from milepost.asset_records import DIRECTIONS, AssetChanges, AssetRecord
from milepost.calls import Handle
from milepost.checks import check_flag, check_number
from milepost.entry import Writer
from milepost.errors import InvalidValueError, UnsupportedTypeError
from milepost.program import Program, arun, run
from milepost.references import asset_scope, is_alias
from milepost.run_records import Archive
from milepost.scopes import MAX_ASSET_CHARS, MAX_ID_CHARS, AssetScope, check_text

if TYPE_CHECKING:
    from builtins import list as List  # noqa: N812  (the class has a method named list)

__all__ = ["Assets"]


class Assets:
    """Finds, activates and deactivates assets, and records who refers to them. In Python: ``store.assets``.

    Every method has a twin whose name starts with ``a``, which does not block the event loop. An asset is given as an
    `Asset`, a reference to one by name or by URI, or an `AssetScope` with its number.

    Args:
        metastore: Where the state is kept.
        writer: Who acts.

    .. versionadded:: 0.1
    """

    def __init__(self, metastore: Metastore, writer: Writer) -> None:
        self._metastore = metastore
        self._writer = writer.encode()

    # -- look -----------------------------------------------------------------------------------------------------

    def list(self, *, active: bool | None = None, dag_id: str | None = None) -> List[AssetRecord]:
        """Return records by name and URI.

        Args:
            active: Only active ones (`True`) or only deactivated ones (`False`).
            dag_id: Only those that this DAG refers to.
        """
        return self._metastore.call(_list(active, dag_id))

    async def alist(self, *, active: bool | None = None, dag_id: str | None = None) -> List[AssetRecord]:
        """As `list`."""
        return await self._metastore.acall(_list(active, dag_id))

    def get(self, asset: Any) -> AssetRecord | None:
        """Return the record of an asset, or `None` if it is unknown.

        Raises:
            TypeError: Not an asset.
            ValueError: It leads to two different assets.
        """
        return next(iter(self._metastore.call(calls.ListAssets(asset_scope(asset)))), None)

    async def aget(self, asset: Any) -> AssetRecord | None:
        """As `get`."""
        return next(iter(await self._metastore.acall(calls.ListAssets(asset_scope(asset)))), None)

    # -- active or not --------------------------------------------------------------------------------------------

    def register(self, asset: Any) -> AssetRecord:
        """Record an asset, active, if it is unknown. One that is known stays as it is, deactivated too.

        An asset that no DAG ever referred to stays active until it is deactivated here.

        Raises:
            TypeError: Not an asset.
            AssetNotFoundError: A reference to an unknown one.
            ValueError: It leads to two different assets.
        """
        return run(self._metastore, self._register(asset))

    async def aregister(self, asset: Any) -> AssetRecord:
        """As `register`."""
        return await arun(self._metastore, self._register(asset))

    @staticmethod
    def _register(asset: Any) -> Program[AssetRecord]:
        number, *_ = yield calls.FindAsset(asset_scope(asset), register=True)
        records: List[AssetRecord] = yield calls.ListAssets(AssetScope(number))
        return records[0]

    def activate(self, asset: Any) -> AssetRecord:
        """Activate an asset; its state is as it was. Nothing if it is active.

        Raises:
            TypeError: Not an asset.
            AssetNotFoundError: It is unknown, or has been swept.
            ValueError: It leads to two different assets.
        """
        return self._metastore.call(self._switch(asset, active=True))

    async def aactivate(self, asset: Any) -> AssetRecord:
        """As `activate`."""
        return await self._metastore.acall(self._switch(asset, active=True))

    def deactivate(self, asset: Any) -> AssetRecord:
        """Deactivate an asset: writes are refused, reads find nothing. Nothing if it is deactivated.

        After ``orphan_grace_hours`` a collection removes it with its state, unless something reads it: a DAG refers to it as
        an inlet, is scheduled by it or watches it, or an alias stands for it. Loading a DAG that referred to it before does
        not activate it again; `activate` does, and so does a DAG that refers to it anew.

        Raises:
            TypeError: Not an asset.
            AssetNotFoundError: It is unknown.
            ValueError: It leads to two different assets.
        """
        return self._metastore.call(self._switch(asset, active=False))

    async def adeactivate(self, asset: Any) -> AssetRecord:
        """As `deactivate`."""
        return await self._metastore.acall(self._switch(asset, active=False))

    def _switch(self, asset: Any, *, active: bool) -> calls.SetActive:
        return calls.SetActive(asset_scope(asset), active, self._writer)

    # -- who refers to them ---------------------------------------------------------------------------------------

    def declare(
        self,
        dag_id: str,
        *,
        inlets: Iterable[Any] = (),
        outlets: Iterable[Any] = (),
        schedule: Iterable[Any] = (),
        watched: Iterable[Any] = (),
    ) -> AssetChanges:
        """Replace what a DAG refers to, as loading it does. Without assets: the DAG is gone.

        Assets that are unknown are recorded. One that the DAG did not refer to before is activated. One that no DAG refers
        to any more, and that no alias stands for, is deactivated. What other DAGs refer to stays.

        Args:
            dag_id: The DAG.
            inlets: Assets that its tasks read; aliases among them, and in the others, are passed over.
            outlets: Assets that its tasks write.
            schedule: Assets that it is scheduled by.
            watched: Assets that its triggers watch.

        Returns:
            What that changed.

        Raises:
            TypeError: One of them is no asset.
            ValueError: One of them leads to two different assets; nothing was changed.
        """
        return self._metastore.call(self._declare({dag_id: (inlets, outlets, schedule, watched)}))

    async def adeclare(
        self,
        dag_id: str,
        *,
        inlets: Iterable[Any] = (),
        outlets: Iterable[Any] = (),
        schedule: Iterable[Any] = (),
        watched: Iterable[Any] = (),
    ) -> AssetChanges:
        """As `declare`."""
        return await self._metastore.acall(self._declare({dag_id: (inlets, outlets, schedule, watched)}))

    def declare_many(self, dags: Mapping[str, Mapping[str, Iterable[Any]]]) -> AssetChanges:
        """Replace what several DAGs refer to, all or nothing, as loading their file does.

        Args:
            dags: By the id of each DAG a dict with any of ``inlets``, ``outlets``, ``schedule`` and ``watched``.

        Returns:
            What that changed.

        Raises:
            TypeError: One of them is no asset.
            ValueError: One of them leads to two different assets; nothing was changed.
        """
        return self._metastore.call(self._declare(_groups(dags)))

    async def adeclare_many(self, dags: Mapping[str, Mapping[str, Iterable[Any]]]) -> AssetChanges:
        """As `declare_many`."""
        return await self._metastore.acall(self._declare(_groups(dags)))

    def _declare(self, dags: Mapping[str, Sequence[Iterable[Any]]]) -> calls.DeclareAssets:
        references = {
            check_text(dag_id, "dag_id", MAX_ID_CHARS): [
                (asset_scope(asset), direction)
                for direction, assets in zip(DIRECTIONS, groups, strict=True)
                for asset in assets
                if not is_alias(asset)
            ]
            for dag_id, groups in dags.items()
        }
        return calls.DeclareAssets(references, self._writer)

    def attach(self, alias: Any, asset: Any) -> AssetRecord:
        """Let an alias stand for an asset: tasks with that alias among their inlets have the asset among them from then on.

        The asset is recorded and activated if need be, and stays active while an alias stands for it.

        Args:
            alias: An `AssetAlias`, or its name.
            asset: The asset.

        Raises:
            TypeError: Not an alias, or not an asset.
            AssetNotFoundError: A reference to an unknown asset.
        """
        return self._metastore.call(self._attach(alias, asset, attached=True))

    async def aattach(self, alias: Any, asset: Any) -> AssetRecord:
        """As `attach`."""
        return await self._metastore.acall(self._attach(alias, asset, attached=True))

    def detach(self, alias: Any, asset: Any) -> AssetRecord:
        """Let an alias no longer stand for an asset; nothing if it does not. An asset that nothing else uses is deactivated.

        Raises:
            TypeError: Not an alias, or not an asset.
            AssetNotFoundError: The asset is unknown.
        """
        return self._metastore.call(self._attach(alias, asset, attached=False))

    async def adetach(self, alias: Any, asset: Any) -> AssetRecord:
        """As `detach`."""
        return await self._metastore.acall(self._attach(alias, asset, attached=False))

    def _attach(self, alias: Any, asset: Any, *, attached: bool) -> calls.AttachAsset:
        if not (isinstance(alias, str) or is_alias(alias)):
            raise UnsupportedTypeError(f"not an alias: {alias!r} ({type(alias).__name__}); give an AssetAlias or its name")
        name = check_text(alias if isinstance(alias, str) else alias.name, "alias name", MAX_ASSET_CHARS)
        return calls.AttachAsset(name, asset_scope(asset), attached, self._writer)

    # -- their state as a whole -----------------------------------------------------------------------------------

    def copy(self, source: Any, target: Any, *, force: bool = False) -> int:
        """Write all keys of one asset to another, all or nothing. Versions are new; the history stays where it is.

        Args:
            source: The asset to read; one that is deactivated still has its state.
            target: The asset to write; it must be known.
            force: Write over keys that the target has.

        Returns:
            The number of keys.

        Raises:
            TypeError: Not an asset.
            AssetNotFoundError: One of them is unknown.
            AssetNotActiveError: The target is deactivated.
            ConflictError: The target has one of the keys, and ``force`` is not set; nothing was written.
            ValueError: They are one and the same.
        """
        return run(self._metastore, self._copy(source, target, force))

    async def acopy(self, source: Any, target: Any, *, force: bool = False) -> int:
        """As `copy`."""
        return await arun(self._metastore, self._copy(source, target, force))

    def _copy(self, source: Any, target: Any, force: bool) -> Program[int]:
        one = yield from self._handle(source)
        other = yield from self._handle(target)
        if one.owner_id == other.owner_id:
            raise InvalidValueError(f"{one.scope} cannot be copied to itself")
        count: int = yield calls.CopyAsset(one, other, force)
        return count

    def archives(self, asset: Any) -> List[Archive]:
        """Return what was deleted or cleared of an asset and is still in its history, newest first.

        Raises:
            TypeError: Not an asset.
            AssetNotFoundError: It is unknown.
        """
        return run(self._metastore, self._archives(asset))

    async def aarchives(self, asset: Any) -> List[Archive]:
        """As `archives`."""
        return await arun(self._metastore, self._archives(asset))

    def _archives(self, asset: Any) -> Program[List[Archive]]:
        found: List[Archive] = yield calls.AssetArchives((yield from self._handle(asset)))
        return found

    def restore(self, asset: Any, *, archive: int | None = None, force: bool = False) -> int:
        """Bring back what was deleted or cleared.

        Args:
            asset: The asset.
            archive: An `Archive.id`; by default the newest.
            force: Write over live keys that are in the way; the history keeps them.

        Returns:
            The number of keys that came back.

        Raises:
            TypeError: Not an asset.
            AssetNotFoundError: It is unknown.
            ArchiveNotFoundError: There is no such archive.
            AssetNotActiveError: It is deactivated.
            ConflictError: A key of the archive is live, and ``force`` is not set; nothing was written.
        """
        return run(self._metastore, self._restore(asset, archive, force))

    async def arestore(self, asset: Any, *, archive: int | None = None, force: bool = False) -> int:
        """As `restore`."""
        return await arun(self._metastore, self._restore(asset, archive, force))

    def _restore(self, asset: Any, archive: int | None, force: bool) -> Program[int]:
        number = None if archive is None else check_number(archive, "archive", -(2**63), 2**63 - 1)
        check_flag(force, "force")
        count: int = yield calls.RestoreAsset((yield from self._handle(asset)), number, force)
        return count

    def _handle(self, asset: Any) -> Program[Handle]:
        number, name, uri = yield calls.FindAsset(asset_scope(asset))
        return Handle(AssetScope(number, name, uri), self._writer, owner_id=number)


def _groups(dags: Mapping[str, Mapping[str, Iterable[Any]]]) -> dict[str, tuple[Iterable[Any], ...]]:
    names = ("inlets", "outlets", "schedule", "watched")
    for dag_id, assets in dags.items():
        if unknown := set(assets) - set(names):
            raise InvalidValueError(f"a DAG ({dag_id}) refers to assets as {', '.join(names)}, not {sorted(unknown)[0]!r}")
    return {dag_id: tuple(assets.get(name, ()) for name in names) for dag_id, assets in dags.items()}


def _list(active: bool | None, dag_id: str | None) -> calls.ListAssets:
    if active not in (True, False, None):
        raise UnsupportedTypeError(f"active must be True, False or None, not {active!r}")
    return calls.ListAssets(None, active, None if dag_id is None else check_text(dag_id, "dag_id", MAX_ID_CHARS))
