"""The examples of Airflow 3.3.2 for its own stores run as they are on 3.0 to 3.2, with only the plugin."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost import Asset, TaskScope, connect
from tests.airflow.conftest import Home

pytestmark = pytest.mark.timeout(1200)

PRODUCER, CONSUMER = "example_asset_state_store_producer", "example_asset_state_store_consumer"
TASK, ASYNC, MAPPED = "example_task_state_store", "example_task_state_store_async", "example_task_state_store_mapped"


def test_the_examples_of_3_3_run(home: Home, example_files: dict[str, bytes], tmp_path: Path) -> None:
    """A retry takes up its job, pages are not fetched twice, mapped results stand apart, a watermark moves."""
    if home.at_most(2, 11) or not home.at_most(3, 2):
        pytest.skip("for versions with airflow.sdk and without stores of their own")
    url = f"sqlite:///{tmp_path / 'store.db'}"
    folder = tmp_path / "dags"
    folder.mkdir()
    for name, body in example_files.items():
        (folder / name).write_bytes(body)
    dags = [PRODUCER, PRODUCER, CONSUMER, TASK, ASYNC, MAPPED]
    ended = home.test(folder, *dags, url=url)
    assert {name: one["state"] for name, one in ended.items()} == dict.fromkeys(dags, "success")
    log = home.logs[-1]
    with connect(url) as store:
        job = store.task_store(TaskScope(TASK, ended[TASK]["run_id"], "run_job")).entry("job_id")
        assert job is not None
        assert job.never_expires
        assert f"Try 2: reattaching to existing job: {job.value}" in log
        pages = store.task_store(TaskScope(ASYNC, ended[ASYNC]["run_id"], "ingest_pages"))
        assert pages.get("progress") == {"done": list(range(1, 13)), "rows": 7800}
        assert "Resuming: 8 of 12 pages already fetched" in log
        scopes = [TaskScope(MAPPED, ended[MAPPED]["run_id"], "process_table", index) for index in range(3)]
        assert [store.task_store(scope).get("result")["map_index"] for scope in scopes] == [0, 1, 2]
        orders = store.asset_store(Asset("orders/daily", uri="s3://warehouse/orders/daily"))
        assert orders.get("total_runs") == 2
