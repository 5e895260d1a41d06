"""Let one test body call the blocking methods or their a… twins.

`drive(thing, "async")` looks like `thing`, but each call runs the twin of the method in an event loop of its own thread.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from milepost import AssetStoreAccessor, AssetStoreAccessors, PastRunView, TaskStoreAccessor
from milepost.events import Events
from milepost.instances import Instances
from milepost.registry import Assets
from milepost.runs import Runs
from milepost.store import Store
from milepost.tokens import Tokens

__all__ = ["Loops", "Twin", "drive"]

_DRIVEN = (
    Assets,
    AssetStoreAccessor,
    AssetStoreAccessors,
    Events,
    Instances,
    PastRunView,
    Runs,
    Store,
    TaskStoreAccessor,
    Tokens,
)


class Loops:
    """One event loop per thread, all closed by `close`."""

    def __init__(self) -> None:
        self._local = threading.local()
        self._made: list[asyncio.AbstractEventLoop] = []

    def run(self, coroutine: Any) -> Any:
        """Run a coroutine to its end in the loop of this thread, or of another where this one's is at work."""
        loop = getattr(self._local, "loop", None)
        if loop is not None and loop.is_running():
            with ThreadPoolExecutor(1) as pool:
                return pool.submit(asyncio.run, coroutine).result()
        if loop is None or loop.is_closed():
            loop = self._local.loop = asyncio.new_event_loop()
            self._made.append(loop)
        return loop.run_until_complete(coroutine)

    def close(self) -> None:
        """Close all loops."""
        for loop in self._made:
            loop.close()
        self._made.clear()


class Twin:
    """Stands for an object and calls the a… twins of its methods.

    Args:
        real: The object.
        loops: Where coroutines run.
    """

    def __init__(self, real: Any, loops: Loops) -> None:
        self.real = real
        self._loops = loops

    def _wrap(self, thing: Any) -> Any:
        if isinstance(thing, _DRIVEN):
            return Twin(thing, self._loops)
        if type(thing) is dict and "task_store" in thing:
            return {name: self._wrap(part) for name, part in thing.items()}
        return thing

    def _twin(self, name: str) -> Callable[..., Any]:
        twin = getattr(self.real, f"a{name}")
        assert inspect.iscoroutinefunction(twin)
        return lambda *args, **options: self._wrap(self._loops.run(twin(*args, **options)))

    def __getattr__(self, name: str) -> Any:
        thing = getattr(self.real, name)
        if not inspect.ismethod(thing) or not hasattr(self.real, f"a{name}"):
            return self._wrap(thing)
        return self._twin(name)

    def __getitem__(self, key: Any) -> Any:
        return self._wrap(self.real[key])

    def __contains__(self, key: object) -> bool:
        if isinstance(self.real, AssetStoreAccessors):
            return key in self.real
        return bool(self._twin("contains")(key))

    def __len__(self) -> int:
        return len(self.real) if isinstance(self.real, AssetStoreAccessors) else self._twin("len")()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.real) if isinstance(self.real, AssetStoreAccessors) else iter(self._twin("keys")())

    def __bool__(self) -> bool:
        return bool(self.real)

    def __repr__(self) -> str:
        return repr(self.real)


def drive(thing: Any, style: str, loops: Loops) -> Any:
    """Return `thing` to be called as ``style`` says: ``sync`` or ``async``."""
    return thing if style == "sync" else Twin(thing, loops)
