"""Real operators of providers of today submit one job, from Airflow 2.11 on: older versions cannot have these providers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from milepost import TaskScope, connect
from tests.airflow.conftest import Home, Jobs, kill_while_polling

# Airflow itself takes most of it.
pytestmark = pytest.mark.timeout(1200)

HANDED_ON = {"livy": 2, "databricks": 2, "databricks_now": 1002, "glue": "jr_2", "spark": None}
"""What the operators return, or tell in another way, of the second job that they submitted."""


@pytest.fixture(autouse=True)
def needs_providers(home: Home) -> None:
    """Skip versions that are too old for them."""
    if home.at_most(2, 10):
        pytest.skip(f"providers with ResumableJobMixin need Airflow 2.11, this is {home.version}")


def kept(url: str, dag_id: str, ended: dict[str, Any]) -> Any:
    """Return the job that the operator handed on."""
    with connect(url) as store:
        return store.task_store(TaskScope(dag_id, ended["run_id"], "keeps")).get("job")


def test_lost_polls_a_failed_job_and_a_task_that_forgets(home: Home, jobs: Jobs, tmp_path: Path) -> None:
    """A retry submits if the job before failed, else waits for it or takes its result; `durable=False` submits.

    The first job fails. The second one is active when the third attempt begins, and done when the fourth does.
    """
    url = f"sqlite:///{tmp_path / 'store.db'}"
    services = list(HANDED_ON)
    if home.version.startswith("3.0."):  # dag.test() ends a run there when a failed attempt left the page of its job unset
        services = [service for service in services if not service.startswith("databricks")]
    states = [["running", "dead"], ["running", "lost", "running", "lost", "success"], ["lost"], ["success"]]
    jobs.ask({f"{service}/{number}": those for service in services for number, those in enumerate(states, 1)})
    dags = [name for service in services for name in (service, f"{service}_forgets")]
    ended = home.test("providers.py", *dags, env=jobs.connections, url=url)
    assert {name: how["tasks"]["submit[-1]"] for name, how in ended.items()} == dict.fromkeys(dags, "success")
    assert {name: kept(url, name, ended[name]) for name in services} == {name: HANDED_ON[name] for name in services}
    assert jobs.ask()["submitted"] == dict.fromkeys(services, 4)


@pytest.mark.parametrize("provider", ["livy", "databricks", "glue"])
def test_a_killed_worker_submits_no_second_job(home: Home, jobs: Jobs, provider: str, tmp_path: Path) -> None:
    """A worker that is killed while it polls: the next attempt waits for the same job, and returns its result."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    kill_while_polling(home, jobs, provider, url)
    jobs.ask({f"{provider}/1": ["success"]})
    ended = home.test("providers.py", f"{provider}+retry", env=jobs.connections, url=url)[provider]
    assert ended["tasks"]["submit[-1]"] == "success"
    assert jobs.ask()["submitted"] == {}


def test_spark_on_yarn_without_its_rest_api_goes_on_as_it_was(home: Home, jobs: Jobs) -> None:
    """A `SparkSubmitOperator` that cannot ask YARN for its job submits it; it refuses only if it is told to be durable."""
    if not home.at_most(3, 2):
        pytest.skip("the operators are Airflow's own from 3.3 on")
    ended = home.test("providers.py", "yarn", "yarn_durable", env=jobs.connections)
    assert [one["tasks"]["submit[-1]"] for one in ended.values()] == ["success", "failed"]
    assert "does not keep its job over retries: on YARN" in home.logs[-1]
    assert jobs.ask()["submitted"] == {"spark": 1}


def test_an_operator_inside_of_a_task_remembers_nothing(home: Home, jobs: Jobs) -> None:
    """Code of a task that executes operators itself gets a job of each: they would share a key. Mapped tasks remember."""
    if not home.at_most(3, 2):
        pytest.skip("the operators are Airflow's own from 3.3 on")
    jobs.ask({"spark/4": ["lost", "success"], "spark/5": ["lost", "success"]})
    ended = home.test("providers.py", "nested", "mapped_jobs", env=jobs.connections)
    assert ended["nested"]["tasks"] == {"submit[-1]": "success"}
    assert ended["mapped_jobs"]["tasks"] == {"submit[0]": "success", "submit[1]": "success"}, home.logs[-1][-8000:]
    assert jobs.ask()["submitted"] == {"spark": 5}
