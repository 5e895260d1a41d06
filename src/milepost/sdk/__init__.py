"""What a DAG file imports: DAGs, tasks, operators, assets, and how a task says that it ends.

The names and their meanings are those of Airflow's ``airflow.sdk``.
What the local runner does not have raises `DagDefinitionError` while the file is loaded,
with the name and the line.
"""

from __future__ import annotations

from milepost.assets import Asset, AssetAlias
from milepost.job_records import NOT_FOUND, JobDecision
from milepost.resumable import ResumableJobMixin
from milepost.retention import NEVER_EXPIRE
from milepost.sdk.context import Context, get_current_context
from milepost.sdk.dag import DAG, dag
from milepost.sdk.errors import DagDefinitionError
from milepost.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    FailTask,
    SkipTask,
)
from milepost.sdk.group import TaskGroup
from milepost.sdk.linking import chain
from milepost.sdk.operator import BaseOperator
from milepost.sdk.options import options
from milepost.sdk.references import XComArg
from milepost.sdk.rules import TriggerRule
from milepost.sdk.task import task
from milepost.sdk.triggers import AssetWatcher, BaseEventTrigger, BaseTrigger, TriggerEvent

__all__ = [
    "DAG",
    "NEVER_EXPIRE",
    "NOT_FOUND",
    "AirflowException",
    "AirflowFailException",
    "AirflowSkipException",
    "Asset",
    "AssetAlias",
    "AssetWatcher",
    "BaseEventTrigger",
    "BaseOperator",
    "BaseTrigger",
    "Context",
    "DagDefinitionError",
    "FailTask",
    "JobDecision",
    "ResumableJobMixin",
    "SkipTask",
    "TaskGroup",
    "TriggerEvent",
    "TriggerRule",
    "XComArg",
    "chain",
    "dag",
    "get_current_context",
    "options",
    "task",
]
