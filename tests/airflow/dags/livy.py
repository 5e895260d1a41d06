"""The real operator of a provider, against a service that stands in for Livy (connection `livy_default`)."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

try:
    from airflow.sdk import DAG
except ImportError:
    from airflow import DAG

from airflow.providers.apache.livy.operators.livy import LivyOperator

START = datetime(2026, 1, 1, tzinfo=timezone.utc)

with DAG("livy", start_date=START, schedule=None) as livy:
    LivyOperator(task_id="submit", file="/job.py", polling_interval=1, retries=2, retry_delay=timedelta(0))

with DAG("livy_forgets", start_date=START, schedule=None) as livy_forgets:
    LivyOperator(task_id="submit", file="/job.py", polling_interval=1, retries=2, retry_delay=timedelta(0), durable=False)
