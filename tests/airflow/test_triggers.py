"""`self.asset_store` of event triggers, in a real triggerer of Airflow 3."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from milepost import Asset, connect
from tests.airflow.conftest import HERE, Home

pytestmark = pytest.mark.timeout(1200)


def test_an_event_trigger_keeps_its_cursor(home: Home, tmp_path: Path) -> None:
    """It finds the stores of the assets that it watches; on 3.3 the longer name stays Airflow's own."""
    if home.version.startswith("2."):
        pytest.skip("event triggers came with Airflow 3")
    dags = tmp_path / "dags"
    dags.mkdir()
    shutil.copy(HERE / "dags" / "watched.py", dags)
    url = f"sqlite:///{tmp_path / 'store.db'}"
    environment = {"AIRFLOW__CORE__DAGS_FOLDER": str(dags), "PYTHONPATH": str(dags)}
    # Airflow has an asset watched once an active DAG is known to wait for it.
    home.steps(["serialize"], ["serialize"], ["trigger", "watched.Counts"], env=environment, url=url)
    with (tmp_path / "log").open("w") as log:
        command = home.command("-m", "airflow", "triggerer", "--skip-serve-logs")
        env = {**home.environment(url=url), **environment}
        triggerer = subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT)
        try:
            found = cursor(triggerer, url, tmp_path / "log")
        finally:
            triggerer.send_signal(signal.SIGTERM)
            triggerer.wait(60)
    with connect(url) as store:
        inbox = store.asset_store(Asset.ref(name="inbox"))
        assert found == 8
        assert inbox.get("same") is (tuple(map(int, home.version.split(".")[:2])) < (3, 3))
        entry = inbox.entry("cursor")
        assert entry is not None
        name = None if home.version.startswith(("3.0", "3.1")) else "mail"
        assert (entry.writer.kind, entry.writer.user) == ("watcher", name)


def cursor(triggerer: subprocess.Popen[bytes], url: str, log: Path) -> int:
    """Wait for the cursor that the trigger stores."""
    deadline = time.monotonic() + 120
    with connect(url) as store:
        while True:
            found = store.assets.get(Asset.ref(name="inbox"))
            value = None if found is None else store.asset_store(found.scope).get("cursor")
            if value is not None:
                return int(value)
            assert triggerer.poll() is None, log.read_text()[-6000:]
            assert time.monotonic() < deadline, log.read_text()[-6000:]
            time.sleep(0.2)
