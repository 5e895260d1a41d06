"""Whether a write took effect, where its answer was lost: its version is one that no other write has."""

from __future__ import annotations

from typing import Any

from milepost.calls.base import Call, Stored
from milepost.calls.changes import Increment, PutIf
from milepost.calls.editing import Edit
from milepost.calls.entries import Read
from milepost.values import decode

__all__ = ["proof_of", "recognised"]


def proof_of(call: Call[Any]) -> Read | None:
    """Return the read that tells whether a write took effect, where there is one."""
    if isinstance(call, PutIf | Edit):
        return Read(call.handle, call.item.key)
    return Read(call.handle, call.key) if isinstance(call, Increment) else None


def recognised(call: Call[Any], row: Stored | None) -> tuple[Any] | None:
    """Return the answer of a write, in a tuple, if the row shows that it took effect; otherwise nobody knows."""
    if isinstance(call, PutIf | Edit) and row is not None and row.version == call.item.version:
        return (None,)
    if isinstance(call, Increment) and row is not None and row.version == call.version:
        return (decode(row.value),)
    return None
