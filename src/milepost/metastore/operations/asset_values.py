"""What only the values of assets have: they advance, have a history, and can be copied and restored."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from milepost import calls
from milepost.calls import Handle, Item, new_version, stored_value
from milepost.errors import ArchiveNotFoundError, AssetNotFoundError, ConflictError, DamagedEntryError, NotFoundError
from milepost.metastore.operations.base import (
    Environment,
    Operation,
    guard_read,
    guard_write,
)
from milepost.metastore.operations.entries import write
from milepost.metastore.operations.records import archive_record
from milepost.metastore.operations.staging import further
from milepost.run_records import Archive
from milepost.scopes import key_text

__all__ = ["advance", "advance_directly", "archives", "copy", "history", "restore", "rollback"]


def advance_directly(call: calls.Advance, _: Environment) -> Operation[tuple[tuple[Any, Any]] | None]:
    """Return what is stored if the value does not lie beyond it, after one statement without a lock; otherwise `None`.

    It is for writers of which most come too late. Whatever is not plain is left to `advance`, which says more.
    """
    handle, item = call.handle, call.item
    rows = yield "asset_peek", (handle.owner_id, item.key, handle.instance_id)
    if not rows:
        return None
    text, encoding, active, fence = rows[0]
    held = handle.instance_id is None or fence == handle.fence
    if text is None or not active or not held or further(item, text, encoding, call.order):
        return None
    return ((text, encoding),)


def advance(call: calls.Advance, environment: Environment) -> Operation[tuple[Any, Any]]:
    """See `milepost.calls.Advance`."""
    handle, item = call.handle, call.item
    owner = yield from guard_write(handle, create=False)
    assert owner is not None
    rows = yield "entry_lock", (owner, item.key)
    if rows:
        text, encoding = rows[0][:2]
        if not further(item, text, encoding, call.order):
            return text, encoding
    yield from write(handle, owner, item, None, environment, cause="advance")
    return item.text, item.encoding


def history(call: calls.History, environment: Environment) -> Operation[list[calls.Past]]:
    """See `milepost.calls.History`."""
    limit = min(call.limit, environment.policy.asset_history_limit)
    rows: list[Any] = []
    if limit > 0:
        rows = yield "asset_history", (call.handle.owner_id, call.key, limit)
    if len(rows) < call.limit:
        yield from guard_read(call.handle)
    if not rows:
        active = yield "asset_active", (call.handle.owner_id,)
        if active and not active[0][0]:
            call.handle.meet_deactivated()
    return list(map(calls.Past._make, rows))


def rollback(call: calls.Rollback, environment: Environment) -> Operation[str]:
    """See `milepost.calls.Rollback`."""
    handle, key = call.handle, call.key
    owner = yield from guard_write(handle, create=False)
    assert owner is not None
    rows = yield "entry_lock", (owner, key)
    if rows and rows[0][2] in (call.past, call.version):
        return str(rows[0][2])
    found = []
    if environment.policy.asset_history_limit > 0:
        found = yield "asset_past", (owner, key, call.past)
    if not found:
        raise NotFoundError(
            f"the history of {key!r} of {handle.scope} has no version {call.past!r}; its history shows which it has"
        )
    text, encoding = found[0]
    _check_past(key, text, encoding)
    yield from write(handle, owner, Item(key, text, encoding, call.version), None, environment, cause="rollback")
    return call.version


def _check_past(key: str, text: Any, encoding: Any) -> None:
    """Refuse to make a value current again that someone damaged: nobody could read the key then.

    Raises:
        DamagedEntryError: The value cannot be read.
    """
    try:
        stored_value(key, text, encoding)
    except DamagedEntryError as error:
        raise DamagedEntryError(key, f"its earlier value, so nothing was written ({error.reason})") from error


def copy(call: calls.CopyAsset, environment: Environment) -> Operation[int]:
    """See `milepost.calls.CopyAsset`."""
    source, target = call.source, call.target
    # Two that copy the one to the other wait for each other in one order.
    for handle in sorted((source, target), key=lambda handle: handle.owner_id or 0):
        if handle is target:
            yield from guard_write(handle, create=False)
        elif not (yield "asset_lock", (handle.owner_id,)):  # deactivated or not: what is kept of it can be taken over
            raise AssetNotFoundError(f"the asset {handle.scope} is gone; take a new accessor for it")
    owner = target.owner_id
    assert owner is not None
    rows = yield "entry_items", (source.owner_id, "", None)
    live = {row[0] for row in (yield "entry_keys", (owner, "", None))}
    _refuse(target, live.intersection(row[0] for row in rows), force=call.force)
    for row in rows:
        stored_value(key_text(row[0]), row[1], row[2])  # a copy that cannot be read would take the place of one that can
    for row in rows:
        item = Item(row[0], row[1], row[2], new_version())
        yield from write(target, owner, item, None, environment, cause="copy")
    return len(rows)


def _refuse(handle: Handle, in_the_way: set[Any], *, force: bool) -> None:
    """Refuse to write over live keys.

    Raises:
        ConflictError: There are some, and ``force`` is not set.
    """
    if in_the_way and not force:
        some = ", ".join(sorted(key_text(key) for key in in_the_way)[:5])
        raise ConflictError(
            f"{handle.scope} has live keys ({some}); force (--force) writes over them, and its history keeps them"
        )


def archives(call: calls.AssetArchives, _: Environment) -> Operation[list[Archive]]:
    """See `milepost.calls.AssetArchives`."""
    handle = call.handle
    rows = yield "asset_active", (handle.owner_id,)
    if not rows or not rows[0][0]:
        return []
    rows = yield "asset_archives", (handle.owner_id,)
    return [archive_record(handle.scope, list(group)) for _, group in groupby(rows, key=lambda row: row[0])]


def restore(call: calls.RestoreAsset, environment: Environment) -> Operation[int]:
    """See `milepost.calls.RestoreAsset`."""
    handle = call.handle
    owner = yield from guard_write(handle, create=False)
    assert owner is not None
    rows = yield "asset_archives", (owner,)
    number = call.archive if call.archive is not None else (rows[0][0] if rows else None)
    rows = [row for row in rows if row[0] == number]
    if not rows:
        which = "nothing" if call.archive is None else f"no archive {call.archive}"
        raise ArchiveNotFoundError(f"there is {which} to restore of {handle.scope}")
    live = {row[0] for row in (yield "entry_keys", (owner, "", None))}
    _refuse(handle, live.intersection(row[4] for row in rows), force=call.force)
    for row in rows:
        ((text, encoding),) = yield "change_value", (row[5],)
        if row[4] in live:
            _check_past(row[4], text, encoding)
        yield from write(handle, owner, Item(row[4], text, encoding, new_version()), None, environment, cause="restore")
    return len(rows)
