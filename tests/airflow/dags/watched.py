"""An event trigger that keeps its cursor, and a DAG that waits for its asset. Airflow 3."""

from __future__ import annotations

import asyncio
from datetime import datetime, timezone
from typing import Any

from airflow.sdk import DAG, Asset, AssetWatcher, task
from airflow.triggers.base import BaseEventTrigger, TriggerEvent


class Counts(BaseEventTrigger):
    """Yields one event, and stores how far it came."""

    def __init__(self, first: int = 0) -> None:
        super().__init__()
        self.first = first

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what makes it again."""
        return "watched.Counts", {"first": self.first}

    async def run(self) -> Any:
        """Yield, then store the cursor."""
        cursor = await self.asset_store.aget("cursor", self.first)
        same = self.asset_state_store is self.asset_store
        yield TriggerEvent({"cursor": cursor})
        await self.asset_store[ASSET].aset("same", same)
        await self.asset_store.aset("cursor", cursor + 1)
        await asyncio.sleep(3600)


ASSET = Asset(name="inbox", uri="s3://inbox", watchers=[AssetWatcher(name="mail", trigger=Counts(7))])

START = datetime(2026, 1, 1, tzinfo=timezone.utc)

with DAG("watched", start_date=START, schedule=ASSET, is_paused_upon_creation=False) as watched:

    @task
    def react():
        """Nothing."""

    react()
