"""Assets as DAG files declare them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from milepost.errors import InvalidKeyError
from milepost.scopes import MAX_ASSET_CHARS, AssetScope, check_text

__all__ = ["Asset", "AssetAlias", "AssetAll", "AssetAny", "AssetRef"]


class _Combinable:
    """Can stand in a condition that a DAG is scheduled on."""

    __slots__ = ()

    def __or__(self, other: object) -> AssetAny:
        if not isinstance(other, _Combinable):
            return NotImplemented
        return AssetAny((*_parts(self, AssetAny), *_parts(other, AssetAny)))

    def __and__(self, other: object) -> AssetAll:
        if not isinstance(other, _Combinable):
            return NotImplemented
        return AssetAll((*_parts(self, AssetAll), *_parts(other, AssetAll)))


def _parts(thing: _Combinable, kind: type[AssetAny | AssetAll]) -> tuple[Any, ...]:
    return thing.parts if isinstance(thing, kind) else (thing,)


@dataclass(frozen=True, slots=True)
class AssetAny(_Combinable):
    """Something happened to any of several assets: ``a | b``.

    Args:
        parts: Assets, references, aliases, and conditions.
    """

    parts: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class AssetAll(_Combinable):
    """Something happened to all of several assets: ``a & b``.

    Args:
        parts: Assets, references, aliases, and conditions.
    """

    parts: tuple[Any, ...]


@dataclass(frozen=True, slots=True, init=False)
class Asset(_Combinable):
    """A piece of data that tasks read (inlet) or write (outlet).

    Where only one of name and URI is given, it fills the other, as in Airflow. ``a | b`` and ``a & b`` are conditions that a
    DAG may be scheduled on.

    Args:
        name: A name of at most 1,500 characters.
        uri: Where the data lives.
        group: A label for people; no effect on identity.
        extra: Free metadata; no effect on identity.
        watchers: Watchers of this asset (see the section on event triggers).

    Raises:
        ValueError: Neither name nor URI is given, or one breaks the rules of keys.

    .. versionadded:: 0.1
    """

    name: str
    uri: str
    group: str = field(default="asset", compare=False)
    extra: dict[str, Any] = field(default_factory=dict, compare=False, hash=False)
    watchers: tuple[Any, ...] = field(default=(), compare=False)

    def __init__(
        self,
        name: str | None = None,
        uri: str | None = None,
        *,
        group: str = "asset",
        extra: dict[str, Any] | None = None,
        watchers: Any = (),
    ) -> None:
        if name is None and uri is None:
            raise InvalidKeyError("an Asset needs a name or a URI")
        scope = AssetScope(name=name if name is not None else uri, uri=uri if uri is not None else name)
        assign = object.__setattr__
        assign(self, "name", scope.name)
        assign(self, "uri", scope.uri)
        assign(self, "group", group)
        assign(self, "extra", dict(extra or {}))
        assign(self, "watchers", tuple(watchers))

    @staticmethod
    def ref(*, name: str | None = None, uri: str | None = None) -> AssetRef:
        """Return a reference to an asset that is declared elsewhere, by its name or by its URI."""
        return AssetRef(name=name, uri=uri)


@dataclass(frozen=True, slots=True)
class AssetRef(_Combinable):
    """A reference by exactly one of name and URI.

    Raises:
        ValueError: Both or neither is given.

    .. versionadded:: 0.1
    """

    name: str | None = None
    uri: str | None = None

    def __post_init__(self) -> None:
        if (self.name is None) == (self.uri is None):
            raise InvalidKeyError("an asset reference takes exactly one of name and uri")
        AssetScope(name=self.name, uri=self.uri)


@dataclass(frozen=True, slots=True)
class AssetAlias(_Combinable):
    """A name that stands for assets attached at run time.

    .. versionadded:: 0.1
    """

    name: str
    group: str = field(default="asset", compare=False)

    def __post_init__(self) -> None:
        check_text(self.name, "alias name", MAX_ASSET_CHARS)
