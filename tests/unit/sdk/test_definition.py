"""DAGs, tasks and operators as a file defines them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from milepost.sdk import DAG, Asset, AssetAlias, BaseOperator, DagDefinitionError, TaskGroup, TriggerRule, dag, task
from milepost.sdk.dag import collecting
from milepost.sdk.settings import SCHEDULER_ONLY


class Copy(BaseOperator):
    def __init__(self, source, target="here", **kwargs):
        super().__init__(**kwargs)
        self.source = source
        self.target = target

    def execute(self, context):
        """Return what it was given."""
        return self.source


@task
def produce():
    """Return a list."""
    return [1, 2]


@task
def consume(x, task_store=None, **context):
    """Return the argument."""
    return x


def here() -> int:
    """Return the line of the caller."""
    import sys

    return sys._getframe(1).f_lineno


def test_result_as_argument_orders_tasks():
    """A task that takes another's result, however deep in its arguments, comes after it."""
    with DAG("d") as made:
        result = produce()
        consume({"deep": [1, (result,)]})
    assert made.get_task("consume").upstream_task_ids == {"produce": None}
    assert made.get_task("produce").downstream_task_ids == {"consume": None}


def test_operator_attribute_orders_tasks():
    """An operator that keeps another's result in an attribute comes after it."""
    with DAG("d") as made:
        Copy(task_id="c", source=produce())
    assert made.get_task("c").upstream_task_ids == {"produce": None}


def test_shift_operators():
    """`a >> b` and `b << a` put a before b, and lists work on either side."""
    with DAG("d") as made:
        a, b, c, d = (Copy(task_id=name, source=1) for name in "abcd")
        a >> [b, c] >> d
        d << a
    assert [list(made.get_task(name).upstream_task_ids) for name in "abcd"] == [[], ["a"], ["a"], ["b", "c", "a"]]


def test_repeated_call_gets_a_numbered_id():
    """Calling a task function again makes another task, whose id gets a number."""
    with DAG("d") as made:
        for _ in range(3):
            produce()
    assert made.task_ids == ["produce", "produce__1", "produce__2"]


def test_override_changes_one_task_only():
    """`override` returns a changed copy and leaves the function as it was."""
    with DAG("d") as made:
        produce.override(task_id="other", retries=3)()
        produce()
    assert [(one.task_id, one.retries) for one in made.tasks] == [("other", 3), ("produce", 0)]


def test_default_args_reach_tasks_and_yield_to_their_own():
    """`default_args` fill what a task does not say itself: the DAG's first, then the group's, then its own."""
    with DAG("d", default_args={"retries": 1, "source": "dag", "retry_delay": 5, "owner": "me"}) as made:
        Copy(task_id="plain")
        Copy(task_id="own", source="own", retries=0, default_args={"retry_delay": timedelta(seconds=7)})
        with TaskGroup("g", default_args={"source": "group"}):
            Copy(task_id="grouped")
    found = {one.task_id: (one.source, one.retries, one.retry_delay.total_seconds()) for one in made.tasks}
    assert found == {"plain": ("dag", 1, 5.0), "own": ("own", 0, 7.0), "g.grouped": ("group", 1, 5.0)}


def test_default_args_do_not_displace_a_positional_argument():
    """A positional argument wins over `default_args`."""
    with DAG("d", default_args={"source": "default"}) as made:
        Copy("given", task_id="c")
    assert made.get_task("c").source == "given"


@pytest.mark.parametrize("name", sorted(SCHEDULER_ONLY))
def test_scheduler_arguments_have_no_effect(name):
    """What only a scheduler reads is accepted by DAGs and tasks, and does nothing."""
    with DAG("d", **{name: "anything"}) as made:
        Copy(task_id="c", source=1, **{name: "anything"})
        produce.override(**{name: "anything"})()
    assert made.task_ids == ["c", "produce"]


def test_settings_of_a_task():
    """Retries, delays in either form, time-out, rule, assets and params arrive as given."""
    asset = Asset("a")
    with DAG("d") as made:
        Copy(
            task_id="c",
            source=1,
            retries=2,
            retry_delay=1.5,
            execution_timeout=timedelta(minutes=1),
            trigger_rule="all_done",
            inlets=[asset, AssetAlias("x")],
            outlets=asset,
            params={"p": 1},
            multiple_outputs=True,
        )
    c = made.get_task("c")
    assert (c.retries, c.retry_delay, c.execution_timeout, c.trigger_rule, c.inlets, c.outlets, c.params) == (
        2,
        timedelta(seconds=1.5),
        timedelta(minutes=1),
        TriggerRule.ALL_DONE,
        [asset, AssetAlias("x")],
        [asset],
        {"p": 1},
    )


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("retries", -1),
        ("retries", 1.5),
        ("retries", True),
        ("retry_delay", -1),
        ("retry_delay", "5 minutes"),
        ("execution_timeout", 0),
        ("trigger_rule", "all_succes"),
        ("inlets", ["just a name"]),
        ("outlets", 3),
        ("params", ["a"]),
        ("multiple_outputs", "yes"),
    ],
)
def test_bad_setting_names_task_and_line(argument, value):
    """A setting of the wrong kind fails where the task is made, naming the task and the argument."""
    with DAG("d"), pytest.raises(DagDefinitionError, match=f"{argument} of task 'c'") as caught:
        Copy(task_id="c", source=1, **{argument: value})
    assert caught.value.where == (__file__, here() - 1)


def _unknown_dag() -> None:
    DAG("d", scheduel=None)


def _unknown_dag_decorator() -> None:
    dag(scheduel=None)


def _unknown_task() -> None:
    task(retires=1)


def _unknown_operator() -> None:
    with DAG("d"):
        Copy(task_id="c", source=1, retires=1)


def _unknown_override() -> None:
    produce.override(retires=1)


def _unknown_partial() -> None:
    Copy.partial(task_id="c", retires=1)


def _unknown_group() -> None:
    with DAG("d"):
        TaskGroup("g", tooltip="x")


def _unknown_own_default() -> None:
    with DAG("d"):
        Copy(task_id="c", source=1, default_args={"retires": 1})


def _unknown_decorator() -> None:
    task.branch  # noqa: B018


@pytest.mark.parametrize(
    ("define", "name", "line"),
    [
        (_unknown_dag, "scheduel", 1),
        (_unknown_dag_decorator, "scheduel", 1),
        (_unknown_task, "retires", 1),
        (_unknown_operator, "retires", 2),
        (_unknown_override, "retires", 1),
        (_unknown_partial, "retires", 1),
        (_unknown_group, "tooltip", 2),
        (_unknown_own_default, "retires", 2),
        (_unknown_decorator, "branch", 1),
    ],
)
def test_unknown_name_fails_with_name_and_line(define: Callable[[], None], name: str, line: int):
    """What the runner does not know raises at once, with the name and the user's line (SPEC 11)."""
    with pytest.raises(DagDefinitionError, match=name) as caught:
        define()
    assert caught.value.where == (__file__, define.__code__.co_firstlineno + line)


def test_unknown_default_of_a_dag_is_found_by_the_check():
    """A name in `default_args` that no task takes is refused once the whole DAG is known."""
    with DAG("d", default_args={"source": 1, "retires": 1}) as made:
        Copy(task_id="c")
    with pytest.raises(DagDefinitionError, match=r"default_args of DAG 'd' has no argument 'retires'.*'retries'"):
        made.check()


def test_error_suggests_the_name_that_was_meant():
    """A mistyped argument is answered with the nearest one."""
    with pytest.raises(DagDefinitionError, match="did you mean 'retries'"):
        task(retrys=1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (consume, "lacks the argument 'x'"),
        (lambda: produce(1), "does not fit its function"),
        (lambda: consume(1, 2, 3), "does not fit its function"),
        (lambda: produce(y=1), "does not fit its function"),
        (lambda: Copy(task_id="c", source=1) and Copy(task_id="c", source=1), "taken already"),
        (lambda: BaseOperator(task_id="c"), r"no execute\(\)"),
        (lambda: Copy(task_id="", source=1), "task_id must not be empty"),
        (lambda: Copy(task_id="x" * 251, source=1), "251 characters"),
        (lambda: f"{produce()}", "has no text"),
        (lambda: list(produce()), "not known"),
        (lambda: produce()["key"], "no multiple_outputs"),
        (lambda: produce() >> 3, "no task"),
        (lambda: produce() >> produce, "call it first"),
        (lambda: consume(frozenset([produce()])), "stands in a frozenset"),
    ],
)
def test_wrong_definition_is_refused(make, message):
    """What cannot work is refused while the file is loaded."""
    with DAG("d"), pytest.raises(DagDefinitionError, match=message):
        make()


def test_foreign_context_key_is_refused():
    """A function that asks for a key of Airflow's context that Milepost has not is refused, not given None."""

    @task
    def ask(data_interval_start=None):
        return data_interval_start

    with DAG("d"), pytest.raises(DagDefinitionError, match="'data_interval_start' from the context"):
        ask()


def test_task_outside_a_dag_is_refused():
    """A task needs a DAG."""
    with pytest.raises(DagDefinitionError, match="needs a DAG"):
        produce()


def test_dag_argument_instead_of_a_block():
    """`dag=` puts a task into a DAG without a `with` block."""
    made = DAG("d")
    Copy(task_id="c", source=1, dag=made)
    assert made.task_ids == ["c"]


def test_circle_is_refused():
    """Tasks that wait for each other are refused with their names."""
    with DAG("d") as made:
        a, b = Copy(task_id="a", source=1), Copy(task_id="b", source=1)
        a >> b >> a
    with pytest.raises(DagDefinitionError, match=r"circle: .*(a >> b|b >> a)"):
        made.check()


def test_tasks_of_two_dags_cannot_be_linked():
    """An order between tasks of different DAGs is refused."""
    with DAG("one"):
        a = Copy(task_id="a", source=1)
    with DAG("two"):
        b = Copy(task_id="b", source=1)
    with pytest.raises(DagDefinitionError, match="different DAGs"):
        a >> b


def test_long_chain_is_ordered():
    """The order of thousands of tasks in a row is found without recursion."""
    with DAG("d") as made:
        tasks = [Copy(task_id=f"t{number}", source=1) for number in range(3000)]
        for first, second in zip(reversed(tasks), list(reversed(tasks))[1:], strict=False):
            first >> second
    assert [one.task_id for one in made.ordered()] == [f"t{number}" for number in reversed(range(3000))]


def test_group_prefixes_and_links():
    """A group prefixes ids, also nested; linking it links its first and last tasks."""
    with DAG("d") as made:
        before = Copy(task_id="before", source=1)
        with TaskGroup("g") as group:
            first = Copy(task_id="first", source=1)
            with TaskGroup("inner"):
                last = Copy(task_id="last", source=1)
            with TaskGroup("bare", prefix_group_id=False):
                Copy(task_id="loose", source=1)
            first >> last
        after = Copy(task_id="after", source=1)
        before >> group >> after
    assert made.task_ids == ["before", "g.first", "g.inner.last", "g.loose", "after"]
    assert set(made.get_task("g.first").upstream_task_ids) == {"before"}
    assert set(made.get_task("after").upstream_task_ids) == {"g.inner.last", "g.loose"}


def test_dag_decorator_makes_a_dag_when_called():
    """A function under `@dag` makes its DAG on each call; its arguments become params."""

    @dag(params={"fixed": 1}, default_args={"retries": 4})
    def pipeline(day="monday"):
        consume(day)

    with collecting() as found:
        assert found == []
        made = pipeline("friday")
    assert [one.dag_id for one in found] == ["pipeline"]
    assert made.params == {"day": "friday", "fixed": 1}
    assert made.get_task("consume").retries == 4


def test_bare_dag_decorator():
    """`@dag` works without parentheses."""

    @dag
    def pipeline():
        produce()

    assert pipeline().task_ids == ["produce"]


def test_multiple_outputs_by_annotation():
    """A function annotated to return a dict has multiple outputs, as in Airflow; an explicit False wins."""

    @task
    def annotated() -> dict[str, int]:
        return {"a": 1}

    with DAG("d") as made:
        assert repr(annotated()["a"]) == "<the result of task 'annotated'['a']>"
        annotated.override(task_id="plain", multiple_outputs=False)()
    assert made.get_task("plain").multiple_outputs is False


def test_operator_without_super_init_is_refused():
    """An operator whose __init__ forgets its base fails where it is made."""

    class Broken(BaseOperator):
        def __init__(self, **kwargs):
            pass

        def execute(self, context):
            pass

    with DAG("d"), pytest.raises(DagDefinitionError, match="does not call super"):
        Broken(task_id="b")


def test_author_may_use_common_attribute_names():
    """Operators may have attributes such as `options`, `where` or `sources` of their own."""

    class Query(BaseOperator):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.options, self.where, self.sources = {"a": 1}, "x = 1", ["t"]

        def execute(self, context):
            pass

    with DAG("d") as made:
        Query(task_id="q") >> Copy(task_id="c", source=1)
    assert [one.task_id for one in made.ordered()] == ["q", "c"]
