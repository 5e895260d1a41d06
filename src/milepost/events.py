"""Events of assets, and the runs that they start."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from milepost import calls
from milepost.abc import Metastore
from milepost.calls import RecordedEvent, RunKey
from milepost.clock import to_micros
from milepost.scopes import MAX_ID_CHARS, MAX_KEY_CHARS, AssetScope, check_text
from milepost.values import encode

__all__ = ["MAX_EVENT_ID_CHARS", "Events"]

MAX_EVENT_ID_CHARS: Final = MAX_KEY_CHARS


class Events:
    """Records what happens to assets, each event once, with the runs that it starts. Every method has an ``a…`` twin.

    Args:
        metastore: Where they are kept.
        max_bytes: The most bytes of a payload; 0: no limit.
    """

    def __init__(self, metastore: Metastore, max_bytes: int) -> None:
        self._metastore = metastore
        self._max_bytes = max_bytes

    def record(
        self,
        event_id: str,
        payload: Any,
        *,
        assets: Sequence[tuple[AssetScope, str]],
        dags: Sequence[tuple[str, Sequence[int]]],
        logical_date: datetime,
    ) -> RecordedEvent:
        """Record an event for each of its assets, and one run for each DAG to start, all or nothing.

        An event that an asset has already changes nothing and starts nothing.

        Args:
            event_id: 1 to 512 characters that tell it from every other event of the asset.
            payload: What happened: a JSON value or `None`.
            assets: Its assets, each with its number and both names, and the name of the watcher that saw it.
            dags: DAGs to start a run of, each with the numbers of those of the assets that it is scheduled on.
            logical_date: The instant that the runs stand for, aware.

        Raises:
            AssetNotFoundError: One of the assets is gone.
            AssetNotActiveError: One of them is deactivated.
            ValueError: The id breaks the rules of keys, or the payload is no JSON or too large.
            TypeError: The payload is of a type that JSON does not have.
        """
        return self._metastore.call(self._record(event_id, payload, assets, dags, logical_date))

    async def arecord(
        self,
        event_id: str,
        payload: Any,
        *,
        assets: Sequence[tuple[AssetScope, str]],
        dags: Sequence[tuple[str, Sequence[int]]],
        logical_date: datetime,
    ) -> RecordedEvent:
        """As `record`."""
        return await self._metastore.acall(self._record(event_id, payload, assets, dags, logical_date))

    def _record(
        self,
        event_id: str,
        payload: Any,
        assets: Sequence[tuple[AssetScope, str]],
        dags: Sequence[tuple[str, Sequence[int]]],
        logical_date: datetime,
    ) -> calls.RecordEvent:
        text = "null" if payload is None else encode(payload, self._max_bytes)
        encode({"event": {"payload": payload}}, 0)  # it nests deeper in the parameters of the run
        check_text(event_id, "the id of an event", MAX_EVENT_ID_CHARS)
        for _, watcher in assets:
            check_text(watcher, "the name of a watcher", MAX_ID_CHARS)
        for dag_id, _ in dags:
            check_text(dag_id, "dag_id", MAX_ID_CHARS)
        return calls.RecordEvent(assets, event_id, text, dags, to_micros(logical_date))

    def pending(self) -> list[RunKey]:
        """Return the runs that events started and that have not ended, in the order of recording."""
        return self._metastore.call(calls.PendingRuns())

    async def apending(self) -> list[RunKey]:
        """As `pending`."""
        return await self._metastore.acall(calls.PendingRuns())
