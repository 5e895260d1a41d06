"""The plugin that Airflow loads through the entry point ``airflow.plugins``."""

from __future__ import annotations

from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

from milepost.airflow import listener
from milepost.airflow.serving import apps

__all__ = ["MilepostPlugin"]


class MilepostPlugin(AirflowPlugin):  # type: ignore[misc,unused-ignore]  # without Airflow it has no type
    """Puts the stores into the context of every task, and where it is told to, opens a store to workers.

    .. versionadded:: 0.1
    """

    name = "milepost"
    listeners: ClassVar[list[Any]] = [listener]
    fastapi_apps: ClassVar[list[Any]] = apps()
