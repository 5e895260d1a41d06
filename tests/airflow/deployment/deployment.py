"""A deployment of Airflow on this machine: its processes, and what a person asks of its REST API."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.airflow.environments import python_of
from tests.support.private import free_port
from tests.support.servers import wait_until

__all__ = ["DAGS", "WORKERS", "Deployment"]

HERE = Path(__file__).parent
DAG_FILES = (HERE / "dags" / "deployed.py", HERE.parent / "dags" / "basics.py", HERE.parent / "dags" / "providers.py")
DAGS = ("killed", "zombie", "watermark", "cleared", "interrupted", "sensor", "deferred", "mapped", "livy")
"""Those that the tests run."""
WORKERS = {"worker-1", "worker-2"}

_HEARTBEAT_TIMEOUT = "15"
"""Seconds after which a task whose worker is silent counts as lost."""


def _settings(folder: Path, database: str, redis: str) -> dict[str, dict[str, str]]:
    """Return options of Airflow by section: everything happens soon, with few processes and connections."""
    return {
        "core": {
            "executor": "CeleryExecutor",
            "dags_folder": str(folder / "dags"),
            "load_examples": "False",
            "dags_are_paused_at_creation": "False",
            "hostname_callable": "socket.gethostname",
        },
        "database": {
            "sql_alchemy_conn": database.replace("postgresql://", "postgresql+psycopg2://"),
            "sql_alchemy_pool_size": "2",
            "sql_alchemy_max_overflow": "8",
        },
        "celery": {
            "broker_url": redis,
            "result_backend": redis,
            "worker_concurrency": "3",
            "worker_enable_remote_control": "False",
            "sync_parallelism": "1",
        },
        "scheduler": {
            "job_heartbeat_sec": "2",
            "scheduler_heartbeat_sec": "1",
            "scheduler_idle_sleep_time": "0.3",
            "enable_health_check": "False",
        },
        "usage_data_collection": {"enabled": "False"},
    }


def _settings_of_2() -> dict[str, dict[str, str]]:
    return {
        "scheduler": {
            "parsing_processes": "1",
            "local_task_job_heartbeat_sec": "2",
            "scheduler_zombie_task_threshold": _HEARTBEAT_TIMEOUT,
            "zombie_detection_interval": "2",
        },
        "api": {"auth_backends": "airflow.api.auth.backend.default"},
        "webserver": {"secret_key": "of-the-tests", "workers": "1"},
    }


def _settings_of_3(api: str) -> dict[str, dict[str, str]]:
    return {
        "core": {"execution_api_server_url": f"{api}/execution/", "simple_auth_manager_all_admins": "True"},
        "dag_processor": {"parsing_processes": "1"},
        "scheduler": {
            "task_instance_heartbeat_timeout": _HEARTBEAT_TIMEOUT,
            "task_instance_heartbeat_timeout_detection_interval": "2",
        },
        "workers": {"min_heartbeat_interval": "2"},
        "api": {"secret_key": "of-the-tests", "base_url": api},
        "api_auth": {"jwt_secret": "of the tests, with enough characters for every algorithm there is"},
    }


class Deployment:
    """Scheduler, DAG processor, triggerer, API server (webserver on Airflow 2) and two Celery workers.

    Args:
        version: The version of Airflow.
        folder: Its ``AIRFLOW_HOME``, by which its processes are found.
        database: The URL of an empty PostgreSQL database for Airflow.
        redis: The URL of Redis.
        options: Options of ``[milepost]``, by name.
        served: The store that the API server opens to all others, in place of a ``url`` among the options.
    """

    def __init__(
        self, version: str, folder: Path, database: str, redis: str, options: dict[str, str], served: str | None = None
    ) -> None:
        self.two = version.startswith("2.")
        self.folder = folder
        self.port = free_port()
        self._served = {}
        if served is not None:
            options = {**options, "url": f"http://127.0.0.1:{self.port}/milepost"}
            self._served = {"AIRFLOW__MILEPOST__SERVED_URL": served}
        self._python = python_of(version)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        api = f"http://127.0.0.1:{self.port}"
        settings = _settings(folder, database, redis)
        for section, more in (_settings_of_2() if self.two else _settings_of_3(api)).items():
            settings.setdefault(section, {}).update(more)
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "MILEPOST", "PYTHON"))},
            "AIRFLOW_HOME": str(folder),
            "MILEPOST_HOME": str(folder / "milepost"),
            # The names of processes are not written over their environments, by which `processes` finds them.
            "SPT_NOENV": "1",
            **{
                f"AIRFLOW__{section}__{name}".upper(): value
                for section, chosen in {**settings, "milepost": options}.items()
                for name, value in chosen.items()
            },
        }
        self._token: str | None = None

    # -- processes --------------------------------------------------------------------------------------------------------

    def start(self, environment: dict[str, str]) -> None:
        """Migrate the database, start all processes and wait until they do their work.

        Args:
            environment: What they find in their environment besides.
        """
        self._environment |= environment
        (self.folder / "dags").mkdir()
        for file in DAG_FILES:
            shutil.copy(file, self.folder / "dags")
        if self.two:
            (self.folder / "webserver_config.py").write_text('AUTH_ROLE_PUBLIC = "Admin"\n')
        self._start("migrate", "db", "migrate").wait(300)
        assert self._processes.pop("migrate").returncode == 0, self.logs()
        if self.two:
            port = ("--hostname", "127.0.0.1", "--port", str(self.port))
            self._start("webserver", "webserver", *port, "--pid", str(self.folder / "webserver.pid"))
        else:
            place = ("--host", "127.0.0.1", "--port", str(self.port))
            self._start("api-server", "api-server", *place, "--workers", "1", **self._served)
            self._start("dag-processor", "dag-processor")
        self._start("scheduler", "scheduler", "--skip-serve-logs")
        self._start("triggerer", "triggerer", "--skip-serve-logs")
        for name in WORKERS:
            self.start_worker(name)
        self.wait(self._knows_the_dags, "the API knows no DAGs", 240)
        self.wait_for_workers()

    def _start(self, name: str, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [self._python, "-m", "airflow", *arguments],
                env=self._environment | environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self._processes[name]

    def start_worker(self, name: str) -> None:
        """Start a worker; `wait_for_workers` tells when it takes tasks."""
        quick = ("--without-mingle", "--without-gossip", "--skip-serve-logs")
        place = ("--celery-hostname", f"{name}@tests", "--pid", str(self.folder / f"{name}.pid"))
        self._start(name, "celery", "worker", *quick, *place, DEPLOYED_WORKER=name)

    def wait_for_workers(self) -> None:
        """Wait until all workers that were started take tasks."""
        for name in WORKERS & self._processes.keys():
            log = self.folder / f"{name}.log"
            ready = f"{name}@tests ready"
            self.wait(lambda log=log, ready=ready: ready in log.read_text(encoding="utf-8", errors="replace"), ready)

    def worker_of(self, dag_id: str, run_id: str, task_id: str) -> str:
        """Return the worker that runs a task."""
        (process,) = [one["pid"] for one in self._task_instances(dag_id, run_id) if one["task_id"] == task_id]
        (name,) = [name for name in WORKERS if process in self.processes(DEPLOYED_WORKER=name)]
        return name

    def kill_worker(self, name: str, *, spare: int | None = None) -> None:
        """Kill a worker with all its processes at once, as when its machine is lost. The other one takes tasks by then.

        Args:
            name: The worker.
            spare: A process that goes on.
        """
        self.wait_for_workers()
        victims = [number for number in self.processes(DEPLOYED_WORKER=name) if number != spare]
        assert self._processes[name].pid in victims
        # None of them sees another end.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for victim in victims:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(victim, number)
        self._processes.pop(name).wait(30)

    def processes(self, **environment: str) -> list[int]:
        """Return the processes of this deployment, by what they inherited of their environment."""
        wanted = {f"{name}={value}".encode() for name, value in {"AIRFLOW_HOME": str(self.folder), **environment}.items()}
        found = []
        for entry in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if wanted <= set(entry.read_bytes().split(b"\0")):
                    found.append(int(entry.parent.name))
        return found

    def stop(self) -> None:
        """Kill all processes, those that outlived their parents too."""
        deadline = time.monotonic() + 30
        while left := self.processes():
            assert time.monotonic() < deadline, f"processes of Airflow live on: {left}"
            for number in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            for process in self._processes.values():
                process.poll()
            time.sleep(0.02)
        for process in self._processes.values():
            process.wait(30)

    def logs(self) -> str:
        """Return the last lines of each process, for the message of a test that fails."""
        tails = []
        for log in sorted(self.folder.glob("*.log")):
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            tails.append("\n".join([f"--- {log}", *lines[-15:]]))
        return "\n".join(tails)

    def wait(self, true: Callable[[], Any], what: str, seconds: float = 120) -> None:
        """Poll until a condition holds; fail, naming it, if it does not in time or if a process ends."""

        def holds() -> bool:
            ended = {name: process.returncode for name, process in self._processes.items() if process.poll() is not None}
            assert not ended, f"processes of Airflow ended: {ended}\n{self.logs()}"
            if true():
                return True
            time.sleep(0.1)
            return False

        try:
            wait_until(holds, what, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.logs()}") from None

    # -- the REST API -----------------------------------------------------------------------------------------------------

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Ask Airflow's REST API as a person does; return the answer's JSON."""
        if not self.two and self._token is None:
            self._token = self._ask("GET", "/auth/token")["access_token"]
        return self._ask(method, ("/api/v1" if self.two else "/api/v2") + path, body)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Content-Type": "application/json"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                said = error.read().decode(errors="replace")[:2000]
            raise OSError(f"{method} {path}: {error.code} {said}") from None

    def _knows_the_dags(self) -> bool:
        with contextlib.suppress(OSError):  # all errors of urllib are
            return set(DAGS) <= {dag["dag_id"] for dag in self.ask("GET", "/dags?limit=100")["dags"]}
        return False

    def trigger(self, dag_id: str, run_id: str, **conf: Any) -> None:
        """Start a run."""
        body = {"dag_run_id": run_id, "conf": conf, **({} if self.two else {"logical_date": None})}
        self.ask("POST", f"/dags/{dag_id}/dagRuns", body)

    def clear(self, dag_id: str, run_id: str) -> None:
        """Clear all task instances of a run, as a person does: over the REST API; on Airflow 2 with the command.

        The API of Airflow 2 answers that it has cleared a task that runs, and the task goes on.
        """
        if self.two:
            day = self.ask("GET", f"/dags/{dag_id}/dagRuns/{run_id}")["logical_date"]
            command = self._start("clear", "tasks", "clear", "--yes", "--start-date", day, "--end-date", day, dag_id)
            assert command.wait(120) == 0, self.logs()
            del self._processes["clear"]
            return
        body = {"dry_run": False, "dag_run_id": run_id, "only_failed": False, "reset_dag_runs": True}
        self.ask("POST", f"/dags/{dag_id}/clearTaskInstances", body)

    def states(self, dag_id: str, run_id: str) -> dict[str, tuple[str, int]]:
        """Return Airflow's state and try number of the task instances of a run."""
        found = self._task_instances(dag_id, run_id)
        return {f"{one['task_id']}[{one['map_index']}]": (one["state"], one["try_number"]) for one in found}

    def _task_instances(self, dag_id: str, run_id: str) -> Any:
        return self.ask("GET", f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances")["task_instances"]

    def wait_for_run(self, dag_id: str, run_id: str, seconds: float = 120) -> None:
        """Wait until a run succeeds."""

        def succeeded() -> bool:
            state = self.ask("GET", f"/dags/{dag_id}/dagRuns/{run_id}")["state"]
            assert state != "failed", f"{dag_id} {run_id} failed: {self.states(dag_id, run_id)}\n{self.logs()}"
            return state == "success"

        self.wait(succeeded, f"{dag_id} {run_id} does not end", seconds)
