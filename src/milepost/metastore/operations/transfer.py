"""Export and import: pages of rows out, batches of rows in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from milepost import calls
from milepost.errors import InvalidValueError
from milepost.metastore.operations.assets import alias_hash, asset_hash
from milepost.metastore.operations.base import Batch, Environment, Operation
from milepost.scopes import TaskScope, run_hash

__all__ = ["fill", "holdings", "page"]

Row = tuple[Any, ...]


class _Page(NamedTuple):
    """How a kind is read.

    Args:
        statement: Its statement.
        start: Where the first page begins.
        skip: Leading columns that only say where the next page begins.
    """

    statement: str
    start: Row
    skip: int


_PAGES = {
    "run": _Page("transfer_runs", (0,), 1),
    "instance": _Page("transfer_instances", (0,), 1),
    "expansion": _Page("transfer_expansions", (0, ""), 2),
    "outcome": _Page("transfer_outcomes", (0, "", -1, -1), 4),
    "run_clear": _Page("transfer_run_clears", (0,), 1),
    "grant": _Page("transfer_grants", (0,), 1),
    "asset": _Page("transfer_assets", (0,), 1),
    "reference": _Page("transfer_references", (0, "", ""), 3),
    "alias": _Page("transfer_aliases", (0, ""), 2),
    "deactivation": _Page("transfer_deactivations", (0,), 1),
    "staged": _Page("transfer_staged", (0, 0, ""), 3),
    "task_entry": _Page("transfer_task_entries", (0, "", 0), 3),
    "asset_entry": _Page("transfer_asset_entries", (0, "", 0), 3),
    "change": _Page("transfer_changes", (0,), 0),
    "result": _Page("transfer_results", (0,), 1),
    "intent": _Page("transfer_intents", (0, "", 0), 3),
    "replaced": _Page("transfer_replaced", (b"", ""), 2),
}
_HOLDINGS = ("runs", "assets", "entries", "changes", "results", "incarnations")


def holdings(_call: calls.Holdings, _: Environment) -> Operation[list[str]]:
    """See `milepost.calls.Holdings`."""
    (row,) = yield "transfer_holdings", ()
    return [name for name, there in zip(_HOLDINGS, row, strict=True) if there]


def page(call: calls.ExportRows, _: Environment) -> Operation[tuple[list[Row], Row | None]]:
    """See `milepost.calls.ExportRows`."""
    if call.kind not in _PAGES:
        raise InvalidValueError(f"there are no rows of the kind {call.kind!r}; known: {', '.join(_PAGES)}")
    how = _PAGES[call.kind]
    rows = yield how.statement, (*(call.after or how.start), call.limit)
    after = None
    if len(rows) == call.limit:
        after = tuple(rows[-1][: len(how.start)])
        if call.kind == "replaced":
            after = (bytes.fromhex(after[0]), after[1])
    return [tuple(row[how.skip :]) for row in rows], after


def fill(call: calls.ImportRows, _: Environment) -> Operation[dict[int, int]]:
    """See `milepost.calls.ImportRows`."""
    if call.kind == "change":
        return (yield from _changes(call))
    if call.kind not in _INSERTS:
        raise InvalidValueError(f"there are no rows of the kind {call.kind!r}; known: change, {', '.join(_INSERTS)}")
    prepared: list[Row] = []
    for row in call.rows:
        if call.kind in ("instance", "asset"):
            number = yield "owner_new", ("task" if call.kind == "instance" else "asset",)
            prepared.append((number, *_prepare(call.kind, row)))
        else:
            prepared.append(_prepare(call.kind, row))
    yield _INSERTS[call.kind], Batch(prepared, ())
    return {}


def _task(row: Row) -> bytes:
    return TaskScope(*row[:4]).hash


_INSERTS = {
    "run": "transfer_run",
    "instance": "transfer_instance",
    "expansion": "transfer_expansion",
    "outcome": "transfer_outcome",
    "run_clear": "transfer_run_clear",
    "grant": "transfer_grant",
    "asset": "transfer_asset",
    "reference": "transfer_reference",
    "alias": "transfer_alias",
    "deactivation": "transfer_deactivation",
    "staged": "transfer_stage",
    "task_entry": "transfer_entry",
    "asset_entry": "transfer_entry",
    "result": "transfer_result",
    "intent": "transfer_intent",
    "replaced": "transfer_replace",
}
_PREPARE: dict[str, Callable[[Row], Row]] = {
    "run": lambda row: (run_hash(*row[:2]), *row),
    "instance": lambda row: (_task(row), run_hash(*row[:2]), *row[2:]),
    "expansion": lambda row: (run_hash(*row[:2]), *row[2:]),
    "outcome": lambda row: (run_hash(*row[:2]), *row[2:]),
    "run_clear": lambda row: (run_hash(*row[:2]), *row[2:]),
    "grant": lambda row: (_task(row), *row[4:]),
    "asset": lambda row: (asset_hash(*row[:2]), *row),
    "reference": lambda row: (asset_hash(*row[:2]), *row[2:]),
    "alias": lambda row: (asset_hash(*row[:2]), alias_hash(row[2]), row[2]),
    "deactivation": lambda row: (asset_hash(*row[:2]), *row[2:]),
    "staged": lambda row: (_task(row), asset_hash(*row[4:6]), *row[6:]),
    "task_entry": lambda row: (_task(row), *row[4:]),
    "asset_entry": lambda row: (asset_hash(*row[:2]), *row[2:]),
    "result": lambda row: (_task(row), *row[4:]),
    "intent": lambda row: (_task(row), *row[4:]),
    "replaced": lambda row: (bytes.fromhex(row[0]), *row[1:]),
}


def _prepare(kind: str, row: Row) -> Row:
    """Return the parameters for a row: owners are found by their hashes."""
    return _PREPARE[kind](row)


def _changes(call: calls.ImportRows) -> Operation[dict[int, int]]:
    """Record rows of the change log in their order; those that others refer to one by one, because their numbers count."""
    found: dict[int, int] = {}
    waiting: list[Row] = []
    for number, event, *rest in call.rows:
        parameters = _change(rest)
        if event is not None and event != number:
            waiting.append((found.get(event) or call.events[event], *parameters))
        elif event is None and parameters[_KEY] is not None:
            waiting.append((None, *parameters))
        else:
            yield from _flush(waiting)
            found[number] = yield "transfer_head", parameters
            if event is not None:
                yield "transfer_own_event", (found[number],)
    yield from _flush(waiting)
    return found


_KEY = 6
"""Where the key stands in the parameters of a change, counted without its event."""


def _change(rest: Sequence[Any]) -> Row:
    dag_id, run_id, task_id, map_index, name, uri, *others = rest
    owner = None
    if dag_id is not None:
        owner = TaskScope(dag_id, run_id, task_id, map_index).hash
    elif name is not None:
        owner = asset_hash(name, uri)
    return (owner, *others)


def _flush(waiting: list[Row]) -> Operation[None]:
    if waiting:
        yield "transfer_change", Batch(waiting[:], ())
        waiting.clear()
