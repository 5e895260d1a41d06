"""`chain`."""

from __future__ import annotations

import pytest

from milepost.sdk import DAG, DagDefinitionError, TaskGroup, chain, task


@task
def step():
    """Do nothing."""


def build(make):
    """Return the tasks' neighbours above after `make` got six tasks."""
    with DAG("d") as made:
        make(*(step.override(task_id=name)() for name in "abcdef"))
    return {one.task_id: "".join(one.upstream_task_ids) for one in made.tasks if one.upstream_task_ids}


def test_chain_of_tasks():
    """`chain` puts each task before the next."""
    assert build(lambda a, b, c, *_: chain(a, b, c)) == {"b": "a", "c": "b"}


def test_chain_with_one_list():
    """A list between single tasks fans out and in again."""
    assert build(lambda a, b, c, d, *_: chain(a, [b, c], d)) == {"b": "a", "c": "a", "d": "bc"}


def test_chain_of_lists_goes_pair_by_pair():
    """Lists of one length in a row are linked pair by pair."""
    assert build(lambda a, b, c, d, e, f: chain([a, b], [c, d], [e, f])) == {"c": "a", "d": "b", "e": "c", "f": "d"}


def test_chain_of_unequal_lists_is_refused():
    """Lists of different lengths in a row have no pairs."""
    with pytest.raises(DagDefinitionError, match="lists of 2 and 1"):
        build(lambda a, b, c, *_: chain([a, b], [c]))


def test_chain_of_groups():
    """Groups take part in a chain."""

    def make(a, *_):
        with TaskGroup("g") as group:
            inner = step.override(task_id="inner")()
        chain(a, group, inner >> step.override(task_id="z")())

    assert build(make) == {"g.inner": "a", "z": "g.inner"}


def test_task_before_itself_is_refused():
    """A task cannot come before itself."""
    with pytest.raises(DagDefinitionError, match="before itself"):
        build(lambda a, *_: a >> a)
