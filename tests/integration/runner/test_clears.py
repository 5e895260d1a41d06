"""Clears by somebody else while a run goes on."""

from __future__ import annotations

import pytest

CHAIN = """
with DAG("d"):
    @task
    def z_first(ti):
        return ti.try_number
    @task
    def hold(task_store):
        task_store.set("here", 1)
        while not os.path.exists("go"):
            time.sleep(0.01)
    @task
    def last(x):
        return x
    @task
    def items(ti):
        return ["a", "b"] if ti.try_number == 1 else ["z", "a", "b"]
    @task
    def each(item, task_store):
        if task_store.set_default("item", item) != item:
            raise RuntimeError(f"{item} got the state of another item")
        return item
    first, listed = z_first(), items()
    mapped = each.expand(item=listed)
    mapped >> hold() >> last(first)
"""


@pytest.mark.parametrize("workers", ["1", "4"])
def test_a_whole_run_is_cleared_while_it_goes_on(project, workers):
    """S-22: cleared tasks start over in their order, with new results, and mapped ones with the new list."""
    project.write(CHAIN)
    runner = project.start("--workers", workers)
    project.wait_for_key("here", "hold")
    with project.store() as store:
        store.instances.clear_run("d", "r1")
    (project.folder / "go").touch()
    outcome = project.finish(runner)
    assert outcome.code == 0, outcome.err
    assert project.result("last") == 2
    assert [project.result("each", index) for index in range(3)] == ["z", "a", "b"]
    assert [project.keys("each", index) for index in range(3)] == [{"item": "z"}, {"item": "a"}, {"item": "b"}]


def test_a_result_that_was_cleared_is_waited_for(project):
    """A task whose source was cleared before it started waits for the new result; it never gets nothing in its place."""
    project.write(CHAIN)
    runner = project.start()
    project.wait_for_key("here", "hold")
    with project.store() as store:
        store.instances.clear(project.scope("z_first"))
    (project.folder / "go").touch()
    outcome = project.finish(runner)
    assert outcome.code == 0, outcome.err
    assert (project.result("last"), project.state("last")) == (2, ("success", 1))
    assert project.state("hold") == ("success", 1)


def test_only_the_list_is_cleared_while_the_run_goes_on(project):
    """S-22: a list that is cleared in mid-run is computed anew, and positions that hold other items start over."""
    project.write(CHAIN)
    runner = project.start()
    project.wait_for_key("here", "hold")
    with project.store() as store:
        store.instances.clear(project.scope("items"))
    (project.folder / "go").touch()
    outcome = project.finish(runner)
    assert outcome.code == 0, outcome.err
    assert [project.keys("each", index) for index in range(3)] == [{"item": "z"}, {"item": "a"}, {"item": "b"}]
    assert project.state("hold") == ("success", 1)
