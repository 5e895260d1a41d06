"""DAGs of the tests, for every version of Airflow. Each is one file, as a user would write it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

try:
    from airflow.sdk import DAG, Asset, BaseOperator, BaseSensorOperator, task, task_group
except ImportError:
    from airflow import DAG
    from airflow.datasets import Dataset as Asset
    from airflow.decorators import task, task_group
    from airflow.models.baseoperator import BaseOperator
    from airflow.sensors.base import BaseSensorOperator

from airflow.exceptions import AirflowSkipException

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
WATERMARKS = Asset("s3://bucket/orders")


def note(task_store: Any, **values: Any) -> None:
    """Leave behind what a test looks at."""
    for name, value in values.items():
        task_store.set(name, value)


class Plain(BaseOperator):
    """Uses the stores in `execute`."""

    def __init__(self, *, item: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.item = item

    def execute(self, context: Any) -> Any:
        """Count, and say by which names the store is there."""
        count = context["task_store"].increment("count")
        names = ("task_store", "asset_store", "task_state_store", "asset_state_store")
        context["task_store"].set("names", [name for name in names if name in context])
        return count


class Pokes(BaseSensorOperator):
    """Counts its pokes; the third one finds something."""

    def poke(self, context: Any) -> bool:
        """Count."""
        return context["task_store"].increment("pokes") >= 3


class Defers(BaseOperator):
    """Stores a job, defers, and finds the job when it goes on."""

    def execute(self, context: Any) -> None:
        """Defer."""
        try:
            from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
        except ImportError:
            from airflow.triggers.temporal import TimeDeltaTrigger

        context["task_store"].set("job", "j-1")
        self.defer(trigger=TimeDeltaTrigger(timedelta(seconds=0)), method_name="after")

    def after(self, context: Any, event: Any = None) -> str:
        """Go on."""
        context["task_store"].set("resumed", context["task_store"].get("job"))
        return "done"


class Templated(BaseOperator):
    """Uses the stores in templates and in `pre_execute`, before its own code."""

    template_fields = ("found", "later")

    def __init__(self, *, item: Any, skip: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.item = item
        self.found = "{{ task_store.set_default('found', 'in a template') }}"
        self.later = "{{ task_state_store.get('none', 5) }}"
        self.skip = skip

    def pre_execute(self, context: Any) -> None:
        """Store, and skip where that is wanted."""
        context["task_store"].set("before", self.item)
        if self.skip:
            raise AirflowSkipException("before its own code")

    def execute(self, context: Any) -> None:
        """Store what was rendered."""
        context["task_store"].set("rendered", [self.found, self.later])


def call_back(context: Any) -> None:
    """Use the store, be it for the first time."""
    context["task_store"].increment("calls")


with DAG("plain", start_date=START, schedule=None) as plain:
    Plain(task_id="operator")

    @task
    def function(task_store=None, **context):
        """A store as a named argument, and in the context."""
        note(task_store, same=context["task_state_store"] is task_store)

    @task
    def skips(task_store=None):
        """Skip."""
        note(task_store, here=True)
        raise AirflowSkipException("nothing to do")

    @task
    def fails(task_store=None):
        """Fail."""
        note(task_store, here=True)
        raise ValueError("broken")

    @task
    async def waits(task_store=None):
        """Use a store in an event loop, which Airflow itself has from 3.2 on."""
        await task_store.aset("here", True)

    @task
    def current():
        """Find the store from anywhere."""
        try:
            from airflow.sdk import get_current_context
        except ImportError:
            from airflow.operators.python import get_current_context
        get_current_context()["task_store"].set("here", True)

    function()
    skips()
    fails()
    waits()
    current()

with DAG("mapped", start_date=START, schedule=None) as mapped:

    @task
    def each(item, scale, task_store=None):
        """Store the item."""
        note(task_store, item=item)

    each.partial(scale=2).expand(item=["a", "b", "c"])
    Plain.partial(task_id="operators").expand(item=["x", "y"])

    @task_group
    def group(name):
        """One task per name."""

        @task
        def inside(name, task_store=None):
            """Store the name."""
            note(task_store, name=name)

        inside(name)

    group.expand(name=["n1", "n2"])

with DAG("assets", start_date=START, schedule=None) as assets:

    @task(inlets=[WATERMARKS])
    def moves(asset_store=None):
        """Move the watermark of the only inlet."""
        asset_store.advance("day", "2026-01-01")

    @task(inlets=[WATERMARKS])
    def stages(asset_store=None):
        """Stage, and be seen with the success."""
        asset_store[WATERMARKS].stage("staged", 1)

    moves() >> stages()

with DAG("sensor", start_date=START, schedule=None) as sensor:
    Pokes(task_id="poke", mode="reschedule", poke_interval=0.1)

with DAG("deferred", start_date=START, schedule=None) as deferred:
    Defers(task_id="defer")

with DAG("again", start_date=START, schedule=None) as again:

    @task(retries=1, retry_delay=timedelta(0))
    def retried(task_store=None, ti=None):
        """Fail once, and find at the second attempt what the first one stored."""
        found = task_store.get("tries", [])
        task_store.set("tries", [*found, ti.try_number])
        if len(found) == 0:
            raise ValueError("the first attempt")

    retried()

with DAG("around", start_date=START, schedule=None) as around:
    Templated.partial(task_id="templated").expand(item=["a", "b"])
    Templated(task_id="skipped", item="c", skip=True)

    @task(on_success_callback=call_back, on_execute_callback=call_back)
    def calls():
        """Use no store."""

    @task(on_failure_callback=call_back)
    def calls_at_the_end():
        """Use no store, and fail."""
        raise ValueError("broken")

    @task.bash
    def shell(task_store=None):
        """Return a command with a template."""
        task_store.set("answer", 7)
        return "echo {{ task_store.get('answer') }}"

    calls()
    calls_at_the_end()
    shell()

with DAG("idle", start_date=START, schedule=None) as idle:

    @task
    def does_without():
        """Use no store."""

    @task
    def reads(task_store=None):
        """Use it."""
        task_store.get("x")

    does_without()
    reads()
