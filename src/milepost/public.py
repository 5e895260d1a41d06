"""What can be imported from ``milepost``, for type checkers: at run time it finds each name at its first use."""

from __future__ import annotations

from milepost.abc import BaseStateBackend, BaseStoreBackend, Metastore
from milepost.accessors import AssetStoreAccessor, AssetStoreAccessors, PastRunView, TaskStoreAccessor
from milepost.asset_records import AssetChanges, AssetRecord, AssetReference, PastEntry
from milepost.assets import Asset, AssetAlias, AssetRef
from milepost.clock import Clock, ManualClock, SystemClock
from milepost.config import Settings
from milepost.entry import DamagedValue, Entry, TaskOptions, Writer
from milepost.errors import (
    AccessError,
    ArchiveNotFoundError,
    AssetNotActiveError,
    AssetNotFoundError,
    AuthenticationError,
    BackendUnsupportedError,
    ConfigurationError,
    ConflictError,
    DamagedEntryError,
    DamagedStoreError,
    ForbiddenError,
    InstanceNotFoundError,
    InstanceStateError,
    InvalidKeyError,
    InvalidValueError,
    JobConflictError,
    MilepostError,
    MissingDependencyError,
    NotFoundError,
    OutcomeUnknownError,
    RunHeldError,
    RunNotFoundError,
    SchemaOutdatedError,
    SchemaTooNewError,
    StaleAttemptError,
    StoreClosedError,
    StoreError,
    StoreUnreachableError,
    UnsupportedTypeError,
    ValueTooLargeError,
    VersionConflictError,
)
from milepost.instances import Instances
from milepost.job_records import NOT_FOUND, JobDecision
from milepost.metastore.backend import MetastoreStateBackend
from milepost.registry import Assets
from milepost.reports import CleanReport, DamagedRow, DueKey, StoreStats, TransferReport
from milepost.resumable import ResumableJobMixin
from milepost.retention import NEVER_EXPIRE
from milepost.run_records import Archive, InstanceRecord, Outcome, RunEvent, RunRecord
from milepost.runs import Runs
from milepost.scopes import AssetScope, TaskScope
from milepost.store import Store, aconnect, connect
from milepost.token_records import TokenRecord
from milepost.tokens import NewToken, Tokens

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
