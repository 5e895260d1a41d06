"""Milepost's own options of a task, which Airflow's arguments have no room for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeVar

from milepost.sdk.errors import DagDefinitionError, reject_unknown

__all__ = ["MapKey", "Options", "item_name", "options", "options_of"]

MapKey = str | Callable[[dict[str, Any]], Any]

T = TypeVar("T", bound=Callable[..., Any])

_ATTRIBUTE: Final = "__milepost_options__"
"""Also known to `milepost.airflow`, which looks before it loads this module."""


class Options(NamedTuple):
    """Options of one task; `None` leaves a choice to the configuration.

    Args:
        map_key: What identifies a mapped item; see `options`.
        clear_on_success: Whether success drops the instance's keys.
        on_clear: What a clear does with the instance's keys.
    """

    map_key: MapKey | None = None
    clear_on_success: bool | None = None
    on_clear: Literal["discard", "keep"] | None = None

    def item(self, mapped: Mapping[str, Any]) -> dict[str, Any]:
        """Return what identifies a mapped item.

        Args:
            mapped: The mapped arguments.

        Returns:
            The mapped arguments themselves, or what ``map_key`` makes of them.

        Raises:
            DagDefinitionError: ``map_key`` names an argument that is not mapped.
        """
        if self.map_key is None:
            # The pairs of a dict that is mapped over are tuples, which JSON has not.
            return {name: list(value) if type(value) is tuple else value for name, value in mapped.items()}
        if isinstance(self.map_key, str):
            if self.map_key not in mapped:
                raise DagDefinitionError(f"map_key is {self.map_key!r}, and the mapped arguments are {sorted(mapped)}")
            return {"map_key": mapped[self.map_key]}
        return {"map_key": self.map_key(dict(mapped))}


def options(
    *,
    map_key: MapKey | None = None,
    clear_on_success: bool | None = None,
    on_clear: Literal["discard", "keep"] | None = None,
    **unknown: Any,
) -> Callable[[T], T]:
    """Set Milepost's options of a task.

    A decorator on the function, under ``@task``, or on an operator class.

    Args:
        map_key: What identifies a mapped item: the name of a mapped argument, or a function that gets
            the mapped arguments as a dict. Without it, all mapped arguments together do.
        clear_on_success: Whether success drops the instance's task-store keys.
        on_clear: ``"discard"`` or ``"keep"``: what clearing the instance does with its keys.
        unknown: Nothing else is known.

    Raises:
        DagDefinitionError: An option is unknown or has a value that it does not take.

    .. versionadded:: 0.1
    """
    reject_unknown("options()", unknown, ("map_key", "clear_on_success", "on_clear"))
    if map_key is not None and not isinstance(map_key, str) and not callable(map_key):
        raise DagDefinitionError(f"map_key takes the name of a mapped argument or a function, not {map_key!r}")
    if clear_on_success is not None and not isinstance(clear_on_success, bool):
        raise DagDefinitionError(f"clear_on_success takes True or False, not {clear_on_success!r}")
    if on_clear not in (None, "discard", "keep"):
        raise DagDefinitionError(f"on_clear takes 'discard' or 'keep', not {on_clear!r}")
    chosen = Options(map_key, clear_on_success, on_clear)

    def decorate(target: T) -> T:
        if getattr(target, "is_task_function", False) or not callable(target):
            raise DagDefinitionError("options() goes on the function itself, on the line under @task")
        setattr(target, _ATTRIBUTE, chosen)
        return target

    return decorate


def options_of(target: object) -> Options:
    """Return the options that were set on a function or an operator class."""
    chosen = getattr(target, _ATTRIBUTE, None)
    return chosen if isinstance(chosen, Options) else Options()


def item_name(item: Mapping[str, Any]) -> str | None:
    """Return a short name of a mapped item for people, if its parts are short themselves."""
    parts = list(item.values())
    if not parts or not all(isinstance(part, (str, int, float, bool)) for part in parts):
        return None
    text = ", ".join(str(part) for part in parts).replace("\0", "")[:200]
    return text.encode(errors="replace").decode() or None
