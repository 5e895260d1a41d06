"""Packages that load their names at the first use, so that a process pays for what it needs only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

__all__ = ["names_at_first_use"]


def names_at_first_use(package: str, modules: Sequence[str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package: it looks for a name of its ``__all__`` in its modules, one after the other.

    Type checkers need imports of the same names beside it, under ``TYPE_CHECKING``.

    Args:
        package: The name of the package.
        modules: Those of its modules that have such names, the ones that are needed most first.
    """

    def find(name: str) -> Any:
        whole = sys.modules[package]
        if name in whole.__all__:
            for module in modules:
                home = import_module(f"{package}.{module}")
                if name in home.__all__:
                    found = getattr(home, name)
                    setattr(whole, name, found)
                    return found
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find
