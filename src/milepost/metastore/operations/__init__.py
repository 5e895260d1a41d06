"""What each call does, written once and without I/O.

An operation is a generator: it yields the name and the parameters of a statement and receives its answer (see
`milepost.metastore.statements`). What it returns is the answer of the call. Engines
run it, blocking or not, in one transaction.

``OPERATIONS`` has, for each class of call, the generator function and whether it writes.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from milepost.metastore.operations.base import Environment, Operation

if TYPE_CHECKING:
    from milepost.calls import Call

__all__ = ["OPERATIONS", "Environment", "Operation", "Plan"]

_READS = {
    "Now": "entries.now",
    "Get": "entries.get",
    "Read": "entries.read",
    "GetMany": "entries.get_many",
    "Keys": "entries.keys",
    "Items": "entries.items",
    "Count": "entries.count",
    "PastRun": "instances.past_run",
    "EntryPage": "editing.entry_page",
    "RunPage": "editing.run_page",
    "InstancePage": "editing.instance_page",
    "ReadIntent": "submissions.read",
    "ListAssets": "registry.list_all",
    "AssetPage": "registry.page",
    "HeldKeys": "registry.held",
    "History": "asset_values.history",
    "AssetArchives": "asset_values.archives",
    "Archives": "instances.archives",
    "ListInstances": "instances.list_all",
    "ListRuns": "runs.list_all",
    "ListOutcomes": "runs.outcomes",
    "GetResults": "runs.get_results",
    "PendingRuns": "events.pending",
    "Due": "collect.due",
    "CollectBackend": "collect.backend",
    "Stats": "collect.stats",
    "Holdings": "transfer.holdings",
    "FindToken": "tokens.find",
    "ListTokens": "tokens.list_all",
    "ExportRows": "transfer.page",
}
"""By the name of a call, the module here and the function of its operation."""

_WRITES = {
    "Check": "entries.check",
    "Put": "entries.put",
    "PutDefault": "entries.put_default",
    "PutIf": "entries.put_if",
    "Increment": "entries.increment",
    "Touch": "entries.touch",
    "Delete": "entries.delete",
    "Clear": "entries.clear",
    "Edit": "editing.edit",
    "DeleteIf": "editing.delete_if",
    "Intend": "submissions.intend",
    "KeepJob": "submissions.keep",
    "FindAsset": "assets.find",
    "DeclareAssets": "registry.declare",
    "SetActive": "registry.set_active",
    "AttachAsset": "registry.attach",
    "Sweep": "registry.sweep",
    "Advance": "asset_values.advance",
    "Rollback": "asset_values.rollback",
    "CopyAsset": "asset_values.copy",
    "RestoreAsset": "asset_values.restore",
    "Stage": "staging.stage",
    "Open": "lifecycle.open_attempt",
    "Finish": "lifecycle.finish",
    "Expand": "lifecycle.expand",
    "ClearInstances": "lifecycle.clear",
    "Restore": "lifecycle.restore",
    "DeleteRun": "lifecycle.delete_run",
    "BeginRun": "runs.begin",
    "HoldRun": "runs.hold",
    "PutResult": "runs.put_result",
    "RecordEvent": "events.record",
    "TakeLease": "collect.lease",
    "Collect": "collect.batch",
    "CreateToken": "tokens.create",
    "RevokeToken": "tokens.revoke",
    "NoteToken": "tokens.note",
    "ImportRows": "transfer.fill",
}

_DIRECT = {
    "Put": "entries.put_directly",
    "Advance": "asset_values.advance_directly",
}


class Plan(NamedTuple):
    """How a call is run.

    Args:
        operation: Makes its operation.
        write: Whether that writes.
        direct: Makes an operation of one statement that needs no transaction, for some calls. It returns the answer in a
            tuple, or `None`: the call is not plain, so that ``operation`` has to run.
    """

    operation: Callable[[Any, Environment], Operation[Any]]
    write: bool
    direct: Callable[[Any, Environment], Operation[tuple[Any] | None]] | None = None


class _Plans(dict["type[Call[Any]]", Plan]):
    """The plans by class of call. The module of an operation is loaded when a call of that class is first made."""

    def __missing__(self, cls: type[Call[Any]]) -> Plan:
        name = cls.__name__
        write = name in _WRITES
        operation = _function(_WRITES[name] if write else _READS[name])
        self[cls] = plan = Plan(operation, write, _function(_DIRECT[name]) if name in _DIRECT else None)
        return plan


def _function(place: str) -> Callable[[Any, Environment], Operation[Any]]:
    module, _, name = place.partition(".")
    return getattr(import_module(f"{__name__}.{module}"), name)  # type: ignore[no-any-return]


OPERATIONS = _Plans()
