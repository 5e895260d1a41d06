"""DAGs that use Airflow 3.3's own stores."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from airflow.sdk import DAG, Asset, task

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
KEPT = Asset(name="native", uri="s3://native/kept")

with DAG("native", start_date=START, schedule=None) as native:

    @task(outlets=[KEPT])
    def fill(task_state_store=None, asset_state_store=None, **context):
        """Store values of every type."""
        from airflow.sdk.execution_time.context import NEVER_EXPIRE

        values = {"a/b": [1, 1.0, True, -0.5, 2**70], "o": {"b": "é😀\u0000\n", "a": [None, {}]}, "e": 1e300}
        for key, value in values.items():
            task_state_store.set(key, value)
        task_state_store.set("remote_job_id", "j-1", retention=NEVER_EXPIRE)
        task_state_store.set("soon", 1, retention=timedelta(days=2))
        asset_state_store[KEPT].set("watermark", {"at": "2026-01-01", "n": 0})

    @task
    def each(number, task_state_store=None):
        """Store the number."""
        task_state_store.set("number", number)

    fill() >> each.expand(number=[1, 2])

with DAG("beside", start_date=START, schedule=None) as beside:

    @task(outlets=[KEPT])
    def looks(task_store=None, asset_store=None, task_state_store=None, asset_state_store=None):
        """Store in Milepost's stores, and look for it under the longer names."""
        task_store.set("job", "j-1")
        asset_store.set("moved", 7)
        found = [task_state_store.get("job"), task_state_store.get("none", 0), asset_state_store.get("moved", "absent")]
        task_state_store.set("own", 1)
        task_store.set("found", [*found, task_state_store.get("own"), "own" in task_store])

    looks()
