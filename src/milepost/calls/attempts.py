"""How an attempt of a task instance begins and ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from milepost.calls.base import Call
from milepost.entry import TaskOptions
from milepost.scopes import AssetScope, TaskScope

__all__ = ["Finish", "Open", "Opened"]


@dataclass(eq=False, slots=True)
class Opened:
    """The answer to `Open`: what an attempt needs to work."""

    instance_id: int
    fence: int
    attempt: int
    inlets: list[tuple[int, str, str]]
    """Number, name and URI of each; references to assets that nobody has declared are left out, here and among outlets."""
    outlets: list[tuple[int, str, str]]
    warning: str | None = None
    discarded: list[TaskScope] = field(default_factory=list)
    """Instances whose keys went: another item, or a new incarnation of the run."""


@dataclass(eq=False, slots=True)
class Open(Call[Opened]):
    """Begin or resume an attempt (SPEC section 4.2, ``open``). One transaction.

    Args:
        scope: The task instance.
        attempt: At least 1; `None`: the one after the newest, drawn in the transaction.
        incarnation: See SPEC; `None` means the recorded one.
        item: The fingerprint of the mapped item, or `None` for no guard.
        item_name: A name of the item for people.
        inlets: Concrete inlet assets.
        outlets: Concrete outlet assets.
        inlet_aliases: Aliases among the inlets; the assets that they stand for are inlets too.
        options: Options of the task, recorded with the instance.
        max_tries: How many tries the host grants it; others than at the attempt before: cleared there, it starts over.
        run_clears: How often the host has cleared the run, where another incarnation after more clears is the same run.

    Raises:
        StaleAttemptError: A lower attempt, a cleared one, or a replaced incarnation.
    """

    scope: TaskScope
    attempt: int | None = None
    incarnation: str | None = None
    item: str | None = None
    item_name: str | None = None
    inlets: Sequence[AssetScope] = ()
    outlets: Sequence[AssetScope] = ()
    inlet_aliases: Sequence[str] = ()
    options: TaskOptions = field(default_factory=TaskOptions)
    max_tries: int | None = None
    run_clears: int | None = None


@dataclass(eq=False, slots=True)
class Finish(Call[bool]):
    """End an attempt (SPEC section 4.2, ``finish``). One transaction; the same state again: nothing.

    Success writes what the attempt has staged (`Stage`), any other end but ``deferred`` drops it.
    The answer is whether success dropped the keys (``clear_on_success``).

    Raises:
        StaleAttemptError: The attempt is not the current one.
        InstanceNotFoundError: The instance was never opened.
        InstanceStateError: It has already ended in another state.
        AssetNotActiveError: A value is staged for an asset that was deactivated since; the attempt has not ended.
        AssetNotFoundError: Likewise, for an asset that is gone.
        TypeError: A staged value that was to advance cannot be compared with what is stored by now; likewise.
    """

    scope: TaskScope
    attempt: int
    state: str
    incarnation: str | None = None
    error: str | None = None
    """Why it failed: one short line for people, kept beside ``failed`` and ``up_for_retry`` only."""
