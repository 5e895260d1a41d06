"""Runs for `bench_task_start` by the Python of an environment with Airflow and Milepost, not by ours.

``python airflow_start.py FILE HOW TASK SAMPLES`` runs a task and adds what its start took to a file, one line of JSON for
each sample, in milliseconds. HOW is ``fresh``, a process of its own that has loaded nothing, or ``forked``, a child of a
process that has loaded Airflow, as workers make them. TASK is ``idle``, ``uses`` or ``plain``: idle without Milepost; or
``both``, which sets keys in Milepost's store and in Airflow's own, by turns.
"""

import functools
import importlib
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

PARTS: dict[str, float] = {}
"""Milliseconds by part of a start; ``cpu`` is what the processor worked for all of them."""


@contextmanager
def timed(part: str, sign: int = 1) -> Iterator[None]:
    """Add the time that a block takes to a part."""
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        yield
    finally:
        PARTS[part] = PARTS.get(part, 0) + sign * (time.perf_counter() - wall) * 1000
        PARTS["cpu"] = PARTS.get("cpu", 0) + sign * (time.process_time() - cpu) * 1000


def timed_import(name: str) -> None:
    with timed("imports"):
        importlib.import_module(name)


def time_the_listener(plain: bool) -> None:
    """Take the time of Milepost's listener, and of the task's code that it wraps."""
    from milepost.airflow import listener

    original = listener.on_task_instance_running

    def on_task_instance_running(task_instance: Any) -> None:
        with timed("listener"):
            if not plain:
                original(task_instance)
        inner = task_instance.task.execute

        @functools.wraps(inner)
        def execute(*args: Any, **kwargs: Any) -> Any:
            with timed("around"):
                return inner(*args, **kwargs)

        task_instance.task.__dict__["execute"] = execute

    on_task_instance_running.airflow_impl = original.airflow_impl  # type: ignore[attr-defined]
    listener.on_task_instance_running = on_task_instance_running


def make_dags() -> dict[str, Any]:
    try:
        from airflow.sdk import DAG, task
    except ImportError:
        from airflow import DAG
        from airflow.decorators import task
    begin = datetime(2026, 1, 1, tzinfo=timezone.utc)
    with DAG("idle", start_date=begin, schedule=None) as idle:

        @task(task_id="it")
        def nothing() -> None:
            pass

        nothing()
    with DAG("uses", start_date=begin, schedule=None) as uses:

        @task(task_id="it")
        def something(task_store: Any = None) -> None:
            with timed("first_set"), timed("around", -1):
                task_store.set("page", 1)
            with timed("later_set"), timed("around", -1):
                task_store.set("page", 2)

        something()
    with DAG("both", start_date=begin, schedule=None) as both:

        @task(task_id="it")
        def compares(task_store: Any = None, **context: Any) -> None:
            sides = {"ours": task_store, "native": context["task_state_store"]}
            times: dict[str, list[float]] = {name: [] for name in sides}
            for number in range(-10, 200):
                for name, store in sides.items():
                    start = time.perf_counter()
                    store.set(f"k{number % 20}", {"page": number, "status": "running"})
                    if number >= 0:
                        times[name].append((time.perf_counter() - start) * 1e6)
            PARTS.update({name: sorted(kept)[100] for name, kept in times.items()})

        compares()
    return {"idle": idle, "plain": idle, "uses": uses, "both": both}


def sample(file: Path, dag: Any) -> None:
    run = dag.test()
    assert str(run.state) == "success", run.state
    with file.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(PARTS) + "\n")


def main(file: Path, how: str, which: str, samples: int) -> None:
    """Measure."""
    plain = which == "plain"
    for name in ("importlib.abc", "logging"):  # Airflow loads them anyway
        importlib.import_module(name)
    if not plain:
        timed_import("milepost.airflow.policy")  # as Airflow does first of all
    for name in ("airflow.models", "airflow.plugins_manager"):
        importlib.import_module(name)
    if not plain:
        timed_import("milepost.airflow.plugin")
    time_the_listener(plain)
    dag = make_dags()[which]
    if how == "fresh":
        sample(file, dag)
        return
    PARTS.clear()  # that was the worker
    for _ in range(samples):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                sample(file, dag)
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
