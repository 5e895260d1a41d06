"""What can be asked of a metastore: one small value per call.

A call is made of plain data, so that the same value can be run against SQLite, against another database or sent over
HTTP. What each call does, its atomicity and its errors are written here; this is the contract that every metastore
fulfils and that the contract suite checks.

Entries travel as text with an encoding number beside it (0: plain JSON). All calls on entries take a `Handle`.
"Absent" includes expired.

Calls are not compared, so they have no ``__eq__``: made at every start, those of a task take time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.calls.attempts import Finish, Open, Opened
from milepost.calls.base import PLAIN, Call, Handle, Item, Stored, new_version, stored_value
from milepost.calls.entries import Delete, Get, Put, Read
from milepost.later import names_at_first_use

if TYPE_CHECKING:
    from milepost.calls.assets import (
        Advance,
        AssetArchives,
        AssetPage,
        AssetRows,
        AttachAsset,
        CopyAsset,
        DeclareAssets,
        FindAsset,
        Held,
        HeldKeys,
        History,
        ListAssets,
        Past,
        RestoreAsset,
        Rollback,
        SetActive,
        Stage,
        Sweep,
        Swept,
    )
    from milepost.calls.changes import Check, Clear, Increment, Now, PutDefault, PutIf, Touch
    from milepost.calls.editing import DeleteIf, Edit, EntryPage, InstancePage, Page, PageRow, RunPage, RunRow
    from milepost.calls.events import EVENT_RUN_PREFIX, PendingRuns, RecordedEvent, RecordEvent, RunKey
    from milepost.calls.lifecycle import (
        Archives,
        BeginRun,
        Cleared,
        ClearInstances,
        DeleteRun,
        Expand,
        Expanded,
        GetResults,
        HoldRun,
        ListInstances,
        ListOutcomes,
        ListRuns,
        PutResult,
        Restore,
    )
    from milepost.calls.lists import Count, GetMany, Items, Keys, PastRun
    from milepost.calls.submissions import Intend, KeepJob, ReadIntent
    from milepost.calls.tokens import CreateToken, FindToken, ListTokens, NoteToken, RevokeToken
    from milepost.calls.upkeep import LOGS, Collect, CollectBackend, Due, ExportRows, Holdings, ImportRows, Stats, TakeLease

__all__ = [
    "EVENT_RUN_PREFIX",
    "LOGS",
    "PLAIN",
    "Advance",
    "Archives",
    "AssetArchives",
    "AssetPage",
    "AssetRows",
    "AttachAsset",
    "BeginRun",
    "Call",
    "Check",
    "Clear",
    "ClearInstances",
    "Cleared",
    "Collect",
    "CollectBackend",
    "CopyAsset",
    "Count",
    "CreateToken",
    "DeclareAssets",
    "Delete",
    "DeleteIf",
    "DeleteRun",
    "Due",
    "Edit",
    "EntryPage",
    "Expand",
    "Expanded",
    "ExportRows",
    "FindAsset",
    "FindToken",
    "Finish",
    "Get",
    "GetMany",
    "GetResults",
    "Handle",
    "Held",
    "HeldKeys",
    "History",
    "HoldRun",
    "Holdings",
    "ImportRows",
    "Increment",
    "InstancePage",
    "Intend",
    "Item",
    "Items",
    "KeepJob",
    "Keys",
    "ListAssets",
    "ListInstances",
    "ListOutcomes",
    "ListRuns",
    "ListTokens",
    "NoteToken",
    "Now",
    "Open",
    "Opened",
    "Page",
    "PageRow",
    "Past",
    "PastRun",
    "PendingRuns",
    "Put",
    "PutDefault",
    "PutIf",
    "PutResult",
    "Read",
    "ReadIntent",
    "RecordEvent",
    "RecordedEvent",
    "Restore",
    "RestoreAsset",
    "RevokeToken",
    "Rollback",
    "RunKey",
    "RunPage",
    "RunRow",
    "SetActive",
    "Stage",
    "Stats",
    "Stored",
    "Sweep",
    "Swept",
    "TakeLease",
    "Touch",
    "new_version",
    "stored_value",
]

if not TYPE_CHECKING:  # what most tasks do without: seventy classes take time at every start
    __getattr__ = names_at_first_use(
        __name__, ("lists", "changes", "assets", "submissions", "lifecycle", "editing", "events", "upkeep", "tokens")
    )
