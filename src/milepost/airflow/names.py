"""Names of Airflow 3.3 that 3.0 to 3.2 lack, so that a DAG file with them loads. What Airflow has stays as it is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["add_missing_names"]

Makers = Mapping[str, Callable[[], Any]]


class _Adding(Loader):
    """Loads a module as its own loader does, and adds to it."""

    def __init__(self, loader: Any, makers: Makers) -> None:
        self._loader = loader
        self._makers = makers

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create it."""
        return self._loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        """Load it; from then on it looks as if its own loader alone had done so."""
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _add(module, self._makers)


class _Finder(MetaPathFinder):
    """Finds the modules that lack something; the other finders say where they are."""

    def __init__(self, missing: Mapping[str, Makers]) -> None:
        self._missing = missing

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a module is, with a loader that adds to it; `None` for all others."""
        if fullname not in self._missing:
            return None
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(fullname, path, target)) is not None:
                if spec.loader is not None:
                    spec.loader = _Adding(spec.loader, self._missing[fullname])
                return spec
        return None


def _add(module: ModuleType, makers: Makers) -> None:
    here = vars(module)
    wanted = {name: make for name, make in makers.items() if name not in here and name not in here.get("__all__", ())}
    if not wanted:
        return
    before = here.get("__getattr__")

    def find(name: str) -> Any:
        if name in wanted:
            return wanted[name]()
        if before is None:
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        return before(name)

    here["__getattr__"] = find


def add_missing_names(mixin: Callable[[], Any]) -> None:
    """Have ``NEVER_EXPIRE`` and ``ResumableJobMixin`` be where Airflow 3.3 has them.

    Args:
        mixin: Returns the mixin; raises `AttributeError` where it is not wanted.
    """

    def never() -> timedelta:
        return timedelta.max

    missing: dict[str, Makers] = {
        "airflow.sdk": {"NEVER_EXPIRE": never, "ResumableJobMixin": mixin},
        "airflow.sdk.execution_time.context": {"NEVER_EXPIRE": never},
    }
    for name, makers in missing.items():
        if name in sys.modules:
            _add(sys.modules[name], makers)
    sys.meta_path.insert(0, _Finder(missing))
