"""Forks with an open store: both sides go on, and nothing that either was told is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import milepost
from tests.fault.helpers import SCOPE, Child, results, url

SCENARIOS = {
    "both": {"before", "child", "parent", "after"},
    "parent_closes": {"before", "early", "late", "parent"},
    "parent_exits": {"before", "early", "late", "parent"},
    "child_closes": {"before", "parent-0", "parent-9"},
    "while_writing": {"fork-1-0", "fork-1-5", "fork-2-5"},
    "pool": {"worker-0", "worker-3", "parent"},
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_writes_of_parent_and_child_survive_a_fork(scenario: str, path: Path) -> None:
    """Whatever `set` acknowledged on either side of a fork is there when the file is opened again, whoever closed first."""
    lines = set(results("forks", scenario, path))
    assert {line.rpartition("-")[0] for line in lines} >= SCENARIOS[scenario]
    with milepost.connect(url(path)) as store:
        store.verify()
        assert lines - set(store.task_store(SCOPE).keys()) == set()


def test_a_fork_during_a_call_shuts_the_child_out(path: Path) -> None:
    """A child forked while a connection was in use gets `StoreClosedError`, for `connect` too, and the parent goes on."""
    assert results("forks", "inside_a_call", path) == ["before-0", "stuck", "after-0", "after-1", "after-2"]


def test_a_memory_store_refuses_in_a_forked_child(path: Path) -> None:
    """`memory://` belongs to one process: its fork gets `StoreClosedError`, the parent keeps everything."""
    results("forks", "memory", path)


def test_threads_that_fork_at_the_same_time_do_not_block_each_other(start: Callable[..., Child], path: Path) -> None:
    """Many forks from several threads at once end, in the parent as in the children."""
    assert start("forks", "many_forks", path).finish()[-1] == "done"
