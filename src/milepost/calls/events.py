"""What happens to assets, and the runs that it starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from milepost.calls.base import Call
from milepost.scopes import AssetScope

__all__ = ["EVENT_RUN_PREFIX", "PendingRuns", "RecordEvent", "RecordedEvent", "RunKey"]


EVENT_RUN_PREFIX: Final = "asset_triggered__"
"""How the ids of runs begin that an event started, as in Airflow."""


class RunKey(NamedTuple):
    """The ids of a run."""

    dag_id: str
    run_id: str


class RecordedEvent(NamedTuple):
    """The answer to `RecordEvent`.

    Args:
        new: Whether it was new to any of the assets.
        runs: The runs that it started, now or before, and that have not ended.
    """

    new: bool
    runs: list[RunKey]


@dataclass(eq=False, slots=True)
class RecordEvent(Call[RecordedEvent]):
    """Record an event, for each of its assets once, and the runs that it starts: one for each DAG. One transaction.

    Args:
        assets: The assets, each with its number and both names, and for each the watcher that saw it.
        event_id: Tells it from every other event of the asset.
        payload: JSON text.
        dags: DAGs to start a run of, each with the numbers of those of the assets that it is scheduled on.
        logical_date: The instant that the runs stand for, in microseconds UTC.

    Raises:
        AssetNotFoundError: One of the assets is gone.
        AssetNotActiveError: One of them is deactivated.
    """

    assets: Sequence[tuple[AssetScope, str]]
    event_id: str
    payload: str
    dags: Sequence[tuple[str, Sequence[int]]]
    logical_date: int


@dataclass(eq=False, slots=True)
class PendingRuns(Call[list[RunKey]]):
    """Runs that events started and that have not ended, or were cleared since, in the order of recording."""
