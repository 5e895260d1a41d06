"""On Airflow 3.3 and later, Milepost's stores stand beside Airflow's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from milepost import TaskScope, connect
from tests.airflow.conftest import HERE, Home

pytestmark = pytest.mark.timeout(1200)

FILE = str(HERE / "dags" / "native.py")


def looked(home: Home, folder: Path, **options: str) -> tuple[Any, str]:
    """Run the DAG, and return what its task found, and the log."""
    if tuple(map(int, home.version.split(".")[:2])) < (3, 3):
        pytest.skip(f"Airflow {home.version} has no stores of its own")
    url = f"sqlite:///{folder / 'store.db'}"
    (run,) = home.steps(["test", FILE, "beside"], url=url, **options)
    assert run["state"] == "success", home.logs[-1][-6000:]
    with connect(url) as store:
        return store.task_store(TaskScope("beside", run["run_id"], "looks")).get("found"), home.logs[-1]


def test_the_longer_names_stay_airflows(home: Home, tmp_path: Path) -> None:
    """Airflow's own stores have the longer names; of keys that only Milepost's has, the log tells once."""
    found, log = looked(home, tmp_path)
    assert found == [None, 0, "absent", 1, False]
    lines = [line for line in log.splitlines() if "milepost airflow export" in line]
    assert len(lines) == 2
    assert ("'job'" in lines[0], "'moved'" in lines[1]) == (True, True)


def test_take_over(home: Home, tmp_path: Path) -> None:
    """With `take_over`, the longer names are Milepost's stores."""
    found, log = looked(home, tmp_path, take_over="True")
    assert found == ["j-1", 0, 7, 1, True]
    assert "milepost airflow export" not in log
