"""Real operators of providers of today submit one job, from Airflow 2.11 on: older versions cannot have these providers."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from milepost import TaskScope, connect
from tests.airflow.conftest import HERE, Home, Jobs

# Airflow itself takes most of it.
pytestmark = pytest.mark.timeout(1200)

PROVIDERS = ("livy", "databricks")


@pytest.fixture(autouse=True)
def needs_providers(home: Home) -> None:
    """Skip versions that are too old for them."""
    if home.at_most(2, 10):
        pytest.skip(f"providers with ResumableJobMixin need Airflow 2.11, this is {home.version}")


def kept(url: str, dag_id: str, ended: dict[str, Any]) -> Any:
    """Return the job that the operator handed on."""
    with connect(url) as store:
        return store.task_store(TaskScope(dag_id, ended["run_id"], "keeps")).get("job")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_lost_poll_a_failed_job_and_a_task_that_forgets(home: Home, jobs: Jobs, provider: str, tmp_path: Path) -> None:
    """A retry takes the job of the attempt before, submits anew if that failed; with `durable=False` it always submits.

    The first job fails. The second one is done by the time of the third attempt, which returns its result.
    """
    if provider == "databricks" and home.version.startswith("3.0."):
        pytest.skip("dag.test() of Airflow 3.0 ends a run when a failed attempt has left the page of its job unset")
    url = f"sqlite:///{tmp_path / 'store.db'}"
    jobs.ask({"1": ["running", "dead"], "2": ["running", "lost", "success"], "3": ["lost"], "4": ["success"]})
    ended = home.test("providers.py", provider, f"{provider}_forgets", env=jobs.connections, url=url)
    assert [one["tasks"]["submit[-1]"] for one in ended.values()] == ["success", "success"]
    assert kept(url, provider, ended[provider]) == 2
    assert jobs.ask()["submitted"] == 4


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_killed_worker_submits_no_second_job(home: Home, jobs: Jobs, provider: str, tmp_path: Path) -> None:
    """A worker that is killed while it polls: the next attempt waits for the same job, and returns its result."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    jobs.ask({"1": ["running"]})
    folder = home.dags("providers.py")
    environment = {**home.environment(url=url), **jobs.connections, "AIRFLOW__CORE__DAGS_FOLDER": str(folder)}
    command = home.command(HERE / "driver.py", folder, provider)
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    worker = subprocess.Popen(command, env=environment, **quiet)
    deadline = time.monotonic() + 600
    try:
        while jobs.ask()["polls"] == 0:  # the job is stored before it is asked about
            assert time.monotonic() < deadline, "no job was submitted"
            assert worker.poll() is None, "the worker ended by itself"
            time.sleep(0.2)
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    assert jobs.ask()["submitted"] == 1
    jobs.ask({"1": ["success"]})
    ended = home.test("providers.py", f"{provider}+retry", env=jobs.connections, url=url)[
        f"{provider}+retry".partition("+")[0]
    ]
    assert ended["tasks"]["submit[-1]"] == "success"
    assert jobs.ask()["submitted"] == 0
