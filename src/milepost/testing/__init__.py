"""Help for tests of code that uses the stores, and for tests of one's own backend.

With pytest, in ``conftest.py``::

    pytest_plugins = ["milepost.testing"]

and then::

    def test_load_resumes(task_context):
        context = task_context(task_id="load")
        with pytest.raises(ConnectionError):
            context.run(load, fail_at=10)  # your task, a function under @task
        again = context.retry()
        again.run(load)
        assert again["task_store"].get("page") == 20


    def test_a_lease_ends(milepost_store, milepost_clock):
        state = milepost_store.task_store(TaskScope("dag", "run", "task"))
        state.set("lease", "me", retention=timedelta(minutes=5))
        milepost_clock.advance(minutes=5)
        assert state.get("lease") is None

Everything happens in memory, and time stands still until a test moves it. Without pytest, `TaskContext` and `ManualClock`
do the same by hand. For backends see `BackendContract`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from milepost.clock import ManualClock
from milepost.scopes import TaskScope
from milepost.store import Store, connect
from milepost.testing.context import TaskContext
from milepost.testing.contract import BackendContract

__all__ = [
    "BackendContract",
    "ManualClock",
    "TaskContext",
    "milepost_clock",
    "milepost_store",
    "task_context",
]

F = TypeVar("F", bound=Callable[..., Any])


def _fixture(function: F) -> F:
    """Make a fixture of a function where pytest is installed, which Milepost itself does not need."""
    try:
        import pytest
    except ImportError:
        return function
    return pytest.fixture(function)  # type: ignore[return-value]


@_fixture
def milepost_clock() -> ManualClock:
    """The clock of `milepost_store`; it stands at 2026-01-01T00:00:00 UTC until the test moves it."""
    return ManualClock()


@_fixture
def milepost_store(milepost_clock: ManualClock) -> Iterator[Store]:
    """A store in memory on `milepost_clock`, empty, and closed after the test."""
    with connect("memory://", clock=milepost_clock) as store:
        yield store


@_fixture
def task_context(milepost_store: Store) -> Callable[..., TaskContext]:
    """A function that opens an attempt in `milepost_store` and returns its `TaskContext`.

    Example::

        context = task_context("dag", "run", "load", 3, inlets=[ORDERS], params={"until": "2026-01-31"})

    Its arguments: dag, run and task id (by default ``dag``, ``run``, ``task``), the map index (-1), and those of
    `TaskContext` by name.
    """

    def make(
        dag_id: str = "dag", run_id: str = "run", task_id: str = "task", map_index: int = -1, **given: Any
    ) -> TaskContext:
        return TaskContext(milepost_store, TaskScope(dag_id, run_id, task_id, map_index), **given)

    return make
