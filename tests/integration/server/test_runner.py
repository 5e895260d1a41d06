"""`milepost run` with its store behind a server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from milepost import Asset, AssetAlias, Store, TaskScope
from tests.integration.runner.helpers import Project
from tests.support.forked import Forked
from tests.support.serving import SECRET

DAG_FILE = """
import os
from milepost import connect

@task(retries=1, retry_delay=0, inlets=[Asset("orders"), AssetAlias("daily")], outlets=[Asset("sums", uri="s3://sums")])
def first(task_store=None, asset_store=None):
    told = [name for name, value in os.environ.items() if {secret!r} in value or "SECRET" in name or "TOKEN" in name]
    asset_store[Asset("sums", uri="s3://sums")].set("told", told)
    asset_store[Asset("aliased")].advance("seen", 1)
    if task_store.get("tried") is None:
        task_store.set("tried", True)
        os.kill(os.getpid(), 9)
    return [1, 2, 3]

@task
def double(x, task_store=None):
    task_store.set("progress", {{"done": x, "total": 3}})
    return x * 2

@task
def total(values):
    return sum(values)

with DAG("behind"):
    total(double.expand(x=first()))
"""


@pytest.fixture
def project(tmp_path: Path, url: str, forked: Forked) -> Iterator[Project]:
    """A folder with a runner whose store is the one that is served."""
    made = Project(tmp_path, forked)
    made.url = url
    made.environment |= {"MILEPOST__STATE_STORE__URL": url, "MILEPOST__SERVER__SECRET": SECRET}
    yield made
    made.stop()


def test_a_run_behind_a_server(project: Project, behind: Store) -> None:
    """Attempts work with tokens of their own and never see the secret; a killed one goes on, results are passed on."""
    project.write(DAG_FILE.format(secret=SECRET))
    behind.assets.attach(AssetAlias("daily"), Asset("aliased"))
    outcome = project.run()
    assert outcome.code == 0, outcome.err
    assert behind.runs.get_results("behind", "r1", "total") == {-1: "12"}
    assert behind.asset_store(Asset("sums", uri="s3://sums")).get("told") == []
    assert behind.asset_store(Asset("aliased")).get("seen") == 1
    assert behind.task_store(TaskScope("behind", "r1", "double", 2)).get("progress") == {"done": 3, "total": 3}
    record = behind.instances.get(TaskScope("behind", "r1", "first"))
    assert record is not None
    assert (record.attempt, record.state) == (2, "success")


def test_without_a_credential_one_line_says_so(project: Project) -> None:
    """A runner that has no credential for the server ends with exit code 2 and one line."""
    project.write("@task\ndef t():\n    pass\n\nwith DAG('d'):\n    t()\n")
    del project.environment["MILEPOST__SERVER__SECRET"]
    project.environment["MILEPOST_HOME"] = os.fspath(project.folder)
    outcome = project.run()
    assert outcome.code == 2
    assert "a server needs a credential" in outcome.err
    assert len(outcome.err.splitlines()) == 1
