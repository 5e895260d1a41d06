"""The examples of Airflow 3.3.2 for its own stores run as they are; no copy of them is kept here."""

from __future__ import annotations

from importlib.machinery import PathFinder

import pytest

import milepost
from milepost import TaskScope

EXPECTED = {
    "example_asset_state_store.py",
    "example_task_state_store.py",
    "example_task_state_store_async.py",
    "example_task_state_store_mapped.py",
}


@pytest.fixture
def run(project, require, example_files):
    """Run a DAG of an example file to its good end."""
    require("an environment without Airflow", PathFinder.find_spec("airflow") is None)

    def command(name, *args, run_id="r1"):
        (project.folder / name).write_bytes(example_files[name])
        outcome = project.run(*args, name=name, run_id=run_id)
        assert outcome.code == 0, outcome.err
        return outcome

    return command


def test_these_are_the_examples(example_files):
    """Airflow 3.3.2 has four example files for its stores, and each has a test here."""
    assert set(example_files) == EXPECTED


def test_asset_example(project, run):
    """The producer moves the asset's watermark in each run, and the consumer reads what the last one left."""
    for number in (1, 2):
        run("example_asset_state_store.py", "example_asset_state_store_producer", run_id=f"r{number}")
    outcome = run("example_asset_state_store.py", "example_asset_state_store_consumer")
    with project.store() as store:
        found = store.asset_store(milepost.Asset("orders/daily", uri="s3://warehouse/orders/daily"))
        summary, watermark = found.get("last_run_summary"), found.get("watermark")
        assert (found.get("total_runs"), summary["completed_at"]) == (2, watermark)
    assert f"Processing {summary['rows_loaded']} rows up to watermark {watermark}. Total runs so far: 2." in outcome.out


def test_task_example(project, run):
    """The second attempt takes up the job that the first one submitted, and its id never expires."""
    outcome = run("example_task_state_store.py")
    with project.store() as store:
        keys = store.task_store(TaskScope("example_task_state_store", "r1", "run_job"))
        job = keys.entry("job_id")
        assert (job.never_expires, keys.get("status"), keys.get("result")["job_id"]) == (True, "complete", job.value)
    assert f"Try 1: submitted job: {job.value}" in outcome.out
    assert f"Try 2: reattaching to existing job: {job.value}" in outcome.out


def test_async_example(project, run):
    """The asynchronous task resumes at its checkpoint: eight pages are not fetched again."""
    outcome = run("example_task_state_store_async.py")
    assert "Resuming: 8 of 12 pages already fetched" in outcome.err
    with project.store() as store:
        keys = store.task_store(TaskScope("example_task_state_store_async", "r1", "ingest_pages"))
        assert keys.get("progress") == {"done": list(range(1, 13)), "rows": 7800}


def test_mapped_example(project, run):
    """Each mapped instance keeps its own result."""
    run("example_task_state_store_mapped.py", "--workers", "2")
    with project.store() as store:
        scopes = [TaskScope("example_task_state_store_mapped", "r1", "process_table", index) for index in range(3)]
        found = [store.task_store(scope).get("result") for scope in scopes]
    assert [(one["table"], one["map_index"]) for one in found] == [("orders", 0), ("customers", 1), ("products", 2)]
