"""The local runner: executes a DAG file on this machine, each attempt of a task in a process of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from milepost.runner.errors import DagLoadError, ResultDamagedError, RunnerUsageError
    from milepost.runner.load import load_dags
    from milepost.runner.run import run_file
    from milepost.runner.watch.command import watch_file

__all__ = ["DagLoadError", "ResultDamagedError", "RunnerUsageError", "load_dags", "run_file", "watch_file"]

_HOMES = {
    "DagLoadError": "errors",
    "ResultDamagedError": "errors",
    "RunnerUsageError": "errors",
    "load_dags": "load",
    "run_file": "run",
    "watch_file": "watch.command",
}


def __getattr__(name: str) -> Any:
    # Looked up when first asked for: every attempt imports this package, and needs none of the runner's own parts.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
