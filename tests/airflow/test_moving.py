"""`milepost airflow import` and `export`: between Airflow 3.3's own tables and a store."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from milepost import Asset, TaskScope, connect
from tests.airflow.conftest import HERE, Home

pytestmark = pytest.mark.timeout(1200)

FILE = str(HERE / "dags" / "native.py")


@pytest.fixture
def native(home: Home) -> Home:
    """A version that has stores of its own."""
    if tuple(map(int, home.version.split(".")[:2])) < (3, 3):
        pytest.skip(f"Airflow {home.version} has no stores of its own")
    return home


def test_state_goes_both_ways(native: Home, tmp_path: Path) -> None:
    """What Airflow's tables hold comes into a store and back, byte for byte; conflicts are refused."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    dags = tmp_path / "dags"
    dags.mkdir()
    shutil.copy(FILE, dags)

    def steps(*wanted: list[Any]) -> list[Any]:
        return native.steps(*wanted, url=url, env={"AIRFLOW__CORE__DAGS_FOLDER": str(dags)})

    def move(*arguments: str) -> list[str]:
        return ["milepost", "airflow", *arguments, "--json"]

    _, _, run, _, before, moved, again, _, dry, empty, back, after = steps(
        ["native_delete"],
        ["serialize"],
        ["test", FILE, "native"],
        ["native_put_by_task", "native", "watermark", '{"at": "2026-01-01", "n": 0}', "native", "fill"],
        ["native_rows"],
        move("import"),
        move("import"),
        ["native_delete"],
        move("export", "--dry-run"),
        ["native_rows"],
        move("export"),
        ["native_rows"],
    )
    told = f"milepost: the store is {url} (environment variable AIRFLOW__MILEPOST__URL)\n"
    assert (moved["code"], moved["err"], moved["out"]["task_keys"], moved["out"]["asset_keys"]) == (0, told, 7, 1)
    assert (again["out"]["task_keys"], again["out"]["same"]) == (0, 8)
    assert (dry["out"]["task_keys"], dry["out"]["asset_keys"], empty) == (7, 1, [])
    assert len(before) == 8
    assert (back["code"], after, back["out"]["sha256"]) == (0, before, moved["out"]["sha256"])

    scope = TaskScope("native", run["run_id"], "fill")
    with connect(url) as store:
        task = store.task_store(scope)
        values = {"a/b": [1, 1.0, True, -0.5, 2**70], "o": {"b": "é😀\0\n", "a": [None, {}]}, "e": 1e300}
        assert {key: repr(task.get(key)) for key in values} == {key: repr(value) for key, value in values.items()}
        never, soon = task.entry("remote_job_id"), task.entry("soon")
        assert never is not None
        assert soon is not None
        assert (never.value, never.never_expires) == ("j-1", True)
        assert soon.expires_at is not None
        assert timedelta(days=1, hours=23) < soon.expires_at - soon.created_at < timedelta(days=2)
        watermark = store.asset_store(Asset(name="native")).entry("watermark")
        assert watermark is not None
        writer = watermark.writer
        assert (watermark.value, writer.kind) == ({"at": "2026-01-01", "n": 0}, "task")
        assert (writer.dag_id, writer.run_id, writer.task_id, writer.map_index) == ("native", "gone", "fill", 2)
        task.set("e", 2)
        store.task_store(TaskScope("elsewhere", "run", "task")).set("k", 1)

    put = ["native_put", "native", run["run_id"], "fill"]
    refused, forced, other, alone, _, bad, _, closed, _, without, _ = steps(
        move("import"),
        move("export", "--force"),
        move("export"),
        move("export", "--dag", "native"),
        [*put, "ref", '{"__airflow_state_ref__": "s3://x"}'],
        move("import"),
        ["milepost", "assets", "deactivate", "native", "--url", url],
        move("import", "--dry-run"),
        ["milepost", "assets", "activate", "native", "--url", url],
        move("import", "--skip"),
        [*put, "e", "3"],
    )
    assert (refused["code"], refused["out"]) == (5, "")
    assert "'e' have another value on the other side" in refused["err"]
    assert (forced["code"], "Airflow has no such run" in forced["err"]) == (3, True)
    assert (other["code"], alone["code"]) == (3, 5)
    assert (bad["code"], "a worker-side backend of Airflow keeps its value" in bad["err"]) == (3, True)
    assert "the asset is deactivated in the store" in closed["out"]["left"].values()
    assert without["code"] == 5
    forced, rows = steps(move("import", "--skip", "--force"), ["native_rows"])
    assert (forced["code"], forced["out"]["replaced"]) == (0, [f"{scope} 'e'"])
    assert ["fill", -1, "e", "3"] in [row[:4] for row in rows]
    with connect(url) as store:
        assert store.task_store(scope).get("e") == 3


def cut_off(token: str) -> str:
    """Submit a job whose answer is lost."""
    raise TimeoutError


def test_a_job_without_an_id_is_named(native: Home, tmp_path: Path) -> None:
    """A job whose attempt was cut off while submitting cannot be exported: it is named, until somebody stores its id."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    (run,) = native.steps(["test", FILE, "beside"], url=url)
    scope = TaskScope("beside", run["run_id"], "looks")
    export = ["milepost", "airflow", "export", "--dag", "beside", "--json"]
    with connect(url) as store:
        task = store.task_store(scope, attempt=2)
        for key in ("cut", "other"):
            with pytest.raises(TimeoutError):
                task.submit_once(key, cut_off)
        task.submit_once("known", lambda _: "j-1")
        task.delete("other")
        refused, skipped = native.steps(export, [*export, "--skip"], url=url)
        assert (refused["code"], refused["out"]) == (3, "")
        assert "cut off while it submitted this job" in refused["err"]
        assert (skipped["code"], list(skipped["out"]["left"])) == (0, [f"{scope} 'cut'"])
        task.set("cut", "j-2")
        (moved,) = native.steps(export, url=url)
    assert (moved["code"], moved["out"]["task_keys"], moved["out"]["left"]) == (0, 1, {})


def test_older_versions_say_that_they_have_none(home: Home, tmp_path: Path) -> None:
    """Below 3.3: usage, and one line."""
    if tuple(map(int, home.version.split(".")[:2])) >= (3, 3):
        pytest.skip(f"Airflow {home.version} has stores of its own")
    (answer,) = home.steps(["milepost", "airflow", "import"], url=f"sqlite:///{tmp_path / 'store.db'}")
    assert (answer["code"], answer["out"]) == (2, "")
    assert f"Airflow {home.version} has no stores of its own; 3.3 and later have" in answer["err"]
