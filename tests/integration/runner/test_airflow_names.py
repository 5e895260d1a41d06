"""What SPEC 11 lists, in whole runs of files written for Airflow: attempts find the same names as the runner."""

from __future__ import annotations

from importlib.machinery import PathFinder

import pytest

from milepost import Asset


@pytest.fixture(autouse=True)
def _without_airflow(require):
    require("an environment without Airflow", PathFinder.find_spec("airflow") is None)


def test_file_written_for_airflow(project):
    """Airflow's imports, scheduling arguments and exceptions work at load, and inside a task that imports late."""
    project.write(
        """
from datetime import datetime, timedelta
from airflow.exceptions import AirflowFailException, AirflowSkipException
from airflow.sdk import DAG, Asset, BaseOperator, TaskGroup, chain, dag, get_current_context, task
from airflow.sdk.execution_time.context import TaskStateStoreAccessor

class Add(BaseOperator):
    def __init__(self, *, step, **kwargs):
        super().__init__(**kwargs)
        self.step = step
    def execute(self, context):
        return self.step + context["params"]["base"]

@dag(dag_id="d", schedule=timedelta(days=1), start_date=datetime(2026, 1, 1), end_date=None, catchup=False, tags=["a"],
     doc_md="text", description="text", max_active_runs=1, max_active_tasks=2,
     params={"base": 10},
     default_args={"owner": "me", "retries": 1, "retry_delay": timedelta(0), "pool": "p", "queue": "q",
                   "priority_weight": 3})
def pipeline():
    @task(task_id="named", execution_timeout=timedelta(minutes=1))
    def first(task_state_store: TaskStateStoreAccessor = None, ti=None):
        from airflow.sdk.state import NEVER_EXPIRE
        task_state_store.set("k", ti.try_number, retention=NEVER_EXPIRE)
        if ti.try_number == 1:
            raise ValueError("default_args give one retry")
        return get_current_context()["run_id"]
    @task
    def skips():
        raise AirflowSkipException
    @task(retries=5)
    def fails():
        raise AirflowFailException
    @task(trigger_rule="all_done")
    def last():
        return "end"
    chain(first(), [Add(task_id="add", step=1), skips(), fails()], last())
pipeline()
"""
    )
    outcome = project.run()
    assert outcome.code == 0, outcome.err
    assert (project.state("named"), project.keys("named"), project.result("named")) == (("success", 2), {"k": 2}, "r1")
    assert (project.result("add"), project.result("last")) == (11, "end")
    assert (project.state("skips"), project.state("fails")) == (("skipped", 1), ("failed", 1))


def test_mapped_tasks_in_groups(project):
    """Mapped functions and operators in nested groups have the prefix, their own keys, and take results from outside."""
    project.write(
        """
class Double(BaseOperator):
    def __init__(self, *, x, y=0, **kwargs):
        super().__init__(**kwargs)
        self.x, self.y = x, y
    def execute(self, context):
        return 2 * self.x + self.y

with DAG("d"):
    @task
    def numbers():
        return [{"x": 1}, {"x": 2, "y": 5}]
    @task
    def keep(x, add, task_store=None):
        task_store.set("x", x)
        return x + add
    @task
    def total(parts):
        return sum(parts)
    found = numbers()
    with TaskGroup("outer") as outer:
        with TaskGroup("inner"):
            doubled = Double.partial(task_id="double").expand_kwargs(found)
        kept = keep.partial(add=100).expand(x=doubled)
    outer >> total(kept)
    @task
    def four():
        return 4
    Double.partial(task_id="known", y=1).expand_kwargs([{"x": 3}, {"x": four()}])
"""
    )
    outcome = project.run("--workers", "2")
    assert outcome.code == 0, outcome.err
    assert [project.result("outer.inner.double", index) for index in (0, 1)] == [2, 9]
    assert [project.keys("outer.keep", index) for index in (0, 1)] == [{"x": 2}, {"x": 9}]
    assert project.result("total") == 211
    assert [project.result("known", index) for index in (0, 1)] == [7, 9]


def test_watchers_and_aliases_have_no_effect(project):
    """Assets with watchers are assets like others, and aliases take no part: the one concrete asset has the shorthand."""
    project.write(
        """
from airflow.sdk import Asset, AssetAlias, AssetWatcher
from airflow.triggers.base import BaseEventTrigger, TriggerEvent
class Never(BaseEventTrigger):
    def serialize(self):
        return ("pipeline.Never", {})
    async def run(self):
        raise AssertionError("a run runs no trigger")
        yield TriggerEvent(None)
orders = Asset("orders", watchers=[AssetWatcher(name="new", trigger=Never())])
with DAG("d", schedule=[orders]):
    @task(inlets=[orders, AssetAlias("in")], outlets=[AssetAlias("out")])
    def work(asset_store, inlets, outlets):
        asset_store.set("seen", 1)
        return [len(asset_store), len(inlets), len(outlets)]
    work()
"""
    )
    outcome = project.run()
    assert outcome.code == 0, outcome.err
    assert project.result("work") == [1, 2, 1]
    with project.store() as store:
        assert store.asset_store(Asset("orders")).get("seen") == 1


def test_clear_with_keep_state(project):
    """`--clear TASK --keep-state` runs the task again with its keys in place; without the option they are gone."""
    project.write(
        """
with DAG("d"):
    @task
    def work(task_store):
        return task_store.increment("n")
    work()
"""
    )
    results = []
    for args in ((), ("--clear", "work", "--keep-state"), ("--clear", "work")):
        assert project.run(*args).code == 0
        results.append(project.result("work"))
    assert results == [1, 2, 1]


def test_durations_stay_the_same(project):
    """A look at a finished run shows the durations that the run showed."""
    project.write('with DAG("d"):\n    @task\n    def work(): pass\n    work()\n')
    first, second = project.run(), project.run()
    assert first.out.splitlines() == second.out.splitlines()
    assert "already succeeded" in second.err
