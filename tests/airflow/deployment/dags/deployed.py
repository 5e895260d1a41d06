"""DAGs of the tests of a deployment. Tasks meet the test by files in AIRFLOW_HOME: they wait for some, and write others."""

from __future__ import annotations

import json
import os
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

try:
    from airflow.sdk import DAG, Asset, task
except ImportError:
    from airflow import DAG
    from airflow.datasets import Dataset as Asset
    from airflow.decorators import task

from milepost import StaleAttemptError
from milepost.sdk import options

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
HOME = Path(os.environ["AIRFLOW_HOME"])
RETRIES = {"retries": 2, "retry_delay": timedelta(0)}
PAGES = 6


def here(ti):
    """Return which attempt runs, and on which worker."""
    return [ti.try_number, os.environ["DEPLOYED_WORKER"]]


def wait_for(name):
    """Wait until the test has made a file."""
    deadline = time.monotonic() + 240
    while not (HOME / name).exists():
        assert time.monotonic() < deadline, f"the test has made no {name}"
        time.sleep(0.1)


with DAG("killed", start_date=START, schedule=None):

    @task(**RETRIES)
    def pages(task_store=None, ti=None):
        """Go on where the attempt before stopped. The first one stops in the middle, until it is killed."""
        for page in range(task_store.get("pages", 0), PAGES):
            read = [*task_store.get("read", []), [page, *here(ti)]]
            task_store.set_many({"pages": page + 1, "read": read})
            if page == PAGES // 2 and ti.try_number == 1:
                wait_for("the end")

    pages()

with DAG("zombie", start_date=START, schedule=None):
    owned = Asset("s3://bucket/owned")

    @task(inlets=[owned], **RETRIES)
    def outlives(task_store=None, asset_store=None, ti=None):
        """The first attempt goes on when its worker is lost and the second one runs, and tries to write."""
        task_store.set_many({f"process {ti.try_number}": os.getpid(), "owner": here(ti)})
        asset_store.set("owner", ti.try_number)
        if ti.try_number > 1:
            wait_for("the end of the first")
            return
        wait_for("superseded")
        refused = {}
        writes = {
            "set": lambda: task_store.set("owner", "zombie"),
            "increment": lambda: task_store.increment("count"),
            "delete": lambda: task_store.delete("owner"),
            "clear": task_store.clear,
            "asset set": lambda: asset_store.set("owner", "zombie"),
            "asset stage": lambda: asset_store.stage("owner", "zombie"),
        }
        for name, write in writes.items():
            try:
                write()
                refused[name] = "done"
            except StaleAttemptError:
                refused[name] = "stale"
        (HOME / "refused.part").write_text(json.dumps(refused), encoding="utf-8")
        (HOME / "refused.part").rename(HOME / "refused.json")

    outlives()

with DAG("watermark", start_date=START, schedule=None):
    orders = Asset("s3://bucket/watermarked")

    @task(inlets=[orders])
    def moves(task_store=None, asset_store=None, dag_run=None):
        """Move the watermark to the day of the run, and keep where it was found."""
        task_store.set("found", asset_store.get("day", "nothing"))
        asset_store.advance("day", dag_run.conf["day"])

    moves()

with DAG("cleared", start_date=START, schedule=None):

    @task
    def starts_over(task_store=None):
        """Count."""
        task_store.increment("runs")

    @task
    @options(on_clear="keep")
    def keeps(task_store=None):
        """Count, over clears too."""
        task_store.increment("runs")

    starts_over()
    keeps()

with DAG("interrupted", start_date=START, schedule=None):

    @task(**RETRIES)
    def runs(task_store=None, ti=None):
        """Count. The first attempt waits until it is cleared."""
        task_store.increment("runs")
        task_store.set("process", os.getpid())
        if ti.try_number == 1:
            wait_for("the end")

    runs()
