"""Opening an attempt in the store, as the attempt does it and, where it died before, the runner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from milepost.entry import TaskOptions
from milepost.sdk.options import item_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from milepost.scopes import TaskScope
    from milepost.sdk.node import Task
    from milepost.store import Store

__all__ = ["open_attempt"]


def open_attempt(
    store: Store,
    scope: TaskScope,
    attempt: int,
    task: Task,
    mapped: Mapping[str, Any] | None,
    incarnation: str | None,
) -> dict[str, Any]:
    """Open an attempt.

    Args:
        store: The store.
        scope: The task instance.
        attempt: The number of the attempt.
        task: The task.
        mapped: Its mapped arguments, `None` if it is not mapped.
        incarnation: That of the run, as recorded when the runner took it.

    Returns:
        The stores of the attempt, as `milepost.Instances.open`.
    """
    chosen = task.milepost_options
    item = None if mapped is None else chosen.item(mapped)
    return store.instances.open(
        scope,
        attempt,
        incarnation=incarnation,
        item=item,
        item_name=None if item is None else item_name(item),
        inlets=task.inlets,
        outlets=task.outlets,
        options=TaskOptions(clear_on_success=chosen.clear_on_success, on_clear=chosen.on_clear),
    )
