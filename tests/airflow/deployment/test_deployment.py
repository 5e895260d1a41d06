"""The plugin in a deployment of Airflow: two Celery workers, scheduler, triggerer, API; state is looked up in the store."""

from __future__ import annotations

import json

import pytest

from milepost import Asset, TaskScope
from tests.airflow.deployment.conftest import Deployed
from tests.airflow.deployment.deployment import WORKERS

# The first test waits for the deployment to start.
pytestmark = pytest.mark.timeout(600)


def test_a_sensor_counts_over_its_reschedules(deployed: Deployed) -> None:
    """S-15 (c): a sensor in reschedule mode counts 1, 2, 3 in one attempt, each time in another process."""
    deployed.airflow.trigger("sensor", "one")
    deployed.airflow.wait_for_run("sensor", "one")
    assert deployed.items("sensor", "one", "poke") == {"pokes": 3}
    assert deployed.states("sensor", "one") == {"poke[-1]": ("success", 1)}


def test_a_deferred_task_finds_its_job(deployed: Deployed) -> None:
    """S-15 (b), S-26: what was stored before a deferral is there when the triggerer lets the same attempt go on."""
    deployed.airflow.trigger("deferred", "one")
    deployed.airflow.wait_for_run("deferred", "one")
    assert deployed.items("deferred", "one", "defer") == {"job": "j-1", "resumed": "j-1"}
    assert deployed.states("deferred", "one") == {"defer[-1]": ("success", 1)}


def test_mapped_tasks_have_keys_of_their_own(deployed: Deployed) -> None:
    """S-23: each mapped instance has its own keys, on whichever worker it runs."""
    deployed.airflow.trigger("mapped", "one")
    deployed.airflow.wait_for_run("mapped", "one")
    assert [deployed.items("mapped", "one", "each", index) for index in range(3)] == [{"item": item} for item in "abc"]
    assert [deployed.items("mapped", "one", "operators", index)["count"] for index in range(2)] == [1, 1]
    assert [deployed.items("mapped", "one", "group.inside", index) for index in range(2)] == [{"name": "n1"}, {"name": "n2"}]


def test_a_watermark_moves_over_three_runs(deployed: Deployed) -> None:
    """S-21: each run finds the watermark where the run before left it, and its history names the runs."""
    days = ["2026-01-01", "2026-01-02", "2026-01-03"]
    for number, day in enumerate(days, start=1):
        deployed.airflow.trigger("watermark", f"run-{number}", day=day)
        deployed.airflow.wait_for_run("watermark", f"run-{number}")
    found = [deployed.items("watermark", f"run-{number}", "moves")["found"] for number in (1, 2, 3)]
    assert found == ["nothing", *days[:2]]
    accessor = deployed.store.asset_store(Asset(uri="s3://bucket/watermarked"))
    entry = accessor.entry("day")
    assert entry is not None
    moves = [(entry.value, entry.writer.run_id), *((one.value, one.writer.run_id) for one in accessor.history("day"))]
    assert moves == [(days[2], "run-3"), (days[1], "run-2"), (days[0], "run-1")]


def test_a_clear_by_a_person_starts_over(deployed: Deployed) -> None:
    """S-22: after a clear through Airflow's API a task finds nothing, what it had is restorable; `on_clear` keeps it."""
    deployed.airflow.trigger("cleared", "one")
    deployed.airflow.wait_for_run("cleared", "one")
    deployed.airflow.clear("cleared", "one")
    deployed.airflow.wait_for_run("cleared", "one")
    assert deployed.states("cleared", "one") == {"keeps[-1]": ("success", 2), "starts_over[-1]": ("success", 2)}
    assert deployed.items("cleared", "one", "starts_over") == {"runs": 1}
    assert deployed.items("cleared", "one", "keeps") == {"runs": 2}
    archives = deployed.store.instances.archives(TaskScope("cleared", "one", "starts_over"))
    assert [(one.cause, one.keys) for one in archives] == [("clear", ("runs",))]


def test_a_clear_of_a_task_that_runs_starts_over(deployed: Deployed) -> None:
    """A task that is cleared while it runs is ended by Airflow, and its next attempt finds nothing."""
    airflow = deployed.airflow
    airflow.trigger("interrupted", "one")
    airflow.wait(lambda: "process" in deployed.items("interrupted", "one", "runs"), "the task does not run")
    airflow.clear("interrupted", "one")
    airflow.wait_for_run("interrupted", "one")
    assert deployed.states("interrupted", "one") == {"runs[-1]": ("success", 2)}
    assert deployed.items("interrupted", "one", "runs")["runs"] == 1
    archives = deployed.store.instances.archives(TaskScope("interrupted", "one", "runs"))
    assert [(one.cause, one.keys) for one in archives] == [("clear", ("process", "runs"))]


def test_the_retry_on_another_worker_resumes(deployed: Deployed) -> None:
    """S-15 (a): a worker is killed in mid-task; the retry, on the other worker, goes on where it stopped."""
    airflow = deployed.airflow
    airflow.trigger("killed", "one")
    airflow.wait(lambda: deployed.items("killed", "one", "pages").get("pages") == 4, "the task does not run")
    first = deployed.items("killed", "one", "pages")["read"][0][2]
    airflow.kill_worker(first)
    airflow.wait_for_run("killed", "one")
    (other,) = WORKERS - {first}
    read = [[page, 1, first] for page in range(4)] + [[page, 2, other] for page in (4, 5)]
    assert deployed.items("killed", "one", "pages") == {"pages": 6, "read": read}
    assert deployed.states("killed", "one") == {"pages[-1]": ("success", 2)}
    airflow.start_worker(first)


def test_a_job_outlives_the_worker_that_waits_for_it(deployed: Deployed) -> None:
    """The worker of the real LivyOperator is killed while it polls; the retry waits for the same job and returns it."""
    airflow, jobs = deployed.airflow, deployed.jobs
    jobs.ask({"livy/1": ["running"]})
    airflow.trigger("livy", "one")
    airflow.wait(lambda: jobs.ask()["polls"], "the job is not asked about")
    worker = airflow.worker_of("livy", "one", "submit")
    airflow.kill_worker(worker)
    assert jobs.ask()["submitted"] == {"livy": 1}
    jobs.ask({"livy/1": ["success"]})
    airflow.wait_for_run("livy", "one")
    assert jobs.ask()["submitted"] == {}
    assert deployed.states("livy", "one") == {"submit[-1]": ("success", 2), "keeps[-1]": ("success", 1)}
    assert deployed.items("livy", "one", "keeps") == {"job": 1}
    airflow.start_worker(worker)


def test_a_task_that_outlives_its_worker_changes_nothing(deployed: Deployed) -> None:
    """A task process whose worker was lost goes on beside the next attempt: its writes are refused, its end ends nothing."""
    airflow = deployed.airflow
    airflow.trigger("zombie", "one")
    airflow.wait(lambda: "owner" in deployed.items("zombie", "one", "outlives"), "the task does not run")
    before = deployed.items("zombie", "one", "outlives")
    worker = before["owner"][1]
    airflow.kill_worker(worker, spare=before["process 1"])
    airflow.wait(lambda: "process 2" in deployed.items("zombie", "one", "outlives"), "there is no second attempt")
    during = deployed.items("zombie", "one", "outlives")
    assert before["process 1"] in airflow.processes(DEPLOYED_WORKER=worker)
    (airflow.folder / "superseded").touch()
    airflow.wait(lambda: before["process 1"] not in airflow.processes(), "the zombie does not end")
    refused = json.loads((airflow.folder / "refused.json").read_text(encoding="utf-8"))
    assert refused == dict.fromkeys(["set", "increment", "delete", "clear", "asset set", "asset stage"], "stale")
    (airflow.folder / "the end of the first").touch()
    airflow.wait_for_run("zombie", "one")
    assert airflow.states("zombie", "one") == deployed.states("zombie", "one") == {"outlives[-1]": ("success", 2)}
    assert deployed.items("zombie", "one", "outlives") == during
    accessor = deployed.store.asset_store(Asset(uri="s3://bucket/owned"))
    assert dict(accessor.items()) == {"owner": 2}
