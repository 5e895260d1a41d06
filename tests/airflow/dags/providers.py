"""Real operators of providers, against a service that stands in for those they submit to (their default connections)."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

try:
    from airflow.sdk import DAG, task
except ImportError:
    from airflow import DAG
    from airflow.decorators import task

from airflow.providers.amazon.aws.operators.glue import GlueJobOperator
from airflow.providers.apache.livy.operators.livy import LivyOperator
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.databricks.operators.databricks import DatabricksRunNowOperator, DatabricksSubmitRunOperator

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
JOB = {"run_name": "job", "tasks": [{"task_key": "one", "notebook_task": {"notebook_path": "/job"}}]}
DATABRICKS = {"polling_period_seconds": 1, "databricks_retry_limit": 1}
OPERATORS: dict[str, tuple[Any, dict[str, Any]]] = {
    "livy": (LivyOperator, {"file": "/job.py", "polling_interval": 1}),
    "databricks": (DatabricksSubmitRunOperator, {"json": JOB, **DATABRICKS}),
    "databricks_now": (DatabricksRunNowOperator, {"job_id": 1, **DATABRICKS}),
    "glue": (GlueJobOperator, {"job_name": "job", "job_poll_interval": 0.1}),
    "spark": (SparkSubmitOperator, {"application": "job.py", "status_poll_interval": 0.1}),
}


@task
def keeps(job, task_store=None):
    """Keep what the operator returned."""
    task_store.set("job", job)


def submit(service: str, **arguments: Any) -> Any:
    """Return an operator that submits a job."""
    operator, needed = OPERATORS[service]
    return operator(task_id="submit", retry_delay=timedelta(0), **needed, **arguments)


for name in OPERATORS:
    with DAG(name, start_date=START, schedule=None) as dag:
        submitted = submit(name, retries=3)
        if name.startswith("databricks"):
            keeps(submitted.output["run_id"])
        elif name != "spark":  # which returns nothing
            keeps(submitted.output)
    globals()[name] = dag

    forgets: dict[str, Any] = {"durable": False}  # said in one of two places
    in_dag, in_operator = (forgets, {}) if name.startswith("databricks") else ({}, forgets)
    with DAG(f"{name}_forgets", start_date=START, schedule=None, default_args=in_dag) as dag:
        submit(name, retries=1, **in_operator)
    globals()[f"{name}_forgets"] = dag

with DAG("yarn", start_date=START, schedule=None) as yarn:
    submit("spark", conn_id="yarn")

with DAG("yarn_durable", start_date=START, schedule=None) as yarn_durable:
    submit("spark", conn_id="yarn", durable=True)

with DAG("nested", start_date=START, schedule=None) as nested:

    @task(task_id="submit")
    def loads(tables, **context):
        """Execute one operator after the other, as people do."""
        for table in tables:
            submit("spark", name=table).execute(context)
        submit("spark", name="bare").execute({})

    loads(["orders", "customers"])

with DAG("mapped_jobs", start_date=START, schedule=None) as mapped_jobs:
    operator, needed = OPERATORS["spark"]
    operator.partial(task_id="submit", retries=1, retry_delay=timedelta(0), **needed).expand(name=["orders", "customers"])
