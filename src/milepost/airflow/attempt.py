"""The stores of one attempt inside Airflow, opened when the task first uses one of them. Loads nothing before that."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from milepost.airflow.opening import Opened
    from milepost.entry import InstanceState

__all__ = ["Attempt", "LazyStore", "attempt_of"]

_NAMES = {
    "task_store": "task_store",
    "task_state_store": "task_store",
    "asset_store": "asset_store",
    "asset_state_store": "asset_store",
}
"""The names in the context, those of Airflow 3.3 too, and what they stand for."""


class Attempt:
    """An attempt that is opened at most once, by whoever asks for its stores first.

    Args:
        task_instance: Airflow's, which runs.
        context: The task's context.

    Attributes:
        task_instance: It.
        stores: What goes into the context.
        ended: Whether it has ended.
    """

    def __init__(self, task_instance: Any, context: Any) -> None:
        self.task_instance = task_instance
        self.ended = False
        self._context = context
        # Airflow 2.9 counts on when the task has ended.
        self._number = task_instance.try_number
        # Airflow may call `on_kill` while this thread is in here.
        self._gate = threading.RLock()
        self._opened: Opened | None = None
        self._end: tuple[InstanceState, BaseException | None] | None = None
        lazy = {name: LazyStore(self, name) for name in ("task_store", "asset_store")}
        self.stores: Mapping[str, Any] = {name: lazy[of] for name, of in _NAMES.items()}

    @property
    def is_open(self) -> bool:
        """Whether it was opened, or that was tried."""
        return self._opened is not None

    def open(self) -> Mapping[str, Any]:
        """Open it, unless it is open, and return its stores by name. There is one try; the stores raise what went wrong.

        What first uses a store after the task's code (a callback, `post_execute`) finds an attempt that has ended.
        """
        with self._gate:
            if self._opened is None:
                from milepost.airflow.opening import Opened

                opened = Opened.begin(self.task_instance, self._context["task"], self._context, self._number)
                if self._end is not None:
                    opened.end(*self._end)
                self._opened = opened
            return self._opened.stores

    def end(self, state: InstanceState, error: BaseException | None = None) -> None:
        """Record how the attempt ended, before Airflow hears of it; if it was not opened, that waits for a first use.

        Args:
            state: How.
            error: What ended it.

        Raises:
            MilepostError: The task used the stores, and its success cannot be recorded: what it staged may not be seen.
        """
        with self._gate:
            if self._opened is not None:
                self._opened.end(state, error)
            self._end = state, error
        self.ended = True

    def clear(self) -> None:
        """Start the instance over, as a person cleared it in Airflow; nothing, if the attempt was never opened."""
        if self._opened is not None:
            self._opened.clear()


class LazyStore:
    """Stands in the context for a store, and passes everything on to it. `isinstance` takes it for the store.

    The first use opens the attempt; in an asynchronous call, off the event loop.

    Args:
        attempt: The attempt.
        name: ``task_store`` or ``asset_store``.
    """

    __slots__ = ("_attempt", "_name")

    def __init__(self, attempt: Attempt, name: str) -> None:
        object.__setattr__(self, "_attempt", attempt)
        object.__setattr__(self, "_name", name)

    def _store(self) -> Any:
        return self._attempt.open()[self._name]

    def _classes(self) -> tuple[type, type]:
        """Return the class of the store, and that whose methods it has."""
        from milepost import accessors

        if self._name == "task_store":
            return accessors.TaskStoreAccessor, accessors.TaskStoreAccessor
        return accessors.AssetStoreAccessors, accessors.AssetStoreAccessor

    @property  # type: ignore[misc]  # a stand-in passes `isinstance` that way
    def __class__(self) -> Any:
        return self._classes()[0]

    def __getattr__(self, name: str) -> Any:
        if not self._attempt.is_open and name.startswith("a"):
            from inspect import iscoroutinefunction

            if iscoroutinefunction(getattr(self._classes()[1], name, None)):
                return self._later(name)
        return getattr(self._store(), name)

    def _later(self, name: str) -> Callable[..., Any]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            import asyncio

            store = await asyncio.to_thread(self._store)
            return await getattr(store, name)(*args, **kwargs)

        return call

    def _clear_backend_only(self) -> None:
        """Nothing: Airflow 3.3 calls it at a success where a worker-side backend of its own is configured."""

    def __copy__(self) -> LazyStore:
        return self

    def __deepcopy__(self, _: Any) -> LazyStore:
        return self

    def __reduce__(self) -> NoReturn:
        from milepost.errors import UnsupportedTypeError

        raise UnsupportedTypeError(
            f"{self._name} belongs to the process of its task and cannot be pickled; processes that it forks may use it"
        )

    def __repr__(self) -> str:
        return repr(self._store()) if self._attempt.is_open else f"<{self._name}, not used yet>"

    def __bool__(self) -> bool:
        return bool(self._store())

    def __len__(self) -> int:
        return len(self._store())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._store())

    def __contains__(self, key: object) -> bool:
        return key in self._store()

    def __getitem__(self, key: Any) -> Any:
        return self._store()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._store()[key] = value  # no store takes it, and says so in its own name

    def __delitem__(self, key: Any) -> None:
        del self._store()[key]


def attempt_of(store: Any) -> Attempt | None:
    """Return the attempt that a store in a context opens; `None` if it is another store.

    Args:
        store: What stands there.
    """
    return store._attempt if type(store) is LazyStore else None
