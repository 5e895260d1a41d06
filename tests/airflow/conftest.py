"""Airflow in environments of its own: `make test-airflow` makes them and names the versions in MILEPOST_TEST_AIRFLOW."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from milepost import Store, TaskScope, connect
from tests.airflow.environments import python_of
from tests.support.airflow_examples import example_files

__all__ = ["Home", "Jobs", "Ran", "example_files", "home", "jobs", "kill_while_polling", "ran", "serving_jobs"]

HERE = Path(__file__).parent
VERSIONS = os.environ.get("MILEPOST_TEST_AIRFLOW", "").split()


@dataclass
class Home:
    """One ``AIRFLOW_HOME`` with a migrated database, and a store of Milepost beside it.

    Args:
        version: The version of Airflow.
        folder: Where everything is.
    """

    version: str
    folder: Path
    logs: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The store."""
        return f"sqlite:///{self.folder / 'milepost.db'}"

    def at_most(self, *version: int) -> bool:
        """Tell whether this is that version or an earlier one."""
        return tuple(map(int, self.version.split(".")[: len(version)])) <= version

    def environment(self, **options: str) -> dict[str, str]:
        """Return the environment of a process of Airflow; options of ``[milepost]`` by name."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "MILEPOST", "PYTHON"))}
        chosen = {"url": self.url, "keep_test_state": "True", **options}
        return {
            **kept,
            "AIRFLOW_HOME": str(self.folder),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(HERE / "dags"),
            "AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": "False",
            "MILEPOST_HOME": str(self.folder / "milepost"),
            **{f"AIRFLOW__MILEPOST__{name.upper()}": value for name, value in chosen.items()},
        }

    def migrate(self) -> None:
        """Make Airflow's database, or bring it to this version."""
        command = self.command("-m", "airflow", "db", "migrate")
        subprocess.run(command, env=self.environment(), check=True, capture_output=True, timeout=300)

    def command(self, *arguments: str | Path) -> list[str]:
        """Return the command of a Python of this version."""
        return [str(python_of(self.version)), *map(str, arguments)]

    def steps(self, *steps: list[Any], env: dict[str, str] | None = None, **options: str) -> list[Any]:
        """Take steps of ``steps.py`` in one process, and return their answers."""
        command = self.command(HERE / "steps.py", *(json.dumps(step) for step in steps))
        environment = {**self.environment(**options), **(env or {})}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
        self.logs.append(done.stdout + done.stderr)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
        answers: list[Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return answers

    def dags(self, file: str | Path) -> Path:
        """Return a folder with one file of DAGs: `dag.test()` of Airflow 3 loads all of the folder again and again."""
        source = HERE / "dags" / file
        folder = self.folder / "dags" / source.stem
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, folder)
        return folder

    def test(
        self, file: str | Path, *dag_ids: str, env: dict[str, str] | None = None, **options: str
    ) -> dict[str, dict[str, Any]]:
        """Run `dag.test()` for DAGs of a file or a folder, and return how they ended."""
        folder = Path(file) if Path(file).is_dir() else self.dags(file)
        env = {"AIRFLOW__CORE__DAGS_FOLDER": str(folder), **(env or {})}
        command = self.command(HERE / "driver.py", folder, *dag_ids)
        environment = {**self.environment(**options), **(env or {})}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
        self.logs.append(done.stdout + done.stderr)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
        ended: dict[str, dict[str, Any]] = json.loads(done.stdout.strip().splitlines()[-1])
        return ended


PARAMS = [pytest.param(version, marks=pytest.mark.xdist_group(version)) for version in VERSIONS]
"""A worker of xdist takes all tests of a version, as they share a home."""


@pytest.fixture(scope="session", params=PARAMS or ["none"])
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, require: Any) -> Home:
    """A home of each version."""
    if request.param == "none":
        pytest.skip("runs under `make test-airflow`, which makes environments with Airflow")
    version: str = request.param
    require(f"an environment with Airflow {version} (make test-airflow)", python_of(version).is_file())
    found = Home(version, tmp_path_factory.mktemp(f"airflow-{version}"))
    found.migrate()
    return found


@dataclass
class Ran:
    """What became of the DAGs.

    Args:
        home: Where they ran.
        ended: How, by DAG.
        store: The store that they used.
    """

    home: Home
    ended: dict[str, dict[str, Any]]
    store: Store

    def items(self, dag_id: str, task_id: str, map_index: int = -1) -> dict[str, Any]:
        """Return the keys and values of a task instance."""
        scope = TaskScope(dag_id, self.ended[dag_id]["run_id"], task_id, map_index)
        return dict(self.store.task_store(scope).items())

    def states(self, dag_id: str) -> dict[str, tuple[str, int]]:
        """Return state and attempt of a DAG's task instances, as recorded by Milepost."""
        run_id = self.ended[dag_id]["run_id"]
        return {
            f"{one.scope.task_id}[{one.scope.map_index}]": (one.state, one.attempt)
            for one in self.store.instances.list(dag_id, run_id)
        }


DAGS = ("plain", "around", "mapped", "assets", "sensor", "deferred", "idle", "again+clear")


@pytest.fixture(scope="session")
def ran(home: Home) -> Iterator[Ran]:
    """All DAGs of ``basics.py`` after they ran."""
    ended = home.test("basics.py", *DAGS)
    with connect(home.url) as store:
        yield Ran(home, {name.partition("+")[0]: how for name, how in ended.items()}, store)


class Jobs:
    """The service that stands in for those to which providers submit jobs.

    Args:
        process: The service.
        port: Where it listens.
        folder: Where a ``spark-submit`` is put that submits to it.
    """

    def __init__(self, process: subprocess.Popen[str], port: int, folder: Path) -> None:
        self._process = process
        self.url = f"http://127.0.0.1:{port}"
        self._folder = folder
        script = folder / "spark-submit"
        script.write_text(SPARK_SUBMIT.format(python=sys.executable, url=self.url), encoding="utf-8")
        script.chmod(0o755)

    @property
    def connections(self) -> dict[str, str]:
        """The connections of the operators, for the environment, and where to find ``spark-submit``."""
        port = int(self.url.rpartition(":")[2])
        aws = {"region_name": "us-east-1", "endpoint_url": self.url}
        spark = {"deploy-mode": "cluster", "rest-port": port}
        connections = {
            "livy_default": {"conn_type": "livy", "host": "127.0.0.1", "schema": "http", "port": port},
            "databricks_default": {
                "conn_type": "databricks", "host": "127.0.0.1", "schema": "http", "port": port, "password": "t",
            },
            "aws_default": {"conn_type": "aws", "login": "a", "password": "b", "extra": aws},
            "spark_default": {"conn_type": "spark", "host": "spark://127.0.0.1:7077", "extra": spark},
            "yarn": {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}},
        }  # fmt: skip
        given = {f"AIRFLOW_CONN_{name.upper()}": json.dumps(value) for name, value in connections.items()}
        return {**given, "PATH": f"{self._folder}{os.pathsep}{os.environ['PATH']}"}

    def ask(self, script: Any = None) -> Any:
        """Set the script, or read what was counted."""
        import urllib.request

        data = None if script is None else json.dumps(script).encode()
        with urllib.request.urlopen(f"{self.url}/script", data, timeout=10) as answer:
            return json.loads(answer.read())

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


SPARK_SUBMIT = """#!{python}
import json, urllib.request
with urllib.request.urlopen("{url}/v1/submissions/create", b"{{}}", timeout=10) as answer:
    print("submitted as", json.load(answer)["submissionId"])
"""


def kill_while_polling(home: Home, jobs: Jobs, service: str, url: str) -> None:
    """Run the DAG of ``providers.py`` for a service, and kill its worker once the job was submitted and asked about."""
    jobs.ask({f"{service}/1": ["running"]})
    folder = home.dags("providers.py")
    environment = {**home.environment(url=url), **jobs.connections, "AIRFLOW__CORE__DAGS_FOLDER": str(folder)}
    command = home.command(HERE / "driver.py", folder, service)
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    worker = subprocess.Popen(command, env=environment, **quiet)
    deadline = time.monotonic() + 600
    try:
        while not jobs.ask()["polls"]:  # the job is stored before it is asked about
            assert time.monotonic() < deadline, "no job was submitted"
            assert worker.poll() is None, "the worker ended by itself"
            time.sleep(0.2)
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    assert jobs.ask()["submitted"] == {service: 1}


@contextlib.contextmanager
def serving_jobs(folder: Path) -> Iterator[Jobs]:
    """A service while it is needed."""
    command = [sys.executable, str(HERE / "job_service.py")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    service = Jobs(process, int(process.stdout.readline()), folder)
    try:
        yield service
    finally:
        service.stop()


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    """A service of its own for each test."""
    with serving_jobs(tmp_path) as service:
        yield service
