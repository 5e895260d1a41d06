"""Trigger rules: what a task asks of the tasks before it."""

from __future__ import annotations

from enum import Enum

__all__ = ["TriggerRule"]


class TriggerRule(str, Enum):
    """When a task runs, in terms of the tasks directly before it. The meanings are Airflow's.

    .. versionadded:: 0.1
    """

    ALL_SUCCESS = "all_success"
    ALL_FAILED = "all_failed"
    ALL_DONE = "all_done"
    ALL_DONE_MIN_ONE_SUCCESS = "all_done_min_one_success"
    ALL_SKIPPED = "all_skipped"
    ONE_SUCCESS = "one_success"
    ONE_FAILED = "one_failed"
    ONE_DONE = "one_done"
    NONE_FAILED = "none_failed"
    NONE_FAILED_MIN_ONE_SUCCESS = "none_failed_min_one_success"
    NONE_SKIPPED = "none_skipped"
    ALWAYS = "always"

    def __str__(self) -> str:
        return self.value
