"""What can be asked of a metastore: one small value per call.

A call is made of plain data, so that the same value can be run against SQLite, against another database or sent over
HTTP. What each call does, its atomicity and its errors are written here; this is the contract that every metastore
fulfils and that the contract suite checks.

Entries travel as text with an encoding number beside it (0: plain JSON). All calls on entries take a `Handle`.
"Absent" includes expired.

Calls are not compared, so they have no ``__eq__``: made at every start, thirty of them take time.
"""

from __future__ import annotations

from milepost.calls.base import (
    PLAIN,
    Call,
    Check,
    Handle,
    Item,
    Now,
    Stored,
    new_version,
)
from milepost.calls.entries import (
    Clear,
    Count,
    Delete,
    FindAsset,
    Get,
    GetMany,
    Increment,
    Items,
    Keys,
    PastRun,
    Put,
    PutDefault,
    PutIf,
    Read,
    Touch,
)
from milepost.calls.events import PendingRuns, RecordedEvent, RecordEvent, RunKey
from milepost.calls.lifecycle import (
    Archives,
    BeginRun,
    Cleared,
    ClearInstances,
    DeleteRun,
    Expand,
    Expanded,
    Finish,
    GetResults,
    HoldRun,
    ListInstances,
    ListOutcomes,
    ListRuns,
    Open,
    Opened,
    PutResult,
    Restore,
)
from milepost.calls.upkeep import (
    Collect,
    CollectBackend,
    Due,
    ExportRows,
    Holdings,
    ImportRows,
    Stats,
    TakeLease,
)

__all__ = [
    "PLAIN",
    "Archives",
    "BeginRun",
    "Call",
    "Check",
    "Clear",
    "ClearInstances",
    "Cleared",
    "Collect",
    "CollectBackend",
    "Count",
    "Delete",
    "DeleteRun",
    "Due",
    "Expand",
    "Expanded",
    "ExportRows",
    "FindAsset",
    "Finish",
    "Get",
    "GetMany",
    "GetResults",
    "Handle",
    "HoldRun",
    "Holdings",
    "ImportRows",
    "Increment",
    "Item",
    "Items",
    "Keys",
    "ListInstances",
    "ListOutcomes",
    "ListRuns",
    "Now",
    "Open",
    "Opened",
    "PastRun",
    "PendingRuns",
    "Put",
    "PutDefault",
    "PutIf",
    "PutResult",
    "Read",
    "RecordEvent",
    "RecordedEvent",
    "Restore",
    "RunKey",
    "Stats",
    "Stored",
    "TakeLease",
    "Touch",
    "new_version",
]
