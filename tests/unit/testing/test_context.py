"""`milepost.testing`: fixtures and contexts for users' tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import milepost
from milepost import Asset, ManualClock, StaleAttemptError, Store, TaskOptions, TaskScope, connect, testing
from milepost.sdk import DAG, BaseOperator, get_current_context, task
from milepost.sdk.context import CONTEXT_KEYS
from milepost.testing import TaskContext

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
SCOPE = TaskScope("dag", "run", "task")
ORDERS = Asset("orders", uri="s3://orders")


@pytest.fixture
def clock() -> ManualClock:
    """A clock that moves only when told to."""
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> Iterator[Store]:
    """A store in memory."""
    with connect("memory://", clock=clock) as opened:
        yield opened


def test_a_context_has_the_keys_of_the_runner(store: Store) -> None:
    """A context has exactly the keys that the local runner gives, under both spellings of the stores."""
    context = TaskContext(store, SCOPE, params={"n": 1}, inlets=[ORDERS])
    assert set(context) == CONTEXT_KEYS
    assert context["task_state_store"] is context["task_store"]
    assert context["asset_state_store"] is context["asset_store"]
    assert (context["ti"].dag_id, context["ti"].task_id, context["ti"].try_number) == ("dag", "task", 1)
    assert (context["params"], context["logical_date"], context["ds"]) == ({"n": 1}, START, "2026-01-01")
    with pytest.raises(KeyError, match="no 'var'"):
        context["var"]


def test_it_can_be_given_to_a_task(store: Store) -> None:
    """A function under test takes the context as keyword arguments."""

    def load(task_store: Any = None, asset_store: Any = None, **_: Any) -> int:
        asset_store[ORDERS].set("w", 1)
        return int(task_store.increment("n"))

    context = TaskContext(store, SCOPE, outlets=[ORDERS])
    assert [load(**context), load(**context)] == [1, 2]
    assert store.asset_store(ORDERS).get("w") == 1


def test_a_retry_keeps_state_and_makes_the_old_context_stale(store: Store) -> None:
    """`retry` fails the attempt and opens the next: it sees what was stored, and the old context may do nothing."""
    first = TaskContext(store, SCOPE)
    first["task_store"].set("page", 3)
    second = first.retry()
    assert (second["task_store"].get("page"), second.attempt, second["ti"].try_number) == (3, 2, 2)
    with pytest.raises(StaleAttemptError):
        first["task_store"].set("page", 4)
    with pytest.raises(StaleAttemptError):
        first.retry()


def test_a_killed_attempt_says_nothing(store: Store) -> None:
    """`next_attempt` supersedes an attempt that never ended, with the same assets and parameters."""
    first = TaskContext(store, SCOPE, params={"n": 1}, outlets=[ORDERS], logical_date=START + timedelta(days=5))
    second = first.next_attempt()
    assert (second["params"], second["ds"], list(second["asset_store"])) == ({"n": 1}, "2026-01-06", [ORDERS])


def test_starting_over_drops_or_keeps_state(store: Store) -> None:
    """`start_over` clears the instance as a person does; ``keep`` leaves the keys; attempt numbers go on."""
    first = TaskContext(store, SCOPE)
    first["task_store"].set("k", 1)
    second = first.start_over(keep=True)
    assert (second["task_store"].get("k"), second.attempt) == (1, 2)
    third = second.start_over()
    assert (third["task_store"].get("k"), third.attempt) == (None, 3)


def test_another_item_starts_empty(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """After a clear, a mapped position that holds another item does not see the old state."""
    scope = TaskScope("dag", "run", "task", 0)
    first = TaskContext(store, scope, item={"x": "a"})
    first["task_store"].set("job", "a-1")
    same = first.start_over(keep=True)
    assert same["task_store"].get("job") == "a-1"
    assert same.start_over(keep=True, item={"x": "z"})["task_store"].get("job") is None


def test_finish_obeys_the_options(store: Store) -> None:
    """`finish` records the end, and success drops the keys where the task's options say so."""
    context = TaskContext(store, SCOPE, options=TaskOptions(clear_on_success=True))
    context["task_store"].set("k", 1)
    context.finish()
    record = store.instances.get(SCOPE)
    assert record is not None
    assert (record.state, store.task_store(SCOPE).keys()) == ("success", [])


USED = """
from datetime import timedelta

{head}

from milepost import TaskScope


def test_context(task_context):
    context = task_context("d", "r", "t", 3, params={{"n": 1}})
    assert (context["map_index"], context["params"]["n"]) == (3, 1)
    context["task_store"].set("k", 1)
    assert context.retry()["task_store"].get("k") == 1
    assert task_context()["ti"].dag_id == "dag"


def test_store_is_empty_and_time_stands_still(milepost_store, milepost_clock):
    assert milepost_store.instances.list() == []
    state = milepost_store.task_store(TaskScope("d", "r", "t"))
    state.set("lease", 1, retention=timedelta(minutes=5))
    milepost_clock.advance(minutes=4)
    assert state.get("lease") == 1
    milepost_clock.advance(minutes=1)
    assert state.get("lease") is None
"""


@pytest.mark.parametrize("way", ["plugin", "import"])
def test_fixtures_work_in_a_users_project(tmp_path: Path, way: str) -> None:
    """`pytest_plugins = ["milepost.testing"]` and a plain import both bring the fixtures, with warnings as errors."""
    names = "milepost_clock, milepost_store, task_context"
    head = "" if way == "plugin" else f"from milepost.testing import {names}"
    if way == "plugin":
        (tmp_path / "conftest.py").write_text('pytest_plugins = ["milepost.testing"]\n')
    (tmp_path / "test_mine.py").write_text(USED.format(head=head))
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=alone, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_pytest_is_not_needed() -> None:
    """Without pytest the module is imported and its context works."""
    program = (
        "import sys; sys.modules['pytest'] = None\n"
        "import milepost; from milepost.testing import TaskContext\n"
        "with milepost.connect('memory://') as store:\n"
        "    context = TaskContext(store, milepost.TaskScope('d', 'r', 't'))\n"
        "    context['task_store'].set('k', 1)\n"
        "    assert context.retry()['task_store'].get('k') == 1\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=100)


def test_the_clock_is_milepost_s_own() -> None:
    """`ManualClock` is the same class here and in `milepost`."""
    assert testing.ManualClock is milepost.ManualClock


def _fail_once(task_store: Any = None, step: int = 1) -> int:
    if task_store.increment("calls", step) == 1:
        raise ConnectionError("gone")
    return int(task_store.get("calls"))


class _Counting(BaseOperator):
    def __init__(self, *, step: int = 1, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.step = step

    def execute(self, context: Any) -> Any:
        return self.task_id, get_current_context()["task_store"].increment("calls", self.step)


@pytest.mark.parametrize("made", [lambda f: f, task, task(retries=2), lambda f: task(f).partial(step=1)])
def test_run_calls_functions_as_the_runner_does(store: Store, made: Any) -> None:
    """`run` fills arguments from the context, under @task or not; a failure stays the caller's, and a retry goes on."""
    load = made(_fail_once)
    context = TaskContext(store, SCOPE)
    with pytest.raises(ConnectionError):
        context.run(load)
    assert context.retry().run(load) == 2
    with pytest.raises(RuntimeError, match="no current context"):
        get_current_context()


def test_run_takes_named_arguments_items_and_coroutines(store: Store) -> None:
    """Named arguments win over the mapped item, that over the context; a coroutine is waited for."""

    @task
    async def load(path: str, rows: int = 0, *, map_index: int, **rest: Any) -> tuple[Any, ...]:
        await rest["task_store"].aset("k", path)
        return path, rows, map_index, rest["task_store"].get("k")

    mapped = TaskContext(store, TaskScope("dag", "run", "task", 3), item={"path": "a.csv", "rows": 1})
    assert mapped.run(load) == ("a.csv", 1, 3, "a.csv")
    assert mapped.run(load, rows=2) == ("a.csv", 2, 3, "a.csv")
    assert TaskContext(store, SCOPE).run(load, "b.csv") == ("b.csv", 0, -1, "b.csv")


def test_run_executes_operators(store: Store) -> None:
    """Operators run with their context as the current one; what only a run of the DAG can give is refused by name."""
    first_context = TaskContext(store, SCOPE, item={"step": 2})
    assert [first_context.run(_Counting), first_context.run(_Counting, step=3, task_id="x")] == [("task", 2), ("x", 5)]
    with DAG("d") as dag:
        count = _Counting(task_id="count")
        first = task(_one)()
        task(_fail_once)(step=first)
    context = TaskContext(store, SCOPE, attempt=2)
    assert context.run(count) == ("count", 6)
    with pytest.raises(TypeError, match="_one"):
        context.run(dag.get_task("_fail_once"))
    with pytest.raises(TypeError, match="when it is made"):
        context.run(count, 1)
    for wrong in (first, 5, "load"):
        with pytest.raises(TypeError, match="a function or an operator"):
            context.run(wrong)


def _one() -> int:
    """A task whose result another takes."""
    return 1
