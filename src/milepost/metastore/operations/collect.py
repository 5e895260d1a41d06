"""Collection: what is due goes in bounded batches (SPEC section 8)."""

from __future__ import annotations

from milepost import calls
from milepost.metastore.operations.base import Environment, Operation

__all__ = ["batch"]


def batch(call: calls.Collect, _: Environment) -> Operation[int]:
    """See `milepost.calls.Collect`. The cutoffs are instants, computed by the caller from the metastore's clock."""
    parameters = {
        "expired": (),
        "retired": (call.cutoff, call.unfinished_cutoff),
        "old_changes": (call.cutoff,),
    }[call.what]
    if call.batch is None:
        ((due,),) = yield f"{call.what}_count", parameters
        return int(due)
    return (yield f"{call.what}_delete", (*parameters, call.batch))  # type: ignore[no-any-return]
