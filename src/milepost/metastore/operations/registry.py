"""Which assets there are and who refers to them: declare, activate, deactivate, sweep (SPEC section 5)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from typing import Any, cast

from milepost import calls
from milepost.asset_records import AssetChanges, AssetRecord, AssetReference
from milepost.errors import AssetNotFoundError
from milepost.metastore.operations.assets import alias_hash, find_all, find_one
from milepost.metastore.operations.base import Environment, Operation
from milepost.metastore.operations.records import asset_record
from milepost.scopes import AssetScope, key_text, prefix_end

__all__ = ["attach", "declare", "held", "list_all", "page", "set_active", "sweep"]


# -- records --------------------------------------------------------------------------------------------------------------


def list_all(call: calls.ListAssets, _: Environment) -> Operation[list[AssetRecord]]:
    """See `milepost.calls.ListAssets`."""
    number = None
    if call.scope is not None:
        try:
            number = (yield from find_one(call.scope))[0]
        except AssetNotFoundError:
            return []
    return (yield from _records(number, call.active, call.dag_id))


def _records(number: int | None, active: bool | None = None, dag_id: str | None = None) -> Operation[list[AssetRecord]]:
    rows = yield "asset_list", (number, None if active is None else int(active), dag_id)
    references = yield "reference_list", (number,)
    return _joined(rows, references, (yield "alias_list", (number,)))


def page(call: calls.AssetPage, _: Environment) -> Operation[calls.AssetRows]:
    """See `milepost.calls.AssetPage`."""
    wanted = (None if call.active is None else int(call.active), call.prefix, prefix_end(call.prefix))
    kind, parameters = ("", wanted) if call.dag_id is None else ("_of_dag", (call.dag_id, *wanted))
    rows = yield f"asset_page{kind}", (*parameters, call.after, call.limit, call.offset)
    numbers = json.dumps([row[0] for row in rows])
    references = yield "references_of_assets", (numbers,)
    records = _joined(rows, references, (yield "aliases_of_assets", (numbers,)))
    if not call.counted:
        return calls.AssetRows(records, None)
    ((total,),) = yield f"asset_count{kind}", parameters
    return calls.AssetRows(records, int(total))


def _joined(rows: Sequence[Any], references: Iterable[Any], aliases: Iterable[Any]) -> list[AssetRecord]:
    """Return records of assets with who refers to each."""
    referring: dict[int, list[AssetReference]] = defaultdict(list)
    named: dict[int, list[str]] = defaultdict(list)
    for asset, dag, direction in references:
        referring[asset].append(AssetReference(key_text(dag), cast("Any", key_text(direction))))
    for asset, alias in aliases:
        named[asset].append(key_text(alias))
    return [asset_record(row, referring[row[0]], sorted(named[row[0]])) for row in rows]


def held(call: calls.HeldKeys, _: Environment) -> Operation[calls.Held]:
    """See `milepost.calls.HeldKeys`."""
    ((count,),) = yield "entry_count", (call.asset,)
    rows = yield "entry_first", (call.asset, call.limit)
    return calls.Held(int(count), [key_text(key) for (key,) in rows])


# -- active or not --------------------------------------------------------------------------------------------------------


def _switch(asset: tuple[int, str, str], cause: str, writer: str, *, active: bool) -> Operation[bool]:
    """Activate or deactivate an asset that this transaction has locked; whether it was otherwise."""
    number = asset[0]
    rows = yield "asset_lock", (number,)
    if not rows or bool(rows[0][0]) == active:
        return False
    yield "asset_set_active", (number, int(active))
    if active:
        yield "deactivation_drop", (number,)
    else:
        yield "deactivation_add", (number, cause, writer)
    yield "change_event", ("event", "activate" if active else "deactivate", number, str(AssetScope(*asset)), writer)
    return True


def set_active(call: calls.SetActive, _: Environment) -> Operation[AssetRecord]:
    """See `milepost.calls.SetActive`."""
    found = yield from find_one(call.scope)
    yield from _switch(found, "command", call.writer, active=call.active)
    ((record),) = yield from _records(found[0])
    return record


def _let_go(assets: Sequence[int], writer: str) -> Operation[list[AssetScope]]:
    """Deactivate those of some assets, which this transaction has locked, that nothing refers to any more."""
    gone = []
    for number in assets:
        if not (yield "asset_is_used", (number,)):
            rows = yield "asset_by_id", (number,)
            if rows and (yield from _switch(rows[0], "unreferenced", writer, active=False)):
                gone.append(AssetScope(*rows[0]))
    return gone


# -- references -----------------------------------------------------------------------------------------------------------


def declare(call: calls.DeclareAssets, _: Environment) -> Operation[AssetChanges]:
    """See `milepost.calls.DeclareAssets`."""
    added: list[AssetScope] = []
    activated: list[AssetScope] = []
    while True:
        # All DAGs together: one may refer to what another one declares.
        found = yield from find_all([scope for references in call.dags.values() for scope, _ in references], added)
        names = {one[0]: one for one in found.values()}
        changes = []
        for dag_id, references in call.dags.items():
            wanted = {(found[scope][0], direction) for scope, direction in references if scope in found}
            before = {(asset, direction) for asset, direction in (yield "references_of_dag", (dag_id,))}
            changes.append((dag_id, before, wanted))
        changed = sorted({asset for _, before, wanted in changes for asset, _ in wanted ^ before})
        # DAGs that are loaded at the same time decide one after the other whether an asset is still referred to.
        if (yield from _lock(changed, names)):
            break
    let_go: set[int] = set()
    for dag_id, before, wanted in changes:
        for asset, direction in sorted(before - wanted):
            yield "reference_drop", (asset, dag_id, direction)
        for asset, direction in sorted(wanted - before):
            yield "reference_add", (asset, dag_id, direction)
        for asset in sorted({asset for asset, _ in wanted - before}):
            if (yield from _switch(names[asset], "", call.writer, active=True)):
                activated += [AssetScope(*names[asset])]
        let_go |= {asset for asset, _ in before} - {asset for asset, _ in wanted}
    # What one DAG lets go another one may refer to.
    deactivated = yield from _let_go(sorted(let_go), call.writer)
    return AssetChanges(tuple(added), tuple(activated), tuple(deactivated))


def _lock(assets: Sequence[int], needed: Container[int]) -> Operation[bool]:
    """Lock assets; whether those that are needed are still there: a sweep may have been faster."""
    there = True
    for number in assets:
        rows = yield "asset_lock", (number,)
        there = there and bool(rows or number not in needed)
    return there


def attach(call: calls.AttachAsset, _: Environment) -> Operation[AssetRecord]:
    """See `milepost.calls.AttachAsset`."""
    hash_ = alias_hash(call.alias)
    while True:
        found = yield from find_one(call.scope, register=call.attached)
        number = found[0]
        if (yield from _lock([number], [number])):
            break
    if call.attached:
        yield "alias_add", (hash_, number, call.alias)
        yield from _switch(found, "", call.writer, active=True)
    elif (yield "alias_drop", (hash_, number)):
        yield from _let_go([number], call.writer)
    ((record),) = yield from _records(number)
    return record


# -- the orphan sweep -----------------------------------------------------------------------------------------------------


def sweep(call: calls.Sweep, _: Environment) -> Operation[calls.Swept]:
    """See `milepost.calls.Sweep`."""
    for (left,) in (yield "swept_next", ()):
        rows: int = yield "swept_entries", (left, call.batch)
        if rows < call.batch:
            rows += yield "swept_changes", (left, call.batch - rows)
        if rows < call.batch:
            rows += yield "swept_events", (left, call.batch - rows)
        if rows < call.batch:
            yield "deactivation_drop", (left,)
            yield "owner_delete", (left,)
        return calls.Swept(max(rows, 1), None)
    for number, name, uri in (yield "orphan_next", (call.cutoff,)):
        yield "asset_lock", (number,)
        if (yield "orphan_check", (number, call.cutoff)):
            yield "references_drop", (number,)
            yield "asset_delete", (number,)
            yield "swept_mark", (number,)
            asset = AssetScope(cast("int", number), name, uri)
            yield "change_event", ("event", "sweep", None, str(asset), call.writer)
            return calls.Swept(1, asset)
        return calls.Swept(1, None)  # it came back at this very moment
    return calls.Swept(0, None)
