"""Does something with a module of Airflow right after it was loaded, whenever that is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["when_loaded"]

Action = Callable[[ModuleType], None]


class _Acting(Loader):
    """Loads a module as its own loader does, and acts then."""

    def __init__(self, loader: Any, action: Action) -> None:
        self._loader = loader
        self._action = action

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create it."""
        return self._loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        """Load it; from then on it looks as if its own loader alone had done so."""
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._action(module)


class _Finder(MetaPathFinder):
    """Finds the modules that something is to be done with; the other finders say where they are."""

    def __init__(self, actions: Mapping[str, Action]) -> None:
        self._actions = actions

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a module is, with a loader that acts; `None` for all others."""
        if fullname not in self._actions:
            return None
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(fullname, path, target)) is not None:
                if spec.loader is not None:
                    spec.loader = _Acting(spec.loader, self._actions[fullname])
                return spec
        return None


def when_loaded(actions: Mapping[str, Action]) -> None:
    """Do something with modules when they have been loaded; with those that have been, now.

    Args:
        actions: What to do with a module, by its name.
    """
    for name, action in actions.items():
        if name in sys.modules:
            action(sys.modules[name])
    sys.meta_path.insert(0, _Finder(actions))
