"""One deployment for all its tests: `make test-airflow-deployment` names those to run in MILEPOST_TEST_DEPLOYMENT."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from milepost import Store, TaskScope, connect
from tests.airflow.conftest import Jobs, serving_jobs
from tests.airflow.deployment.deployment import Deployment
from tests.airflow.environments import python_of
from tests.support.private import PrivateRedis
from tests.support.serve_process import ServeProcess
from tests.support.servers import Databases
from tests.support.serving import SECRET

CHOSEN = os.environ.get("MILEPOST_TEST_DEPLOYMENT", "").split()


@dataclass
class Deployed:
    """A deployment, and the store that its tasks use.

    Args:
        airflow: The deployment.
        store: The store, opened by this process.
        jobs: The service that operators of providers submit jobs to.
    """

    airflow: Deployment
    store: Store
    jobs: Jobs

    def items(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> dict[str, Any]:
        """Return the keys and values of a task instance."""
        return dict(self.store.task_store(TaskScope(dag_id, run_id, task_id, map_index)).items())

    def states(self, dag_id: str, run_id: str) -> dict[str, tuple[str, int]]:
        """Return state and attempt of a run's task instances, as recorded by Milepost."""
        return {
            f"{one.scope.task_id}[{one.scope.map_index}]": (one.state, one.attempt)
            for one in self.store.instances.list(dag_id, run_id)
        }


@pytest.fixture(scope="session", params=CHOSEN or ["none"])
def deployed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, require: Any, databases: Databases
) -> Iterator[Deployed]:
    """A running deployment: ``VERSION``, ``VERSION+serve`` or ``VERSION+api``.

    Workers reach PostgreSQL: on Airflow 2 the metadata database itself, in a schema of Milepost's own; on Airflow 3 another
    database. With ``+serve`` they reach `milepost serve`; with ``+api``, on Airflow 3, Airflow's API server.
    """
    if request.param == "none":
        pytest.skip("runs under `make test-airflow-deployment`")
    version, _, door = request.param.partition("+")
    require("/proc/…/environ, to find processes (Linux)", Path("/proc/self/environ").exists())
    require("redis-server", PrivateRedis.programs() is not None)
    require(f"an environment with Airflow {version} (make test-airflow-deployment)", python_of(version).is_file())
    metadata = databases.fresh("postgres")
    database = metadata if version.startswith("2.") else databases.fresh("postgres")
    folder = tmp_path_factory.mktemp(f"airflow-{request.param}")
    with contextlib.ExitStack() as ends:
        # `timeout` ends the test run by it: everything that was started is then ended, too.
        ends.callback(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, signal.default_int_handler))
        redis = PrivateRedis()
        ends.callback(redis.stop)
        redis.start()
        options, served = {"url": database.url}, None
        if door == "serve":
            server = ServeProcess(database.url, tmp_path_factory.mktemp("serve"))
            ends.callback(server.end)
            options = {"url": server.url, "secret": SECRET}
        elif door == "api":
            options, served = {"secret": SECRET}, database.url
        jobs = ends.enter_context(serving_jobs(folder))
        airflow = Deployment(version, folder, metadata.url, redis.url, options, served)
        ends.callback(airflow.stop)
        airflow.start(jobs.connections)
        yield Deployed(airflow, ends.enter_context(connect(database.url)), jobs)
