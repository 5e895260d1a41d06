"""`milepost airflow sync`: what Airflow deleted is collected, and the assets of its DAGs are known."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
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
    """Return the DAGs and directions of references by the last part of the asset's URI; active ones of the file only."""
    with connect(url) as store:
        return {
            one.uri.rpartition("/")[2]: {(each.dag_id, each.direction) for each in one.references}
            for one in store.assets.list(active=True)
            if one.uri.startswith("s3://records/")
        }


def ours(answer: dict[str, Any]) -> dict[str, Any]:
    """Return a report without what is about DAGs of other tests, which Airflow knows, too."""
    report = answer["out"]
    for name in ("dags", "gone"):
        report[name] = [one for one in report[name] if one in ("records", "waits")]
    for name in ("added", "deactivated"):
        report[name] = {one.rpartition("/")[2] for one in report[name] if "s3://records/" in one}
    report["left"] = {dag_id: why for dag_id, why in report["left"].items() if dag_id in ("records", "waits")}
    return report


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
    for answer in (asked, done):
        report = ours(answer)
        assert (answer["code"], report["dags"], report["runs"]) == (0, ["records", "waits"], [])
        assert report["added"] == {"waited", "watched"}
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
    unchanged, asked, done, recent, gone = (ours(answers[step]) for step in (0, 3, 4, 6, 8))
    assert [unchanged[name] for name in ("runs", "dags", "attached", "left")] == [[], [], [], {}]
    for answer in (asked, done):
        assert (answer["runs"], answer["instances"]) == ([f"records/{one['run_id']}"], 3)
        assert (answer["dags"], answer["left"]) == ([], {"waits": "its file cannot be parsed"})
    assert (recent["dags"], list(recent["left"])) == ([], ["waits"])
    let_go = {"watched"} if synced.aliases else {"watched", "waited"}
    assert (gone["gone"], gone["deactivated"]) == (["waits"], let_go)
    assert (items(synced.url, one["run_id"]), items(synced.url, other["run_id"])) == ({}, {"job": "j-0"})
    with connect(synced.url) as store:
        watermark = store.asset_store(asset("written")).entry("watermark")
        assert watermark is not None
        assert (watermark.value, watermark.writer.run_id) == (0, other["run_id"])
        assert store.assets.get(asset("watched")).cause == "unreferenced"

    broken = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{synced.env['AIRFLOW__CORE__DAGS_FOLDER']}/none.db"}
    (lost,) = synced.steps(SYNC, **broken)
    assert (lost["code"], lost["out"]) == (6, "")
    assert "Airflow's metadata database cannot be used" in lost["err"]

    _, another, done = synced.steps(["delete_dag", "records"], SYNC, [*SYNC, "--force"])
    assert (another["code"], another["out"]) == (5, "")
    assert "knows none of the 1 runs" in another["err"]
    report = ours(done)
    assert (report["runs"], report["gone"]) == ([f"records/{other['run_id']}"], ["records"])
    with connect(synced.url) as store:
        assert [run.dag_id for run in store.runs.list()] == ["by hand"]
        assert store.assets.get(asset("written")).active is False
        assert store.assets.get(asset("waited")).active is synced.aliases


def test_attempts_that_ended_in_airflow_end(synced: Synced) -> None:
    """An attempt whose task was marked, or whose process was killed, is ended as Airflow has it; no other one is touched.

    What was staged by code that did not return is dropped; a task that waited and succeeded is taken at its word.
    """
    _, run = synced.steps(["serialize"], ["test", FILE, "records"])
    work, first, second = (TaskScope("records", run["run_id"], *where) for where in (("work",), ("each", 0), ("each", 1)))
    written = asset("written")

    def begin(attempt: int, *then: str) -> None:
        with connect(synced.url) as store:
            (kept,) = [one for one in store.runs.list() if one.run_id == run["run_id"]]
            for scope, state in zip((work, first, second), then, strict=True):
                opened = store.instances.open(scope, attempt, incarnation=kept.incarnation, outlets=[written])
                opened["asset_store"].stage("watermark", attempt)
                if state != "running":
                    store.instances.finish(scope, attempt, state)  # type: ignore[arg-type]

    def found() -> tuple[list[tuple[str, int]], Any]:
        with connect(synced.url) as store:
            records = [store.instances.get(scope) for scope in (work, first, second)]
            return [(one.state, one.attempt) for one in records if one], store.asset_store(written).get("watermark")

    def said(run_state: str, *rows: tuple[str, int]) -> list[Any]:
        names = (("work", -1), ("each", 0), ("each", 1))
        return ["say", "records", run["run_id"], run_state, [[*name, *row] for name, row in zip(names, rows, strict=True)]]

    begin(7, "running", "running", "deferred")
    waits = said("running", ("success", 6), ("running", 7), ("up_for_reschedule", 7))
    _, untouched = synced.steps(waits, SYNC)
    assert untouched["out"]["ended"] == []
    assert found() == ([("running", 7), ("running", 7), ("deferred", 7)], 0)

    marked = said("running", ("success", 7), ("skipped", 8), ("success", 7))
    _, asked, done, again = synced.steps(marked, [*SYNC, "--dry-run"], SYNC, SYNC)
    every = sorted(map(str, (work, first, second)))
    assert [sorted(answer["out"]["ended"]) for answer in (asked, done, again)] == [every, every, []]
    assert found() == ([("failed", 7), ("skipped", 7), ("success", 7)], 7)

    begin(9, "running", "running", "up_for_retry")
    over = said("failed", ("failed", 1), ("upstream_failed", 1), ("up_for_retry", 9))
    _, done = synced.steps(over, SYNC)
    assert sorted(done["out"]["ended"]) == sorted(map(str, (work, first)))
    assert found() == ([("failed", 9), ("failed", 9), ("up_for_retry", 9)], 7)


def test_the_scheduler_keeps_the_store_in_line(synced: Synced, tmp_path: Path) -> None:
    """With `sync_interval`, the assets of DAGs come to be known while a scheduler runs; what it started ends with it.

    Its log has a line for what changed, and none where nothing did.
    """
    environment = {**synced.env, "AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK": "False"}
    synced.steps(["serialize"])
    with connect(synced.url):
        pass
    with (tmp_path / "log").open("w") as log:
        command = synced.home.command("-m", "airflow", "scheduler", "--skip-serve-logs")
        env = {**synced.home.environment(url=synced.url, sync_interval="1"), **environment}
        scheduler = subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_until(lambda: references(synced.url), scheduler, tmp_path / "log")
            children = Path(f"/proc/{scheduler.pid}/task/{scheduler.pid}/children").read_text().split()
            (started,) = [one for one in children if b"--with-parent" in Path(f"/proc/{one}/cmdline").read_bytes()]
        finally:
            scheduler.send_signal(signal.SIGTERM)
            scheduler.wait(60)
        wait_until(lambda: not Path(f"/proc/{started}").exists(), None, tmp_path / "log")
    lines = (tmp_path / "log").read_text().splitlines()
    # How many DAGs depends on the other tests, which Airflow knows, too.
    (told,) = [line for line in lines if "new assets" in line or "COUNT" in line]
    assert re.search(r"\+00:00 changed: [0-9]+ DAGs", told)
    assert len([line for line in lines if line.startswith("milepost: the store is ")]) == 1
    assert references(synced.url)["written"] == {("records", "outlet")}


def wait_until(condition: Callable[[], Any], process: subprocess.Popen[bytes] | None, log: Path) -> None:
    """Wait for something that a process does."""
    deadline = time.monotonic() + 180
    while not condition():
        assert process is None or process.poll() is None, log.read_text()[-6000:]
        assert time.monotonic() < deadline, log.read_text()[-6000:]
        time.sleep(0.2)
