"""The entry point ``airflow.policy``: Airflow loads it before any DAG file, so that providers find a mixin that remembers.

Operators of providers take `ResumableJobMixin` from ``airflow.providers.common.compat.sdk``. Where Airflow has none (before
3.3), that module falls back to a stand-in of its own, which submits a new job at every try. The module of that stand-in is
replaced here. Nothing is imported until an operator asks for it. Names of Airflow 3.3 that a DAG file may ask for are added
(`milepost.airflow.names`), and what runs tasks is told to give them their stores from their templates on.
"""

from __future__ import annotations

import functools
import importlib
import logging
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

from milepost.airflow.imports import when_loaded
from milepost.airflow.names import add_missing_names
from milepost.airflow.preload import before_forks

__all__ = ["install"]

STAND_IN: Final = "airflow.providers.common.compat._resumable_job_mixin"
_MIXIN: Final = "ResumableJobMixin"
_TASK_MODULES: Final = ("airflow.models.taskinstance", "airflow.sdk.execution_time.task_runner")
"""The modules that have what runs tasks: of Airflow 2, and of Airflow 3."""

_log = logging.getLogger("milepost.airflow")


class _Replacement(ModuleType):
    """Stands where the stand-in's module would, and decides when the mixin is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name != _MIXIN:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        mixin = _mixin()
        self.__dict__[name] = mixin
        return mixin


def _mixin() -> Any:
    if not _wanted():
        ours = sys.modules.pop(STAND_IN)
        try:
            return getattr(importlib.import_module(STAND_IN), _MIXIN)
        finally:
            sys.modules[STAND_IN] = ours
    return _durable_mixin()


def _mixin_of_sdk() -> Any:
    """Return the mixin for ``airflow.sdk``; where it is not wanted there is none, as without Milepost."""
    if not _wanted():
        raise AttributeError(f"module 'airflow.sdk' has no attribute {_MIXIN!r}")
    return _durable_mixin()


def _wanted() -> bool:
    """Tell whether operators are to keep their jobs.

    DAG files ask as they are loaded, so other options are not looked at, and a wrong value takes no file away: operators
    are given the mixin, and fail before they submit anything.
    """
    from milepost.airflow.settings import durable_operators
    from milepost.errors import ConfigurationError

    try:
        return durable_operators()
    except ConfigurationError as error:
        _log.error("Milepost cannot be used: %s", error, extra={"action": "airflow_durable_operators"})
        return True


@functools.cache
def _durable_mixin() -> Any:
    from milepost.airflow.durable import DurableJobMixin

    _log.info(
        "Milepost keeps the jobs of providers' operators over retries ([milepost] durable_operators)",
        extra={"action": "airflow_durable_operators"},
    )
    return DurableJobMixin


def _give_stores(module: ModuleType) -> None:
    from milepost.airflow.compat import run_tasks_in

    run_tasks_in(module, _given)


def _given(task_instance: Any, context: Any) -> Any:
    from milepost.airflow.wrapping import given

    return given(task_instance, context)


def install() -> None:
    """Replace the stand-in, unless something has imported it already; add names of 3.3; prepare for forks and tasks."""
    before_forks()
    add_missing_names(_mixin_of_sdk)
    when_loaded(dict.fromkeys(_TASK_MODULES, _give_stores))
    if STAND_IN not in sys.modules:
        module = _Replacement(STAND_IN, "Milepost's, in place of the stand-in of Airflow's providers.")
        module.__spec__ = ModuleSpec(STAND_IN, None, origin="Milepost")
        sys.modules[STAND_IN] = module


install()
