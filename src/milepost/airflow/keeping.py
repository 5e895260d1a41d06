"""Has the scheduler bring the store in line with Airflow's records, again and again."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any

from milepost.airflow import configuration
from milepost.config.settings import as_number
from milepost.errors import ConfigurationError

__all__ = ["keep_in_line"]

_log = logging.getLogger("milepost.airflow")
_kept: list[Any] = []
"""The process that does it; those that the scheduler forks know of it, too, and start none."""


def keep_in_line() -> None:
    """In a scheduler, start the process that does it, if ``[milepost] sync_interval`` says how often. Elsewhere: nothing.

    It is no thread, as schedulers fork, and ends with the scheduler.
    """
    if _kept or sys.argv[1:2] != ["scheduler"]:
        return
    try:
        seconds = as_number(0)(configuration.plainly_configured(configuration.OURS, "sync_interval") or "0")
    except ValueError as error:
        place = configuration.sources(configuration.OURS)["sync_interval"].place
        _kept.append(ConfigurationError(f"{place}: sync_interval {error}"))
        _log.error("the store is not kept in line with Airflow: %s", _kept[0], extra={"action": "airflow_sync"})
        return
    if seconds:
        command = [sys.executable, "-m", "milepost", "airflow", "sync", "--every", str(seconds), "--with-parent"]
        _kept.append(subprocess.Popen(command, stdin=subprocess.DEVNULL))
        _log.info("the store is kept in line with Airflow every %d seconds", seconds, extra={"action": "airflow_sync"})
