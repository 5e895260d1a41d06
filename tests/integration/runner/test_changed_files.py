"""A run goes on with a DAG file that was changed between its crash and its resume."""

from __future__ import annotations


def resume(project, before, after):
    """Run a file that fails, change it, and go on with the run."""
    project.write(before + "    @task\n    def last():\n        raise RuntimeError\n    last()\n")
    assert project.run().code == 1
    project.write(after)
    return project.run()


STORES = """
    @task
    def work(task_store, x="plain"):
        task_store.increment("n")
        return x
"""


def test_a_task_was_removed(project):
    """A task that is no longer in the file keeps what is recorded of it, does not run, and the runner says so."""
    outcome = resume(
        project,
        "with DAG('d'):" + STORES + "    work()\n",
        "with DAG('d'):\n    @task\n    def other():\n        return 'fine'\n    other()\n",
    )
    assert outcome.code == 0, outcome.err
    assert "no longer in the file, left as recorded: last, work" in outcome.err
    assert (project.state("work"), project.keys("work")) == (("success", 1), {"n": 1})
    assert project.result("other") == "fine"


def test_a_task_was_renamed(project):
    """A task under a new name is a new task: it runs from its beginning, with an empty store."""
    before = "with DAG('d'):" + STORES + "    work()\n"
    outcome = resume(project, before, before.replace("work", "renamed"))
    assert outcome.code == 0, outcome.err
    assert "no longer in the file, left as recorded: last, work" in outcome.err
    assert (project.keys("work"), project.keys("renamed")) == ({"n": 1}, {"n": 1})


def test_a_mapped_task_became_a_plain_one(project):
    """A task that is no longer mapped runs once with a store of its own; the state of its instances is left."""
    outcome = resume(
        project,
        "with DAG('d'):" + STORES + "    work.expand(x=['a', 'b'])\n",
        "with DAG('d'):" + STORES + "    work()\n",
    )
    assert outcome.code == 0, outcome.err
    assert "work: was mapped and is not mapped now; it starts empty" in outcome.err
    assert (project.state("work"), project.keys("work"), project.result("work")) == (("success", 1), {"n": 1}, "plain")
    assert [project.state("work", index) for index in range(2)] == [("success", 1)] * 2


def test_a_plain_task_became_a_mapped_one(project):
    """A task that is mapped now has instances with stores of their own; the state of the plain one is left."""
    outcome = resume(
        project,
        "with DAG('d'):" + STORES + "    work()\n",
        "with DAG('d'):" + STORES + "    work.expand(x=['a', 'b'])\n",
    )
    assert outcome.code == 0, outcome.err
    assert "work: was not mapped and is mapped now; it starts empty" in outcome.err
    assert [project.keys("work", index) for index in range(-1, 2)] == [{"n": 1}] * 3


def test_a_task_before_a_finished_one_was_added(project):
    """A new task runs, and a finished one behind it is not run again."""
    outcome = resume(
        project,
        "with DAG('d'):" + STORES + "    work()\n",
        "with DAG('d'):" + STORES + "    @task\n    def first():\n        return 1\n    first() >> work()\n",
    )
    assert outcome.code == 0, outcome.err
    assert (project.result("first"), project.keys("work")) == (1, {"n": 1})
