"""Event triggers and the watchers that tie them to assets.

`milepost watch` runs them. `milepost run` takes them as they stand and runs none: a run has begun already.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from milepost.sdk.building import checked_id
from milepost.sdk.errors import DagDefinitionError
from milepost.sdk.location import call_site

if TYPE_CHECKING:
    import logging
    from collections.abc import AsyncIterator, Iterator

    from milepost.accessors import AssetStoreAccessors
    from milepost.sdk.location import Location

__all__ = ["AssetWatcher", "BaseEventTrigger", "BaseTrigger", "TriggerEvent", "collecting_watchers"]

_collectors: list[list[AssetWatcher]] = []


@contextmanager
def collecting_watchers() -> Iterator[list[AssetWatcher]]:
    """Gather the watchers that are made inside the block, in the order of their making."""
    found: list[AssetWatcher] = []
    _collectors.append(found)
    try:
        yield found
    finally:
        _collectors.pop()


@dataclass
class TriggerEvent:
    """What a trigger yields when something happened.

    Args:
        payload: What happened, as a JSON value or `None`.
        id: 1 to 512 characters that tell the event from every other one of the asset: ``milepost watch`` starts a run once
            for each. `None`: derived from the payload and from what the trigger has stored. Not in Airflow.

    .. versionadded:: 0.1
    """

    payload: Any
    id: str | None = field(default=None, kw_only=True)


class BaseTrigger(ABC):
    """Waits for something outside, as an asynchronous generator of events.

    Args:
        kwargs: Accepted without effect, as in Airflow.

    .. versionadded:: 0.1
    """

    def __init__(self, **kwargs: Any) -> None:  # noqa: ARG002 - subclasses pass on what they were given
        super().__init__()

    @abstractmethod
    def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield an event each time that something happened; subclasses define it as an ``async`` generator."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the dotted path of the class and the arguments that make the same trigger again.

        Airflow needs it, to make the trigger in another process. In Milepost it may be left out; where it is there, watchers
        whose triggers return the same share one of them, as in Airflow.
        """
        raise NotImplementedError(f"{type(self).__name__} has no serialize()")

    async def cleanup(self) -> None:  # noqa: B027 - there may be nothing to do
        """Run when the trigger has ended, has failed or is told to end; a few seconds are given."""

    @property
    def log(self) -> logging.Logger:
        """A logger named after the class."""
        import logging

        return logging.getLogger(f"{type(self).__module__}.{type(self).__qualname__}")


class BaseEventTrigger(BaseTrigger):
    """A trigger that an asset may be watched with.

    Args:
        kwargs: Accepted without effect, as in Airflow.

    Attributes:
        asset_store: The stores of the assets that it watches; `None` until something watches.
        asset_state_store: The same under Airflow's name.

    .. versionadded:: 0.1
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.asset_store: AssetStoreAccessors | None = None
        self.asset_state_store: AssetStoreAccessors | None = None


class AssetWatcher:
    """Ties an event trigger to an asset: ``Asset("orders", watchers=[AssetWatcher(name="new", trigger=…)])``.

    Args:
        name: What the watcher is called.
        trigger: A `BaseEventTrigger`.

    Raises:
        DagDefinitionError: The name breaks the rules of ids, or the trigger is none for events; the message names the line.

    .. versionadded:: 0.1
    """

    def __init__(self, name: str, trigger: BaseEventTrigger) -> None:
        where = call_site()
        if not isinstance(trigger, BaseEventTrigger):
            raise DagDefinitionError(f"an AssetWatcher needs a BaseEventTrigger, not {trigger!r}", where)
        self.name = checked_id(name, "name of a watcher", where)
        self.trigger = trigger
        self.where: Location = where
        if _collectors:
            _collectors[-1].append(self)

    def __repr__(self) -> str:
        return f"AssetWatcher(name={self.name!r}, trigger={self.trigger!r})"
