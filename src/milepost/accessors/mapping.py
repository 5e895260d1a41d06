"""A task's assets: subscript, iteration and the shorthand for the only one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from milepost import calls
from milepost.accessors.asset import AssetStoreAccessor
from milepost.errors import AssetNotFoundError, InvalidValueError, UnsupportedTypeError
from milepost.references import asset_scope, is_alias, unknown_asset
from milepost.scopes import AssetScope

if TYPE_CHECKING:
    from milepost.assets import Asset

__all__ = ["AssetStoreAccessors"]

_NAMED = frozenset(name for name in dir(AssetStoreAccessor) if not name.startswith("_"))


class AssetStoreAccessors:
    """The asset store of a task: ``context["asset_store"]``.

    Subscript, ``in``, ``len`` and iteration are about the task's concrete inlets and outlets. Every named method of
    `AssetStoreAccessor` works on this object itself where the task has exactly one concrete inlet, or no inlet and exactly
    one outlet. It is falsy for a task without assets.

    Args:
        accessors: The accessors by the number of their asset.
        names: Name and URI of each.
        inlets: The concrete inlets as they were given; one that is not among ``names`` is a reference to an unknown asset.
        outlets: The concrete outlets, likewise.

    .. versionadded:: 0.1
    """

    _MEMBER = "an inlet or outlet of this task; its assets"
    _SHORTHAND = "exactly one inlet, or no inlet and exactly one outlet"
    _OWNER = "this task"

    def __init__(
        self,
        accessors: Mapping[int, AssetStoreAccessor],
        names: Mapping[int, tuple[str, str]],
        inlets: Sequence[AssetScope],
        outlets: Sequence[AssetScope],
    ) -> None:
        self._accessors = dict(accessors)
        self._names = dict(names)
        self._inlets = self._numbered(inlets)
        self._outlets = self._numbered(outlets)

    def _numbered(self, scopes: Sequence[AssetScope]) -> tuple[int | AssetScope, ...]:
        """Return the numbers of assets, each once; a reference to an unknown one stays as it is."""
        return tuple(dict.fromkeys(next(iter(self._matching(scope)), scope) for scope in scopes))

    def __repr__(self) -> str:
        return f"<AssetStoreAccessors {', '.join(self._labels()) or 'of no asset'}>"

    def _labels(self) -> list[str]:
        return [str(AssetScope(name=name, uri=uri)) for name, uri in self._names.values()]

    def _matching(self, scope: AssetScope) -> list[int]:
        if scope.asset_id is not None:
            return [scope.asset_id] if scope.asset_id in self._names else []
        name, uri = scope.name, scope.uri
        if None not in (name, uri) and name != uri:
            exact = [number for number, names in self._names.items() if names == (name, uri)]
            if exact:
                return exact
            return [n for n, names in self._names.items() if names[0] == names[1] and names[0] in (name, uri)]
        return [n for n, names in self._names.items() if names[0] == name or names[1] == uri]

    def _known(self, scope: AssetScope) -> list[int]:
        """Return the numbers that fit; before it answers "none", look up what the task's assets are called by now.

        An asset known by one of its names only may have got the other since the attempt was opened.
        """
        found = self._matching(scope)
        if not found:
            for number, accessor in self._accessors.items():
                with suppress(AssetNotFoundError):  # removed meanwhile
                    _, *names = accessor._metastore.call(calls.FindAsset(AssetScope(number)))
                    self._names[number] = (names[0], names[1])
            found = self._matching(scope)
        return found

    def __getitem__(self, asset: Any) -> AssetStoreAccessor:
        """Return the accessor of one of the task's assets.

        Args:
            asset: An `Asset`, a reference by name or by URI, or one of Airflow's.

        Raises:
            TypeError: Not an asset.
            KeyError: Not one of the task's assets, or a reference to an asset that nothing has declared.
            ValueError: It fits two of them.
        """
        if is_alias(asset):
            raise UnsupportedTypeError(f"{asset!r} is an alias; subscript with one of its assets")
        scope = asset_scope(asset)
        found = self._known(scope)
        if not found:
            if scope in self._inlets or scope in self._outlets:
                raise unknown_asset(scope)
            known = ", ".join(self._labels()) or "none"
            raise AssetNotFoundError(f"{scope} is not {self._MEMBER}: {known}")
        if len(found) > 1:
            raise InvalidValueError(f"{scope} fits {len(found)} assets of {self._OWNER}; give both name and URI")
        return self._accessors[found[0]]

    def __contains__(self, asset: object) -> bool:
        return not is_alias(asset) and len(self._known(asset_scope(asset))) == 1

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[Asset]:
        from milepost.assets import Asset

        return iter([Asset(name, uri) for name, uri in self._names.values()])

    def _only(self, method: str) -> AssetStoreAccessor:
        assets = self._inlets or self._outlets
        if len(assets) == 1:
            only = assets[0]
            if isinstance(only, AssetScope):
                raise unknown_asset(only)
            return self._accessors[only]
        known = ", ".join(self._labels()) or "none"
        raise InvalidValueError(
            f"asset_store.{method} needs {self._SHORTHAND}; "
            f"subscript with the asset you mean: asset_store[asset].{method} (assets of {self._OWNER}: {known})"
        )

    def __getattr__(self, name: str) -> Any:
        if name in _NAMED:
            return getattr(self._only(name), name)
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
