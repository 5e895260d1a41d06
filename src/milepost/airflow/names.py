"""Names of Airflow 3.3 that 3.0 to 3.2 lack, so that a DAG file with them loads. What Airflow has stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from types import ModuleType
from typing import Any

from milepost.airflow.imports import when_loaded

__all__ = ["add_missing_names"]

Makers = Mapping[str, Callable[[], Any]]


def _add(makers: Makers, module: ModuleType) -> None:
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
    when_loaded({name: partial(_add, makers) for name, makers in missing.items()})
