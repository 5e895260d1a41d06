"""Milepost: the task store and the asset store for data pipelines.

Two small, durable key/value stores that live beside the work: state of one task instance, which survives retries and
crashes, and state of one asset, which outlives every run. Names for DAG files are in `milepost.sdk`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.later import names_at_first_use

if TYPE_CHECKING:
    from milepost.public import *

__version__ = "0.1.0.dev0"

__all__ = [
    "NEVER_EXPIRE",
    "NOT_FOUND",
    "AccessError",
    "Archive",
    "ArchiveNotFoundError",
    "Asset",
    "AssetAlias",
    "AssetChanges",
    "AssetNotActiveError",
    "AssetNotFoundError",
    "AssetRecord",
    "AssetRef",
    "AssetReference",
    "AssetScope",
    "AssetStoreAccessor",
    "AssetStoreAccessors",
    "Assets",
    "AuthenticationError",
    "BackendUnsupportedError",
    "BaseStateBackend",
    "BaseStoreBackend",
    "CleanReport",
    "Clock",
    "ConfigurationError",
    "ConflictError",
    "DamagedEntryError",
    "DamagedRow",
    "DamagedStoreError",
    "DamagedValue",
    "DueKey",
    "Entry",
    "ForbiddenError",
    "InstanceNotFoundError",
    "InstanceRecord",
    "InstanceStateError",
    "Instances",
    "InvalidKeyError",
    "InvalidValueError",
    "JobConflictError",
    "JobDecision",
    "ManualClock",
    "Metastore",
    "MetastoreStateBackend",
    "MilepostError",
    "MissingDependencyError",
    "NewToken",
    "NotFoundError",
    "Outcome",
    "OutcomeUnknownError",
    "PastEntry",
    "PastRunView",
    "ResumableJobMixin",
    "RunEvent",
    "RunHeldError",
    "RunNotFoundError",
    "RunRecord",
    "Runs",
    "SchemaOutdatedError",
    "SchemaTooNewError",
    "Settings",
    "StaleAttemptError",
    "Store",
    "StoreClosedError",
    "StoreError",
    "StoreStats",
    "StoreUnreachableError",
    "SystemClock",
    "TaskOptions",
    "TaskScope",
    "TaskStoreAccessor",
    "TokenRecord",
    "Tokens",
    "TransferReport",
    "UnsupportedTypeError",
    "ValueTooLargeError",
    "VersionConflictError",
    "Writer",
    "aconnect",
    "connect",
]


if not TYPE_CHECKING:  # type checkers see the imports above, and know which names there are
    # Airflow imports this package in each of its processes, and most of them do without.
    __getattr__ = names_at_first_use(
        __name__,
        (
            "errors",
            "clock",
            "scopes",
            "retention",
            "entry",
            "abc",
            "config",
            "accessors",
            "instances",
            "store",
            "assets",
            "asset_records",
            "run_records",
            "reports",
            "job_records",
            "token_records",
            "runs",
            "registry",
            "tokens",
            "resumable",
            "metastore.backend",
        ),
    )


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
