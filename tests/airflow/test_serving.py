"""The execution API in a real API server of Airflow 3, for tasks without a database."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from milepost import Asset, AuthenticationError, TaskScope, connect
from tests.airflow.conftest import HERE, Home

pytestmark = pytest.mark.timeout(1200)

FILE = str(HERE / "dags" / "records.py")
SECRET = "a-secret-of-workers-1234"


@pytest.fixture
def api(home: Home, tmp_path: Path) -> Iterator[str]:
    """The address of the API in an API server that opens a store."""
    if home.version.startswith("2."):
        pytest.skip("an API server that mounts applications came with Airflow 3")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = home.environment(served_url=f"sqlite:///{tmp_path / 'served.db'}", secret=SECRET)
    del env["AIRFLOW__MILEPOST__URL"]
    command = home.command("-m", "airflow", "api-server", "--host", "127.0.0.1", "--port", str(port), "--apps", "core")
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait(server, f"http://127.0.0.1:{port}/milepost/ready", tmp_path / "log")
            yield f"http://127.0.0.1:{port}/milepost"
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)


def wait(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Wait until the API answers."""
    deadline = time.monotonic() + 180
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                assert answer.read() == b'{"status":"ready"}'
                return
        except (urllib.error.URLError, ConnectionError):
            assert server.poll() is None, log.read_text()[-6000:]
            assert time.monotonic() < deadline, log.read_text()[-6000:]
            time.sleep(0.2)


def test_tasks_reach_the_store_through_the_api_server(home: Home, api: str, tmp_path: Path) -> None:
    """A task whose `url` is Airflow's API server finds its stores; who does not show the secret finds nothing."""
    dags = tmp_path / "dags"
    dags.mkdir()
    shutil.copy(FILE, dags)
    steps = (["serialize"], ["test", FILE, "records"])
    _, run = home.steps(*steps, url=api, secret=SECRET, env={"AIRFLOW__CORE__DAGS_FOLDER": str(dags)})
    assert run["state"] == "success", home.logs[-1][-6000:]
    with connect(f"sqlite:///{tmp_path / 'served.db'}") as store:
        assert store.task_store(TaskScope("records", run["run_id"], "work")).get("job") == "j-0"
        assert store.asset_store(Asset.ref(name="s3://records/written")).get("watermark") == 0
    with connect(api, secret="another-secret-of-workers") as store, pytest.raises(AuthenticationError):
        store.runs.list()


def test_doctor_finds_the_api_server_in_order(home: Home, api: str) -> None:
    """`milepost doctor` takes what Airflow's API server opens for a Milepost server, and finds nothing wrong."""
    (answer,) = home.steps(["milepost", "doctor", "--url", api, "--json"], env={"MILEPOST__SERVER__SECRET": SECRET})
    wrong = [one for one in answer["out"]["checks"] if one["status"] != "ok"]
    assert (answer["code"], wrong) == (0, [])
