"""Values that wait for the success of their attempt."""

from __future__ import annotations

from typing import Any, cast

from milepost import calls
from milepost.calls import Handle, Item, stored_value
from milepost.errors import AssetNotActiveError, AssetNotFoundError, DamagedEntryError, InstanceStateError
from milepost.metastore.operations.base import Environment, Operation, guard_write, stale
from milepost.metastore.operations.entries import write
from milepost.ordering import Order, is_further
from milepost.scopes import AssetScope, activate_command, key_text

__all__ = ["commit", "further", "stage"]

_MODES: dict[str, Order] = {"advance": None, "advance:datetime": "datetime"}
"""How values are compared that are staged to advance; one that is staged in the mode `set` is just written."""


def further(item: Item, text: Any, encoding: Any, order: Order) -> bool:
    """Tell whether an item's value lies beyond a stored one.

    Raises:
        DamagedEntryError: One of the two cannot be read.
        TypeError: The two cannot be compared.
    """
    new = stored_value(item.key, item.text, item.encoding)
    return is_further(new, stored_value(item.key, text, encoding), order, item.key)


def stage(call: calls.Stage, _: Environment) -> Operation[None]:
    """See `milepost.calls.Stage`."""
    handle, item = call.handle, call.item
    rows = yield "stage_guard", (handle.instance_id,)
    if not rows or rows[0][0] != handle.fence:
        raise stale(handle)
    if rows[0][1] not in ("running", "deferred"):
        raise InstanceStateError(
            f"attempt {handle.attempt} has ended ({rows[0][1]}); what it stages now would never be seen"
        )
    # Without a lock: the asset may still be deactivated until the attempt ends, which then fails.
    rows = yield "asset_active", (handle.owner_id,)
    if not rows:
        raise AssetNotFoundError(f"the asset {handle.scope} is gone; take a new accessor for it")
    if not rows[0][0]:
        how = activate_command(cast("AssetScope", handle.scope))
        raise AssetNotActiveError(f"the asset {handle.scope} is deactivated; activate it to stage a value for it: {how}")
    mode = "set"
    if call.advance:
        mode = "advance" if call.order is None else f"advance:{call.order}"
        for text, encoding in (yield "entry_get", (handle.owner_id, item.key)):
            further(item, text, encoding, call.order)  # better to fail now than when the work is done
        for staged, text, encoding in (yield "staged_get", (handle.instance_id, handle.owner_id, item.key)):
            if not further(item, text, encoding, call.order):
                return
            mode = staged if staged == "set" else mode
    parts = (item.text, item.encoding, item.version, handle.writer)
    yield "staged_put", (handle.instance_id, handle.owner_id, item.key, handle.fence, mode, *parts)


def commit(instance: int, fence: int, environment: Environment) -> Operation[None]:
    """Write what an attempt has staged, in the transaction that records its success.

    Raises:
        AssetNotFoundError: An asset is gone; so that nothing is lost unseen, the attempt has not succeeded.
        AssetNotActiveError: An asset was deactivated meanwhile.
        DamagedEntryError: Someone damaged what was staged, or what it is compared with.
        TypeError: A value that was to advance cannot be compared with what is stored by now.
    """
    rows = yield "staged_list", (instance, fence)
    for asset, key, mode, text, encoding, version, writer in rows:
        names = yield "asset_by_id", (asset,)
        if not names:
            raise AssetNotFoundError(
                f"the asset for which {key_text(key)!r} is staged was removed since (its number was {asset})"
            )
        handle = Handle(AssetScope(*names[0]), cast("str", writer), owner_id=asset)
        yield from guard_write(handle, create=False)
        stored_value(key_text(key), text, encoding)
        if mode != "set" and mode not in _MODES:
            raise DamagedEntryError(key_text(key), f"it is staged in a way {mode!r} that is unknown to this release")
        item = Item(key, text, encoding, version)
        stored = (yield "entry_lock", (asset, key)) if mode in _MODES else []
        if not stored or further(item, stored[0][0], stored[0][1], _MODES[mode]):
            yield from write(handle, asset, item, None, environment, cause="stage")
    if rows:
        yield "staged_drop", (instance,)
