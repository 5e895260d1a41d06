"""What tasks can be and do: functions, operators, results, context, skips, failures, rules, options."""

from __future__ import annotations

import json

import pytest

import milepost


def test_results_flow_between_tasks(project):
    """A task gets what the tasks before it returned, every tagged type as itself (SPEC 11)."""
    project.write(
        """
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from uuid import UUID
VALUE = {
    "tuple": (1, ("a",)), "set": {1, 2}, "datetime": datetime(2026, 1, 2, tzinfo=timezone.utc), "date": date(2026, 1, 2),
    "timedelta": timedelta(seconds=1.5), "decimal": Decimal("1.10"), "uuid": UUID(int=7), "none": None, "big": 2**70,
    "tag": {"__milepost__": "tuple", "value": [1]}, "float": -0.0,
}
with DAG("d"):
    @task
    def produce():
        return VALUE
    @task
    def compare(got):
        assert repr(sorted(got.items())) == repr(sorted(VALUE.items())), got
        return "same"
    compare(produce())
"""
    )
    assert project.run().code == 0
    assert project.result("compare") == "same"


def test_result_of_another_type_fails_naming_the_task(project):
    """A result that cannot be passed on fails the task with a TypeError that names it (SPEC 11)."""
    project.write(
        """
with DAG("d"):
    @task
    def produce():
        return {"a": object()}
    produce()
"""
    )
    outcome = project.run()
    assert outcome.code == 1
    assert "TypeError: the result of task 'produce': it['a'] is a builtins.object" in outcome.err
    assert project.state("produce") == ("failed", 1)


def test_async_task(project):
    """An `async` function is a task, and its stores have calls that do not block."""
    project.write(
        """
with DAG("d"):
    @task
    async def work(task_store=None):
        await task_store.aset("k", 1)
        return await task_store.aget("k")
    work()
"""
    )
    assert project.run().code == 0
    assert (project.keys("work"), project.result("work")) == ({"k": 1}, 1)


def test_context_reaches_every_kind_of_task(project):
    """The context comes as `**context`, by name, to `execute`, and from `get_current_context` (SPEC 11)."""
    project.write(
        """
KEYS = sorted("task_store asset_store task_state_store asset_state_store ti task dag dag_run run_id params logical_date ds "
              "map_index inlets outlets".split())
a = Asset("a")

def look(context):
    assert sorted(context) == KEYS, sorted(context)
    assert context["task_store"] is context["task_state_store"]
    assert context["asset_store"] is context["asset_state_store"]
    ti, run = context["ti"], context["dag_run"]
    assert context is get_current_context() or dict(context) == dict(get_current_context())
    assert (ti.dag_id, ti.run_id, ti.map_index, ti.try_number) == ("d", "r1", -1, 1)
    assert (run.run_id, run.conf, run.logical_date) == ("r1", {"p": "run"}, context["logical_date"])
    assert context["ds"] == context["logical_date"].strftime("%Y-%m-%d")
    assert context["logical_date"].utcoffset().total_seconds() == 0
    assert (context["dag"].dag_id, context["task"].task_id) == ("d", ti.task_id)
    return {"params": context["params"], "inlets": [x.name for x in context["inlets"]]}

class Op(BaseOperator):
    def execute(self, context):
        return look(context)

with DAG("d", params={"p": "dag", "q": "dag", "r": "dag"}):
    @task(inlets=[a], params={"q": "task"})
    def everything(**context):
        return look(context)
    @task
    def by_name(ti, params, task_store=None, other="default"):
        task_store.set("k", other)
        return [ti.task_id, params["p"]]
    everything() >> by_name() >> Op(task_id="op", inlets=[a])
"""
    )
    outcome = project.run("--params", '{"p": "run"}')
    assert outcome.code == 0, outcome.err
    assert project.result("everything") == {"params": {"p": "run", "q": "task", "r": "dag"}, "inlets": ["a"]}
    assert (project.result("by_name"), project.keys("by_name")) == (["by_name", "run"], {"k": "default"})
    assert project.result("op")["params"] == {"p": "run", "q": "dag", "r": "dag"}


def test_unknown_attribute_of_ti_says_so(project):
    """What Airflow's task instance has and Milepost's has not raises with its name."""
    project.write(
        """
with DAG("d"):
    @task
    def pull(ti):
        return ti.xcom_pull("x")
    pull()
"""
    )
    outcome = project.run()
    assert outcome.code == 1
    assert "ti.xcom_pull is not part of Milepost's local runner; pass results between tasks as arguments" in outcome.err


def test_assets_reach_the_task(project):
    """A task reads and writes the stores of its inlets and outlets, and they outlive the run."""
    project.write(
        """
a, b = Asset("a"), Asset("b", uri="s3://b")
with DAG("d"):
    @task(inlets=[a], outlets=[b])
    def work(asset_store):
        asset_store.set("shorthand", 1)
        asset_store[b].set("watermark", asset_store[Asset.ref(uri="s3://b")].get("watermark", 0) + 1)
    work()
"""
    )
    assert project.run(run_id="r1").code == 0
    assert project.run(run_id="r2").code == 0
    with project.store() as store:
        found = store.asset_store(milepost.Asset("b", uri="s3://b")).entry("watermark")
        assert store.asset_store(milepost.Asset("a")).get("shorthand") == 1
    assert (found.value, found.writer.run_id, found.writer.task_id, found.writer.attempt) == (2, "r2", "work", 1)


def test_deferrable_operator_fails_at_once(project):
    """An operator that defers fails at once, without retries, and says that this is not supported (SPEC 11)."""
    project.write(
        """
class Wait(BaseOperator):
    def execute(self, context):
        self.defer(trigger=None, method_name="done", timeout=None)
with DAG("d"):
    Wait(task_id="wait", retries=3)
"""
    )
    outcome = project.run()
    assert outcome.code == 1
    assert "task 'wait' calls defer(), and deferrable operators are not supported by Milepost's local runner" in outcome.err
    assert project.state("wait") == ("failed", 1)


def test_skip_and_fail_exceptions(project):
    """A skip skips what comes behind; a fail ends the task at once, whatever retries are left."""
    project.write(
        """
with DAG("d", default_args={"retries": 3}):
    @task
    def skips():
        raise AirflowSkipException("nothing to do")
    @task
    def behind_skip(x):
        return x
    @task
    def fails():
        raise FailTask("no use")
    @task(trigger_rule="one_failed")
    def alarm():
        return "rang"
    behind_skip(skips())
    fails() >> alarm()
"""
    )
    outcome = project.run()
    assert outcome.code == 0, outcome.err  # the last tasks decide, and the alarm succeeded
    assert (project.state("skips"), project.state("behind_skip")) == (("skipped", 1), None)
    assert (project.state("fails"), project.result("alarm")) == (("failed", 1), "rang")
    assert "skipped: nothing to do" in outcome.err
    assert "behind_skip: skipped" in outcome.err


def test_skipped_result_is_none_for_who_runs_all_the_same(project):
    """A task whose rule lets it run after a skipped one gets None for its result."""
    project.write(
        """
with DAG("d"):
    @task
    def skips():
        raise SkipTask
    @task(trigger_rule="none_failed")
    def joins(x):
        return [x]
    joins(skips())
"""
    )
    assert project.run().code == 0
    assert project.result("joins") == [None]


def test_multiple_outputs(project):
    """A task with multiple outputs hands on single items of its dict; another result is a TypeError."""
    project.write(
        """
with DAG("d"):
    @task(multiple_outputs=True)
    def split():
        return {"a": 1, "b": [2, 3]}
    @task
    def add(x, y=0):
        return x + y
    parts = split()
    add.partial(y=parts["a"]).expand(x=parts["b"])
    @task(multiple_outputs=True)
    def wrong():
        return [1]
    wrong()
"""
    )
    outcome = project.run()
    assert outcome.code == 1
    assert [project.result("add", index) for index in (0, 1)] == [3, 4]
    assert "multiple_outputs needs a dict, not list" in outcome.err


def test_operator_with_result_in_its_attributes(project):
    """An operator finds values where its arguments were results, and its hooks run around `execute`."""
    project.write(
        """
class Join(BaseOperator):
    def __init__(self, parts, sep="-", **kwargs):
        super().__init__(**kwargs)
        self.parts, self.sep = parts, sep
    def pre_execute(self, context):
        context["task_store"].set("pre", 1)
    def execute(self, context):
        return self.sep.join(self.parts)
    def post_execute(self, context, result=None):
        context["task_store"].set("post", result)

with DAG("d", default_args={"sep": "+"}):
    @task
    def letters(n):
        return ["a", "b"][:n]
    one = Join(task_id="one", parts=[letters(1), "x"][1:] + ["y"])
    two = Join(task_id="two", parts=letters.override(task_id="more")(2))
    Join.partial(task_id="many", sep="/").expand(parts=[["p", "q"], two.output and ["r", one.output]])
"""
    )
    outcome = project.run()
    assert outcome.code == 0, outcome.err
    assert [project.result("one"), project.result("two")] == ["x+y", "a+b"]
    assert [project.result("many", 0), project.result("many", 1)] == ["p/q", "r/x+y"]
    assert project.keys("two") == {"pre": 1, "post": "a+b"}


def test_dag_arguments_become_params(project):
    """The arguments of a function under @dag are parameters that --params overrides."""
    project.write(
        """
@dag
def d(day="monday", n=1):
    @task
    def show(x, params):
        return [x, params]
    show({"day": day})
d()
"""
    )
    assert project.run("--params", json.dumps({"day": "friday", "extra": [1]})).code == 0
    assert project.result("show") == [{"day": "friday"}, {"day": "friday", "n": 1, "extra": [1]}]


def test_options_of_a_task(project):
    """`clear_on_success` set for one task drops its keys when it succeeds, and only then."""
    project.write(
        """
with DAG("d"):
    @task(retries=1)
    @options(clear_on_success=True)
    def work(task_store, ti):
        if ti.try_number == 1:
            task_store.set("k", 1)
            raise ValueError("once")
        return task_store.get("k")
    work()
"""
    )
    assert project.run().code == 0
    assert (project.result("work"), project.keys("work")) == (1, {})


@pytest.mark.parametrize("exit_code", [0, 3])
def test_exit_inside_a_task_is_a_failure(project, exit_code):
    """A task that leaves its process, with whatever code, has not succeeded."""
    project.write(
        f"""
with DAG("d"):
    @task
    def leaves():
        sys.exit({exit_code})
    @task
    def vanishes():
        os._exit({exit_code})
    leaves()
    vanishes()
"""
    )
    outcome = project.run()
    assert outcome.code == 1
    assert (project.state("leaves"), project.state("vanishes")) == (("failed", 1), ("failed", 1))
    assert f"exited with code {exit_code} before it recorded how it ended" in outcome.err


def test_traceback_shows_the_users_part(project):
    """The traceback of a failed task begins in the DAG file."""
    path = project.write(
        """
with DAG("d"):
    @task
    def breaks():
        raise ValueError("here")
    breaks()
"""
    )
    err = project.run().err
    shown = err[err.index("Traceback") :].splitlines()
    assert shown[1].split() == ["[breaks]", "File", f'"{path}",', "line", "7,", "in", "breaks"]
    assert "ValueError: here" in err


def test_traceback_of_an_async_task_shows_the_users_part(project):
    """The traceback of a failed `async` task begins in the DAG file too: no frame of the event loop or of Milepost."""
    path = project.write(
        """
with DAG("d"):
    @task
    async def breaks():
        await inner()
    async def inner():
        raise ValueError("here")
    breaks()
"""
    )
    err = project.run().err
    frames = [line.split("File ")[1] for line in err.splitlines() if "File " in line]
    assert frames == [f'"{path}", line 7, in breaks', f'"{path}", line 9, in inner']


def test_traceback_of_an_error_of_milepost_ends_at_the_users_line(project):
    """What a store refuses is shown with the line of the DAG file that asked for it, and with nothing behind it."""
    path = project.write(
        """
import milepost; A = Asset("a")
with DAG("d"):
    @task(outlets=[A])
    def deactivated(asset_store=None):
        with milepost.connect(os.environ["MILEPOST__STATE_STORE__URL"]) as store:
            store.assets.deactivate(A)
        asset_store[A].set("k", 1)
    @task
    def refused(task_store=None):
        task_store.set("k", {1, 2})
    deactivated()
    refused()
"""
    )
    err = project.run().err
    frames = [line.split("File ")[1] for line in err.splitlines() if "File " in line]
    assert sorted(frames) == [f'"{path}", line 10, in deactivated', f'"{path}", line 13, in refused']
    assert "AssetNotActiveError: the asset a is deactivated" in err
    assert "UnsupportedTypeError: " in err


def test_traceback_of_a_function_that_milepost_calls(project):
    """Frames of Milepost between the task and a function of the user's that it calls are left out."""
    path = project.write(
        """
with DAG("d"):
    @task
    def breaks(task_store=None):
        task_store.submit_once("job", submit)
    def submit(token):
        raise ValueError("here")
    breaks()
"""
    )
    err = project.run().err
    frames = [line.split("File ")[1] for line in err.splitlines() if "File " in line]
    assert frames == [f'"{path}", line 7, in breaks', f'"{path}", line 9, in submit']


def test_output_of_tasks(project):
    """What a task prints goes to the same stream of the runner, marked with the task's name, whatever the workers."""
    project.write(
        """
import logging
with DAG("d"):
    @task
    def talks():
        print("to out")
        print("to err", file=sys.stderr)
        logging.getLogger("mine").info("to log")
        sys.stdout.write("no end")
    talks()
"""
    )
    for workers in "12":
        outcome = project.run("--workers", workers, run_id=f"r{workers}")
        assert {"[talks] to out", "[talks] no end"} <= set(outcome.out.splitlines())
        assert {"[talks] to err", "[talks] INFO mine: to log"} <= set(outcome.err.splitlines())


def test_summary_names_states_attempts_and_time(project):
    """A run ends with a table of its task instances."""
    project.write(
        """
with DAG("d"):
    @task(retries=1)
    def once_more(ti):
        if ti.try_number == 1:
            raise ValueError
    @task
    def pair(x):
        pass
    once_more() >> pair.expand(x=[1, 2])
"""
    )
    lines = [line.split() for line in project.run().out.splitlines()]
    assert lines[0] == ["task", "state", "attempts", "duration"]
    assert [line[:3] for line in lines[1:4]] == [
        ["once_more", "success", "2"],
        ["pair[0]", "success", "1"],
        ["pair[1]", "success", "1"],
    ]
    assert lines[4] == ["run", "r1", "of", "DAG", "d:", "success"]
