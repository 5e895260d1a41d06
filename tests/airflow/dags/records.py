"""DAGs that refer to assets in every way that a version of Airflow knows."""

from __future__ import annotations

from datetime import datetime, timezone

try:
    from airflow.providers.standard.triggers.file import FileDeleteTrigger
    from airflow.sdk import DAG, Asset, AssetAlias, AssetWatcher, task

    watchers = [AssetWatcher(name="deleted", trigger=FileDeleteTrigger(filepath="/nowhere"))]
    WATCHED = Asset("s3://records/watched", watchers=watchers)
except ImportError:
    from airflow import DAG
    from airflow.datasets import Dataset as Asset
    from airflow.decorators import task

    try:
        from airflow.datasets import DatasetAlias as AssetAlias
    except ImportError:
        AssetAlias = None
    WATCHED = Asset("s3://records/watched")

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
ALIASES = [] if AssetAlias is None else [AssetAlias("alias")]
READ, MAPPED, WRITTEN, WAITED = (Asset(f"s3://records/{name}") for name in ("read", "mapped", "written", "waited"))

with DAG("records", start_date=START, schedule=None) as records:

    @task(inlets=[READ, *ALIASES], outlets=[WRITTEN])
    def work(number=0, task_store=None, asset_store=None):
        """Leave something in both stores."""
        task_store.set("job", f"j-{number}")
        if number == 0:
            asset_store[WRITTEN].set("watermark", number)

    work()
    work.override(task_id="each", inlets=[MAPPED]).expand(number=[1, 2])

with DAG("waits", start_date=START, schedule=(WAITED | (WATCHED & READ))) as waits:

    @task(outlets=ALIASES)
    def attach():
        """Nothing."""

    attach()
