"""What a token opens: decisions without I/O.

Every call is in one of the sets below, or it needs the worker secret.
"""

from __future__ import annotations

from typing import Any, Final

from milepost import calls
from milepost.calls import Call, Handle
from milepost.entry import Writer
from milepost.errors import ForbiddenError
from milepost.scopes import AssetScope, TaskScope
from milepost.server.auth import Claims, mark

__all__ = ["BY_SECRET", "CHECKED", "READS", "WRITES", "own_handle", "past_run", "permit"]

Kinds = frozenset[type[Call[Any]]]

READS: Final[Kinds] = frozenset({calls.Get, calls.Read, calls.GetMany, calls.Keys, calls.Items, calls.Count})
"""Reads of entries: of the attempt's own instance, its assets, and its task in earlier runs."""

WRITES: Final[Kinds] = frozenset(
    {
        calls.Check,
        calls.Put,
        calls.PutDefault,
        calls.PutIf,
        calls.Increment,
        calls.Touch,
        calls.Delete,
        calls.Clear,
        calls.PastRun,
        calls.ReadIntent,
        calls.Intend,
        calls.KeepJob,
        calls.Advance,
        calls.Stage,
        calls.History,
        calls.Rollback,
        calls.AssetArchives,
    }
)
"""Calls on the attempt's own instance and its assets only."""

CHECKED: Final[Kinds] = frozenset(
    {calls.PutResult, calls.GetResults, calls.FindAsset, calls.ReadIntent, calls.History, calls.AssetArchives}
)
"""Calls that do not look themselves whether the attempt still runs."""

BY_SECRET: Final[Kinds] = frozenset(
    {
        calls.ListAssets,
        calls.AssetPage,
        calls.HeldKeys,
        calls.DeclareAssets,
        calls.SetActive,
        calls.AttachAsset,
        calls.CopyAsset,
        calls.RestoreAsset,
        calls.Sweep,
        calls.RecordEvent,
        calls.PendingRuns,
        calls.Expand,
        calls.ListOutcomes,
        calls.ClearInstances,
        calls.Archives,
        calls.Restore,
        calls.DeleteRun,
        calls.ListInstances,
        calls.BeginRun,
        calls.HoldRun,
        calls.ListRuns,
        calls.TakeLease,
        calls.Collect,
        calls.CollectBackend,
        calls.Due,
        calls.Stats,
        calls.Holdings,
        calls.ExportRows,
        calls.ImportRows,
        calls.EntryPage,
        calls.Edit,
        calls.DeleteIf,
        calls.RunPage,
        calls.InstancePage,
        calls.CreateToken,
        calls.FindToken,
        calls.ListTokens,
        calls.RevokeToken,
        calls.NoteToken,
    }
)
"""What no token opens."""


def permit(claims: Claims, call: Call[Any]) -> None:
    """Make sure that a token opens a call, and put what the token says into its handle.

    Raises:
        ForbiddenError: It does not. Nothing in the answer depends on what the store holds.
    """
    kind = type(call)
    if isinstance(call, calls.Now):
        return
    if isinstance(call, calls.Open):
        _permit_open(claims, call)
    elif isinstance(call, calls.Finish | calls.PutResult):
        if (call.scope, call.attempt, call.incarnation) != (claims.scope, claims.attempt, claims.incarnation):
            raise _foreign(claims)
    elif isinstance(call, calls.GetResults):
        own = (claims.scope.dag_id, claims.scope.run_id)
        if (call.dag_id, call.run_id) != own or mark(call.task_id) not in claims.results:
            raise _foreign(claims)
    elif isinstance(call, calls.FindAsset):  # what an asset of its own is called by now
        if call.register or call.scope.asset_id not in claims.assets:
            raise _foreign(claims)
    elif kind in READS or kind in WRITES:
        call.handle = _handle(claims, call.handle, read=kind in READS)  # type: ignore[attr-defined]
    else:
        raise ForbiddenError(f"{kind.__name__} needs the worker secret; this token is of one attempt")


def _foreign(claims: Claims) -> ForbiddenError:
    return ForbiddenError(f"this token opens attempt {claims.attempt} of {claims.scope} and what it declared, nothing else")


def _permit_open(claims: Claims, call: calls.Open) -> None:
    asked = (call.scope, call.attempt, call.incarnation)
    own = (claims.scope, claims.attempt, claims.incarnation)
    declared = (
        {mark(one) for one in call.inlets} <= claims.inlets
        and {mark(one) for one in call.outlets} <= claims.outlets
        and {mark(one) for one in call.inlet_aliases} <= claims.aliases
    )
    if asked != own or not declared:  # what an alias stands for takes the worker secret to say
        raise _foreign(claims)


def past_run(claims: Claims, handle: Handle) -> str | None:
    """Return the run of a handle on the same task in another run; `None` for any other handle."""
    scope, own = handle.scope, claims.scope
    if not isinstance(scope, TaskScope) or scope.run_id == own.run_id or not handle.fixed:
        return None
    same = (scope.dag_id, scope.task_id, scope.map_index) == (own.dag_id, own.task_id, own.map_index)
    return scope.run_id if same else None


def own_handle(claims: Claims) -> Handle:
    """Return the handle on the attempt's own instance."""
    return Handle(
        claims.scope,
        Writer.of_task(claims.scope, claims.attempt).encode(claims.scope),
        instance_id=claims.instance_id,
        fence=claims.fence,
        attempt=claims.attempt,
        running=True,
    )


def _handle(claims: Claims, given: Handle, *, read: bool) -> Handle:
    """Return the handle to work with: the token's own numbers, never those of the request."""
    scope = given.scope
    if claims.instance_id is None or given.instance_id is None:
        if scope == claims.scope or isinstance(scope, AssetScope):
            raise ForbiddenError(
                f"attempt {claims.attempt} of {claims.scope} has to be opened first; it then works by its fence"
            )
        raise _foreign(claims)
    handle = own_handle(claims)
    if (given.instance_id, given.fence, given.attempt, given.logged) != (
        handle.instance_id,
        handle.fence,
        handle.attempt,
        False,
    ):
        raise _foreign(claims)
    if scope == claims.scope:
        return handle
    handle.writer = Writer.of_task(claims.scope, claims.attempt).encode()
    if isinstance(scope, AssetScope) and given.owner_id in claims.assets and scope.asset_id == given.owner_id:
        handle.scope, handle.owner_id = scope, given.owner_id
        return handle
    if read and past_run(claims, given) is not None:
        handle.scope, handle.owner_id, handle.fixed = scope, given.owner_id, True
        return handle
    raise _foreign(claims)
