"""From Airflow 3.2, where Milepost keeps the jobs of operators, to 3.3, whose own mixin looks for them in its own store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from milepost import TaskScope, connect
from tests.airflow.conftest import Home, Jobs, kill_while_polling
from tests.airflow.environments import python_of

pytestmark = pytest.mark.timeout(1800)

BEFORE = "3.2.2"
KEYS = {"livy": "livy_batch_id", "databricks": "databricks_run_id"}


@pytest.fixture
def native(home: Home, require: Any) -> Home:
    """A version that has stores of its own."""
    if tuple(map(int, home.version.split(".")[:2])) < (3, 3):
        pytest.skip(f"Airflow {home.version} has no stores of its own")
    require(f"an environment with Airflow {BEFORE} (make test-airflow)", python_of(BEFORE).is_file())
    return home


def test_an_upgrade_submits_no_second_job(native: Home, jobs: Jobs, tmp_path: Path) -> None:
    """A job of 3.2 that runs is not submitted again by 3.3: the attempt fails, until the key was moved or taken over.

    Workers are killed on 3.2; the database is upgraded; the runs go on with 3.3. A person's clear wants another job.
    """
    before = Home(BEFORE, tmp_path)
    before.migrate()
    url = before.url
    for provider in KEYS:
        kill_while_polling(before, jobs, provider, url)
    after = replace(before, version=native.version, logs=[])
    after.migrate()

    def go_on(*wanted: str, then: str, **options: str) -> tuple[list[str], Any, str]:
        """Run on 3.3, and return how the operators ended, what the services counted, and the log."""
        jobs.ask({f"{provider}/1": [then] for provider in KEYS})
        ended = after.test("providers.py", *wanted, env=jobs.connections, url=url, **options)
        return [one["tasks"]["submit[-1]"] for one in ended.values()], jobs.ask(), after.logs[-1]

    # A poll of the job fails, so that it is still there for what comes next.
    states, counted, log = go_on("livy+retry", "databricks+retry", then="lost")
    assert states == ["up_for_retry", "up_for_retry"], log[-6000:]
    assert counted == {"submitted": {}, "polls": {}}
    with connect(url) as store:
        runs = {one.scope.dag_id: one.scope.run_id for one in store.instances.list()}
    for provider, key in KEYS.items():
        said = f"Airflow's own store has no {key!r} of {TaskScope(provider, runs[provider], 'submit')}, but Milepost's has"
        assert any(
            said in line and "`milepost airflow export`" in line and "take_over = True" in line for line in log.splitlines()
        ), log[-6000:]

    states, counted, log = go_on("databricks+retry", then="lost", take_over="True")
    assert (counted["submitted"], list(counted["polls"])) == ({}, ["databricks"]), log[-6000:]

    (moved,) = after.steps(["milepost", "airflow", "export", "--dag", "livy", "--json"], url=url)
    assert (moved["code"], moved["out"]["task_keys"]) == (0, 1), moved
    states, counted, log = go_on("livy+retry", then="success")
    assert (states, counted["submitted"]) == (["success"], {}), log[-6000:]
    assert "but Milepost's has" not in log

    states, counted, log = go_on("databricks+cleared", then="success")
    assert (states, counted["submitted"]) == (["success"], {"databricks": 1}), log[-6000:]
