"""What counts as a reference to an asset.

Airflow's own objects (``Asset``, ``AssetNameRef``, ``AssetUriRef``, Airflow 2's ``Dataset``) are recognised by their
attributes, so that nothing here imports Airflow.
"""

from __future__ import annotations

from milepost.errors import AssetNotFoundError, UnsupportedTypeError
from milepost.scopes import AssetScope

__all__ = ["asset_scope", "is_alias", "unknown_asset"]


def is_alias(thing: object) -> bool:
    """Tell whether ``thing`` is an asset alias, ours or Airflow's."""
    return any(cls.__name__ in {"AssetAlias", "DatasetAlias"} for cls in type(thing).__mro__)


def asset_scope(thing: object) -> AssetScope:
    """Return the names by which ``thing`` refers to an asset.

    Args:
        thing: An `Asset`, `AssetRef`, `AssetScope`, or one of Airflow's asset objects.

    Returns:
        A scope with the names that are given; the others are `None`. One with both name and URI is that of a declared asset,
        which a store records; any other is a reference to one.

    Raises:
        TypeError: Not an asset.
    """
    if isinstance(thing, AssetScope):
        return thing
    name, uri = getattr(thing, "name", None), getattr(thing, "uri", None)
    if isinstance(thing, str | type) or is_alias(thing) or not (isinstance(name, str) or isinstance(uri, str)):
        hint = "; write Asset(name=…) or Asset(uri=…)" if isinstance(thing, str) else ""
        raise UnsupportedTypeError(f"not an asset: {thing!r} ({type(thing).__name__}){hint}")
    if name is None and any(cls.__name__ == "Dataset" for cls in type(thing).__mro__):
        name = uri  # as in Airflow 3, where a dataset became an asset
    return AssetScope(name=name, uri=uri)


def unknown_asset(scope: AssetScope) -> AssetNotFoundError:
    """Return the error for a reference to an asset that nothing has declared."""
    return AssetNotFoundError(f"no asset {scope} is known: no DAG and no store.asset_store(Asset(…)) has declared it")
