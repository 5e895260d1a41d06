"""Loads what tasks need in the process that starts them, right before it forks: the task itself then finds it loaded."""

from __future__ import annotations

import importlib
import logging
import os

__all__ = ["before_forks"]

_ENGINES = {
    "sqlite": "milepost.metastore.sql",
    "postgresql": "milepost.metastore.engines.postgres",
    "postgres": "milepost.metastore.engines.postgres",
    "mysql": "milepost.metastore.engines.mysql",
    "mariadb": "milepost.metastore.engines.mysql",
    "http": "milepost.remote.client",
    "https": "milepost.remote.client",
}
_USED = (
    "airflow.wrapping",
    "airflow.opening",
    "calls.lists",
    "calls.changes",
    "metastore.operations.lifecycle",
    "metastore.operations.entries",
)
"""What most tasks use; the rest is loaded where it is needed."""
_log = logging.getLogger("milepost.airflow")


class _Preload:
    """Works once in a process and its children."""

    def __init__(self) -> None:
        self.done = False

    def __call__(self) -> None:
        if self.done:
            return
        self.done = True
        from milepost.airflow import configuration

        try:
            scheme = (configuration.plainly_configured(configuration.OURS, "url") or "sqlite").partition(":")[0]
            for name in _USED:
                importlib.import_module(f"milepost.{name}")
            # The look for a file of settings loads what knows the user's folders.
            importlib.import_module("milepost.config.sources").config_file(os.environ)
            importlib.import_module(_ENGINES.get(scheme, "milepost.metastore.sql"))
        except Exception as error:  # noqa: BLE001 - a task that needs it meets the same error, and can tell of it
            _log.debug("not loaded before the fork: %s", error, extra={"action": "airflow_preload"})


def before_forks() -> None:
    """Load it before this process forks for the first time."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_Preload())
