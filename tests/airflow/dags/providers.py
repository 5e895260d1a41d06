"""Real operators of providers, against a service that stands in for Livy and Databricks (their default connections)."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

try:
    from airflow.sdk import DAG, task
except ImportError:
    from airflow import DAG
    from airflow.decorators import task

from airflow.providers.apache.livy.operators.livy import LivyOperator
from airflow.providers.databricks.operators.databricks import DatabricksSubmitRunOperator

START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def livy_operator(**arguments: Any) -> LivyOperator:
    """Return an operator that submits a batch."""
    return LivyOperator(task_id="submit", file="/job.py", polling_interval=1, retry_delay=timedelta(0), **arguments)


def databricks_operator(**arguments: Any) -> DatabricksSubmitRunOperator:
    """Return an operator that submits a run."""
    job = {"run_name": "job", "tasks": [{"task_key": "one", "notebook_task": {"notebook_path": "/job"}}]}
    return DatabricksSubmitRunOperator(
        task_id="submit", json=job, polling_period_seconds=1, databricks_retry_limit=1, retry_delay=timedelta(0), **arguments
    )


def job_of(operator: Any) -> Any:
    """Return the id of the job that an operator hands on."""
    return operator.output if isinstance(operator, LivyOperator) else operator.output["run_id"]


@task
def keeps(job, task_store=None):
    """Keep what the operator returned."""
    task_store.set("job", job)


with DAG("livy", start_date=START, schedule=None) as livy:
    keeps(job_of(livy_operator(retries=2)))

with DAG("livy_forgets", start_date=START, schedule=None) as livy_forgets:
    livy_operator(retries=1, durable=False)

with DAG("databricks", start_date=START, schedule=None) as databricks:
    keeps(job_of(databricks_operator(retries=2)))

with DAG("databricks_forgets", start_date=START, schedule=None) as databricks_forgets:
    databricks_operator(retries=1, durable=False)
