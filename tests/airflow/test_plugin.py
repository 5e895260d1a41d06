"""The plugin inside real Airflow, at the level of `dag.test()`."""

from __future__ import annotations

import sqlite3

import pytest

from milepost import Asset, TaskScope, connect
from tests.airflow.conftest import Home, Ran

# Airflow itself takes most of it.
pytestmark = pytest.mark.timeout(1200)

NAMES = ["task_store", "asset_store", "task_state_store", "asset_state_store"]


def test_operators_functions_and_helpers_find_the_stores(ran: Ran) -> None:
    """The stores are in the context of operators, are named arguments of functions, and are found by get_current_context.

    A function may be asynchronous. From 3.3 on, the longer names stay Airflow's own.
    """
    assert ran.items("plain", "operator") == {"count": 1, "names": NAMES}
    assert ran.items("plain", "function") == {"same": ran.home.at_most(3, 2)}
    assert ran.items("plain", "current") == {"here": True}
    assert ran.items("plain", "waits") == {"here": True}


def test_templates_and_callbacks_find_the_stores(ran: Ran) -> None:
    """The stores are there for all of a task: templates, `pre_execute`, callbacks; one attempt is recorded for it."""
    for index, item in enumerate("ab"):
        assert ran.items("around", "templated", index) == {
            "found": "in a template",
            "before": item,
            "rendered": ["in a template", "5"],
        }
    assert ran.items("around", "skipped") == {"found": "in a template", "before": "c"}
    assert ran.items("around", "calls") == {"calls": 2}
    assert ran.items("around", "calls_at_the_end") == {"calls": 1}
    assert ran.states("around") == {
        "templated[0]": ("success", 1),
        "templated[1]": ("success", 1),
        "skipped[-1]": ("skipped", 1),
        "shell[-1]": ("success", 1),
        "calls[-1]": ("success", 1),
        "calls_at_the_end[-1]": ("failed", 1),
    }


def test_the_end_of_each_attempt_is_recorded_as_airflow_sees_it(ran: Ran) -> None:
    """Success, failure and skip are recorded; a failing task rolls nothing back."""
    assert ran.states("plain") == {
        "operator[-1]": ("success", 1),
        "function[-1]": ("success", 1),
        "current[-1]": ("success", 1),
        "waits[-1]": ("success", 1),
        "skips[-1]": ("skipped", 1),
        "fails[-1]": ("failed", 1),
    }
    assert ran.items("plain", "fails") == {"here": True}


def test_a_first_attempt_that_uses_no_store_is_not_recorded(ran: Ran) -> None:
    """A store is opened where a task first uses it."""
    assert ran.states("idle") == {"reads[-1]": ("success", 1)}


def test_mapped_tasks_operators_and_groups_have_keys_of_their_own(ran: Ran) -> None:
    """S-23: each mapped instance has its own keys, in tasks, operators and task groups, and a name for people."""
    assert [ran.items("mapped", "each", index) for index in range(3)] == [{"item": "a"}, {"item": "b"}, {"item": "c"}]
    assert [ran.items("mapped", "operators", index)["count"] for index in range(2)] == [1, 1]
    assert [ran.items("mapped", "group.inside", index) for index in range(2)] == [{"name": "n1"}, {"name": "n2"}]
    scope = TaskScope("mapped", ran.ended["mapped"]["run_id"], "each", 1)
    record = ran.store.instances.get(scope)
    assert record is not None
    assert record.item_name == "b"


def test_assets_of_a_task_are_its_inlets(ran: Ran) -> None:
    """The shorthand works on the only inlet; a staged value is seen once Airflow reports success."""
    accessor = ran.store.asset_store(Asset(uri="s3://bucket/orders"))
    assert dict(accessor.items()) == {"day": "2026-01-01", "staged": 1}
    entry = accessor.entry("day")
    assert entry is not None
    assert (entry.writer.kind, entry.writer.task_id) == ("task", "moves")


def test_a_sensor_counts_over_its_reschedules(ran: Ran) -> None:
    """S-15 (c): a sensor in reschedule mode counts 1, 2, 3 in one attempt."""
    assert ran.items("sensor", "poke") == {"pokes": 3}
    assert ran.states("sensor") == {"poke[-1]": ("success", 1)}


def test_a_deferred_task_finds_its_job(ran: Ran) -> None:
    """S-15 (b), S-26: what was stored before a deferral is there when the same attempt goes on."""
    assert ran.items("deferred", "defer") == {"job": "j-1", "resumed": "j-1"}
    assert ran.states("deferred") == {"defer[-1]": ("success", 1)}


def test_a_retry_keeps_and_a_clear_by_a_person_starts_over(ran: Ran) -> None:
    """S-15 (a), S-22: the retry finds what the first attempt stored; after a clear in Airflow the keys are archived."""
    scope = TaskScope("again", ran.ended["again"]["run_id"], "retried")
    archives = ran.store.instances.archives(scope)
    assert [(one.cause, one.keys) for one in archives] == [("clear", ("tries",))]
    # The attempt after the clear found nothing and failed as the very first one did; numbers go on.
    assert ran.items("again", "retried") == {"tries": [3]}
    assert ran.states("again") == {"retried[-1]": (ran.ended["again"]["tasks"]["retried[-1]"], 3)}
    ran.store.instances.restore(scope, force=True)
    assert ran.items("again", "retried") == {"tries": [1, 2]}


def test_a_store_that_cannot_be_reached_fails_only_who_uses_it(home: Home) -> None:
    """The task that does without succeeds; the other one fails at its first call, with the reason."""
    ended = home.test("basics.py", "idle", url="http://127.0.0.1:9", secret="s" * 16, open_timeout="1")
    assert ended["idle"]["tasks"] == {"does_without[-1]": "success", "reads[-1]": "failed"}
    assert "was not open after 1 seconds" in home.logs[-1]


def test_a_wrong_option_fails_only_who_uses_the_store(home: Home) -> None:
    """An unknown option is an error that names its place, raised where a store is used."""
    ended = home.test("basics.py", "idle", retention_dayz="3")
    assert ended["idle"]["tasks"] == {"does_without[-1]": "success", "reads[-1]": "failed"}
    assert "there is no option 'retention_dayz' in [milepost]" in home.logs[-1]


def test_a_wrong_option_takes_no_dag_away(home: Home) -> None:
    """A file that takes the mixin from `airflow.sdk` loads; what would remember a job fails before it submits one."""
    tasks = home.test("operators.py", "operators", retention_dayz="3")["operators"]["tasks"]
    assert (tasks["plain[-1]"], tasks["from_sdk[-1]"], tasks["durable[-1]"]) == ("success", "success", "failed")
    assert "there is no option 'retention_dayz' in [milepost]" in home.logs[-1]


def test_dag_test_leaves_nothing_behind(home: Home) -> None:
    """Without `keep_test_state`, the stores of `dag.test()` are gone with its process, and no file is made."""
    url = f"sqlite:///{home.folder / 'untouched.db'}"
    ended = home.test("basics.py", "sensor", url=url, keep_test_state="False")
    assert ended["sensor"]["tasks"] == {"poke[-1]": "success"}
    assert not (home.folder / "untouched.db").exists()


def test_the_home_is_real(ran: Ran) -> None:
    """Airflow recorded the runs of these tests in its own database."""
    connection = sqlite3.connect(ran.home.folder / "airflow.db")
    try:
        found = {row[0] for row in connection.execute("SELECT DISTINCT dag_id FROM dag_run")}
    finally:
        connection.close()
    assert {"plain", "mapped", "assets", "sensor", "deferred", "again"} <= found


def test_operators_of_a_user_take_the_mixin_from_anywhere(home: Home) -> None:
    """The mixin works with an operator that has and without an `__init__`; `durable` comes from `default_args`, too.

    After the operator among the bases, it is refused as the class is made.
    """
    ended = home.test("operators.py", "operators")["operators"]
    assert ended["state"] == "success", home.logs[-1][-6000:]
    with connect(home.url) as store:
        kept = {
            one.scope.task_id: dict(store.task_store(one.scope).items())
            for one in store.instances.list("operators", ended["run_id"])
        }
    assert {task: values["remote_job_id"] for task, values in kept.items() if "remote_job_id" in values} == {
        task: f"job of {task}" for task in ("durable", "from_milepost", "inherits", "given", "mapped_plain")
    }
    assert kept["refused"] == {
        "why": "Reversed names BaseOperator before the mixin; the mixin comes first: "
        "class Reversed(ResumableJobMixin, BaseOperator)"
    }
