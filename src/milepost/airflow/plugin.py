"""The plugin that Airflow loads through the entry point ``airflow.plugins``."""

from __future__ import annotations

from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

from milepost.airflow import listener

__all__ = ["MilepostPlugin"]


class MilepostPlugin(AirflowPlugin):  # type: ignore[misc,unused-ignore]  # without Airflow it has no type
    """Puts the stores into the context of every task.

    .. versionadded:: 0.1
    """

    name = "milepost"
    listeners: ClassVar[list[Any]] = [listener]
