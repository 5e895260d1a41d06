"""What each call does, written once and without I/O.

An operation is a generator: it yields the name and the parameters of a statement and receives its answer (see
`milepost.metastore.statements`). What it returns is the answer of the call. Engines
run it, blocking or not, in one transaction.

``OPERATIONS`` names, for each class of call, the generator function and whether it writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from milepost import calls
from milepost.metastore.operations import (
    asset_values,
    assets,
    collect,
    editing,
    entries,
    events,
    instances,
    lifecycle,
    registry,
    runs,
    staging,
    submissions,
    tokens,
    transfer,
)
from milepost.metastore.operations.base import Environment, Operation

__all__ = ["DIRECT", "OPERATIONS", "Environment", "Operation"]

DIRECT: dict[type[calls.Call[Any]], Callable[[Any, Environment], Operation[tuple[Any] | None]]] = {
    calls.Put: entries.put_directly,
    calls.Advance: asset_values.advance_directly,
}
"""A way with one statement and without a transaction for some calls. It returns the answer in a tuple, or `None`: the call
is not plain, so that the operation has to run."""

OPERATIONS: dict[type[calls.Call[Any]], tuple[Callable[[Any, Environment], Operation[Any]], bool]] = {
    calls.Now: (entries.now, False),
    calls.Check: (entries.check, True),
    calls.Get: (entries.get, False),
    calls.Read: (entries.read, False),
    calls.GetMany: (entries.get_many, False),
    calls.Keys: (entries.keys, False),
    calls.Items: (entries.items, False),
    calls.Count: (entries.count, False),
    calls.PastRun: (instances.past_run, False),
    calls.Put: (entries.put, True),
    calls.PutDefault: (entries.put_default, True),
    calls.PutIf: (entries.put_if, True),
    calls.Increment: (entries.increment, True),
    calls.Touch: (entries.touch, True),
    calls.Delete: (entries.delete, True),
    calls.Clear: (entries.clear, True),
    calls.EntryPage: (editing.entry_page, False),
    calls.Edit: (editing.edit, True),
    calls.DeleteIf: (editing.delete_if, True),
    calls.RunPage: (editing.run_page, False),
    calls.InstancePage: (editing.instance_page, False),
    calls.ReadIntent: (submissions.read, False),
    calls.Intend: (submissions.intend, True),
    calls.KeepJob: (submissions.keep, True),
    calls.FindAsset: (assets.find, True),
    calls.ListAssets: (registry.list_all, False),
    calls.AssetPage: (registry.page, False),
    calls.HeldKeys: (registry.held, False),
    calls.DeclareAssets: (registry.declare, True),
    calls.SetActive: (registry.set_active, True),
    calls.AttachAsset: (registry.attach, True),
    calls.Sweep: (registry.sweep, True),
    calls.Advance: (asset_values.advance, True),
    calls.History: (asset_values.history, False),
    calls.Rollback: (asset_values.rollback, True),
    calls.CopyAsset: (asset_values.copy, True),
    calls.AssetArchives: (asset_values.archives, False),
    calls.RestoreAsset: (asset_values.restore, True),
    calls.Stage: (staging.stage, True),
    calls.Open: (lifecycle.open_attempt, True),
    calls.Finish: (lifecycle.finish, True),
    calls.Expand: (lifecycle.expand, True),
    calls.ClearInstances: (lifecycle.clear, True),
    calls.Archives: (instances.archives, False),
    calls.Restore: (lifecycle.restore, True),
    calls.DeleteRun: (lifecycle.delete_run, True),
    calls.ListInstances: (instances.list_all, False),
    calls.BeginRun: (runs.begin, True),
    calls.HoldRun: (runs.hold, True),
    calls.ListRuns: (runs.list_all, False),
    calls.ListOutcomes: (runs.outcomes, False),
    calls.PutResult: (runs.put_result, True),
    calls.GetResults: (runs.get_results, False),
    calls.RecordEvent: (events.record, True),
    calls.PendingRuns: (events.pending, False),
    calls.TakeLease: (collect.lease, True),
    calls.Collect: (collect.batch, True),
    calls.Due: (collect.due, False),
    calls.CollectBackend: (collect.backend, False),
    calls.Stats: (collect.stats, False),
    calls.Holdings: (transfer.holdings, False),
    calls.CreateToken: (tokens.create, True),
    calls.FindToken: (tokens.find, False),
    calls.ListTokens: (tokens.list_all, False),
    calls.RevokeToken: (tokens.revoke, True),
    calls.NoteToken: (tokens.note, True),
    calls.ExportRows: (transfer.page, False),
    calls.ImportRows: (transfer.fill, True),
}
