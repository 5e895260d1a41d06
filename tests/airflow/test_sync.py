"""`milepost airflow sync`: what Airflow deleted is collected, and the assets of its DAGs are known."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from milepost import Asset, TaskScope, connect
from tests.airflow.conftest import HERE, Home

pytestmark = pytest.mark.timeout(1200)

FILE = str(HERE / "dags" / "records.py")
SYNC = ["milepost", "airflow", "sync", "--json"]


class Synced:
    """A store beside an Airflow whose folder has one file."""

    def __init__(self, home: Home, folder: Path) -> None:
        self.home = home
        self.aliases = not home.version.startswith("2.9.")
        self.url = f"sqlite:///{folder / 'store.db'}"
        dags = folder / "dags"
        dags.mkdir()
        shutil.copy(FILE, dags)
        self.env = {"AIRFLOW__CORE__DAGS_FOLDER": str(dags)}

    def steps(self, *steps: list[Any], **env: str) -> list[Any]:
        """Take steps."""
        return self.home.steps(*steps, env={**self.env, **env}, url=self.url)


@pytest.fixture
def synced(home: Home, tmp_path: Path) -> Synced:
    """A store of its own."""
    return Synced(home, tmp_path)


def asset(name: str) -> Asset:
    """An asset of the file."""
    return Asset(uri=f"s3://records/{name}")


def references(url: str) -> dict[str, set[tuple[str, str]]]:
    """Return the DAGs and directions of references by the last part of the asset's URI; active ones only."""
    with connect(url) as store:
        return {
            one.uri.rpartition("/")[2]: {(each.dag_id, each.direction) for each in one.references}
            for one in store.assets.list(active=True)
        }


def items(url: str, run_id: str) -> dict[str, Any]:
    """Return the keys and values of the first task of a run."""
    with connect(url) as store:
        return dict(store.task_store(TaskScope("records", run_id, "work")).items())


def test_state_follows_airflow(synced: Synced) -> None:
    """S-21, S-24: task rows of deleted runs go, asset rows stay; assets are those of Airflow's DAGs, inlets and aliases too.

    A DAG whose file is broken, or out of sight for a while, loses nothing; one that was deleted lets its assets go.
    """
    _, one, other, _, asked, done = synced.steps(
        ["serialize"],
        ["test", FILE, "records"],
        ["test", FILE, "records"],
        ["attach_alias", "alias", "s3://records/waited"] if synced.aliases else ["serialize"],
        [*SYNC, "--dry-run"],
        SYNC,
    )
    new = {f"s3://records/{name}" for name in ("waited", "watched")}
    for answer in (asked, done):
        assert (answer["code"], answer["out"]["dags"], answer["out"]["runs"]) == (0, ["records", "waits"], [])
        assert {name.rpartition(" ")[2] for name in answer["out"]["added"]} == new
    watch = {("waits", "watch")} if synced.home.version.startswith("3.") else set()
    assert references(synced.url) == {
        "read": {("records", "inlet"), ("waits", "schedule")},
        "mapped": {("records", "inlet")},
        "written": {("records", "outlet")},
        "waited": {("waits", "schedule")},
        "watched": {("waits", "schedule"), *watch},
    }
    with connect(synced.url) as store:
        found = store.assets.get(asset("waited"))
        assert found is not None
        assert found.aliases == (("alias",) if synced.aliases else ())
        store.task_store(TaskScope("by hand", "run", "task")).set("k", 1)

    answers = synced.steps(
        SYNC,
        ["delete_run", "records", one["run_id"]],
        ["out_of_sight", "waits", 5, True],
        [*SYNC, "--dry-run"],
        SYNC,
        ["out_of_sight", "waits", 0.1, False],
        SYNC,
        ["out_of_sight", "waits", 5, False],
        SYNC,
    )
    unchanged, asked, done, recent, gone = (answers[step]["out"] for step in (0, 3, 4, 6, 8))
    assert [unchanged[name] for name in ("runs", "dags", "attached", "left")] == [[], [], [], {}]
    for answer in (asked, done):
        assert (answer["runs"], answer["instances"]) == ([f"records/{one['run_id']}"], 3)
        assert (answer["dags"], answer["left"]) == ([], {"waits": "its file cannot be parsed"})
    assert (recent["dags"], list(recent["left"])) == ([], ["waits"])
    let_go = {"watched"} if synced.aliases else {"watched", "waited"}
    assert (gone["gone"], {name.rpartition("/")[2] for name in gone["deactivated"]}) == (["waits"], let_go)
    assert (items(synced.url, one["run_id"]), items(synced.url, other["run_id"])) == ({}, {"job": "j-0"})
    with connect(synced.url) as store:
        watermark = store.asset_store(asset("written")).entry("watermark")
        assert watermark is not None
        assert (watermark.value, watermark.writer.run_id) == (0, other["run_id"])
        assert store.assets.list(active=False)[0].cause == "unreferenced"

    broken = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{synced.env['AIRFLOW__CORE__DAGS_FOLDER']}/none.db"}
    (lost,) = synced.steps(SYNC, **broken)
    assert (lost["code"], lost["out"]) == (6, "")
    assert "Airflow's metadata database cannot be used" in lost["err"]

    _, another, done = synced.steps(["delete_dag", "records"], SYNC, [*SYNC, "--force"])
    assert (another["code"], another["out"]) == (5, "")
    assert "knows none of the 1 runs" in another["err"]
    assert (done["out"]["runs"], done["out"]["gone"]) == ([f"records/{other['run_id']}"], ["records"])
    with connect(synced.url) as store:
        assert [run.dag_id for run in store.runs.list()] == ["by hand"]
        assert store.assets.get(asset("written")).active is False
        assert store.assets.get(asset("waited")).active is synced.aliases
