"""Mapped tasks whose list is computed anew while their own instances are not cleared (S-22)."""

from __future__ import annotations

import json

import pytest

CHECKED = """
with DAG("d"):
    @task
    def items():
        return json.load(open("items.json"))
    @task(retries=1)
    def work(item, task_store):
        with open("ran.jsonl", "a") as file:
            file.write(json.dumps(item) + "\\n")
        if task_store.set_default("item", item) != item:
            raise RuntimeError(f"{item} got the state of another item")
        return item
    work.expand(item=items())
"""


def give(project, items):
    """Write the list that the task ``items`` returns."""
    (project.folder / "items.json").write_text(json.dumps(items))


def stored(project, count):
    """Return the item that each position has stored."""
    return [project.keys("work", index).get("item") for index in range(count)]


def test_s22_only_the_producer_is_cleared(project):
    """S-22: positions that hold other items start over, the others keep their state and do not run again."""
    project.write(CHECKED)
    give(project, ["a", "b", "c"])
    assert project.run().code == 0
    give(project, ["a", "z", "c", "d"])
    outcome = project.run("--clear", "items")
    assert outcome.code == 0, outcome.err
    assert "d/r1/work[1] now stands for another item: it starts over, 1 key of the earlier one was set aside" in outcome.err
    assert project.lines("ran.jsonl") == ["a", "b", "c", "z", "d"]
    assert stored(project, 4) == ["a", "z", "c", "d"]
    assert [project.state("work", index) for index in range(4)] == [
        ("success", 1),
        ("success", 2),
        ("success", 1),
        ("success", 1),
    ]


def test_s22_the_list_shifts(project):
    """S-22: a new first item makes every position another one; none is handed the state of the item before it."""
    project.write(CHECKED)
    give(project, ["a", "b", "c"])
    assert project.run().code == 0
    give(project, ["z", "a", "b", "c"])
    outcome = project.run("--clear", "items")
    assert outcome.code == 0, outcome.err
    assert stored(project, 4) == ["z", "a", "b", "c"]


def test_s22_the_list_shrinks(project):
    """S-22: a list that shrinks to two leaves no reachable state for index 2; it can be restored."""
    project.write(CHECKED)
    give(project, ["a", "b", "c"])
    assert project.run().code == 0
    give(project, ["a", "b"])
    outcome = project.run("--clear", "items")
    assert outcome.code == 0, outcome.err
    assert "d/r1/work[2] now has no item any more" in outcome.err
    assert stored(project, 3) == ["a", "b", None]
    assert (project.state("work", 2), project.result("work", 2)) == (("cleared", 1), None)
    with project.store() as store:
        assert [archive.keys for archive in store.instances.archives(project.scope("work", 2))] == [("item",)]
    give(project, [])
    assert project.run("--clear", "items").code == 0
    assert stored(project, 3) == [None, None, None]


def test_s22_a_producer_that_succeeds_on_resume_shifts_positions(project):
    """S-22: results of a mapped producer move up when a failed one among them succeeds later; state stays with its item."""
    project.write("""
with DAG("d"):
    @task
    def produce(n):
        if n == 0 and not os.path.exists("fine"):
            raise RuntimeError("not yet")
        return f"item {n}"
    @task(trigger_rule="all_done")
    def work(item, task_store):
        if task_store.set_default("item", item) != item:
            raise RuntimeError(f"{item} got the state of another item")
        if item == "item 2" and not os.path.exists("fine"):
            raise RuntimeError("fails and leaves a checkpoint")
    work.expand(item=produce.expand(n=[0, 1, 2]))
""")
    assert project.run().code == 1
    assert stored(project, 3) == ["item 1", "item 2", None]
    (project.folder / "fine").touch()
    outcome = project.run()
    assert outcome.code == 0, outcome.err
    assert stored(project, 3) == ["item 0", "item 1", "item 2"]


def test_s22_kept_state_of_another_item_is_set_aside(project):
    """S-22: `--keep-state` keeps the state of items that stay, never that of an item which moved."""
    project.write(CHECKED)
    give(project, ["a", "b"])
    assert project.run().code == 0
    give(project, ["a", "z"])
    outcome = project.run("--clear", "items", "--clear", "work", "--keep-state")
    assert outcome.code == 0, outcome.err
    assert stored(project, 2) == ["a", "z"]
    with project.store() as store:
        assert [a.cause for a in store.instances.archives(project.scope("work", 0))] == []
        assert [a.cause for a in store.instances.archives(project.scope("work", 1))] == ["item_changed"]


UNSTABLE = """
with DAG("d"):
    @task
    @options(map_key=lambda mapped: time.time())
    def work(item, task_store):
        task_store.set("n", task_store.get("n", 0) + 1)
        while task_store.get("n") == 1:
            time.sleep(0.01)  # until it is killed
    work.expand(item=["a"])
"""


def test_s22_retries_of_one_expansion_are_never_compared(project):
    """S-22: after a killed runner the same list is not compared, however odd the key of its items."""
    project.write(UNSTABLE)
    runner = project.start()
    project.wait_for_key("n", "work", 0)
    runner.kill()
    outcome = project.run()
    assert outcome.code == 0, outcome.err
    assert project.keys("work", 0) == {"n": 2}


@pytest.mark.parametrize("at", [1, 2])
def test_s22_runner_killed_while_it_compares(project, at):
    """S-22: a runner killed between the new list and the comparison leaves it to the next one."""
    project.write(
        CHECKED.replace(
            "    @task(retries=1)\n",
            f"""
    compared = []
    def key(mapped):
        compared.append(mapped)
        if len(compared) == {at} and os.path.exists("trap"):
            os.remove("trap")
            os.kill(os.getpid(), signal.SIGKILL)
        return mapped["item"]
    @task(retries=1)
    @options(map_key=key)
""",
        )
    )
    give(project, ["a", "b", "c"])
    assert project.run().code == 0
    give(project, ["z", "a"])
    (project.folder / "trap").touch()
    assert project.run("--clear", "items").code == -9
    assert project.state("items") == ("success", 2)
    outcome = project.run()
    assert outcome.code == 0, outcome.err
    assert stored(project, 3) == ["z", "a", None]


def test_list_in_the_file_is_edited(project):
    """S-22: a list that was edited in the file between two starts of a run is compared as well."""
    project.write("""
with DAG("d"):
    @task
    def work(item, task_store):
        task_store.set("item", item)
        if item == "b" and os.path.exists("bad"):
            raise RuntimeError
    work.expand(item=json.load(open("items.json")))
""")
    give(project, ["a", "b"])
    (project.folder / "bad").touch()
    assert project.run().code == 1
    (project.folder / "bad").unlink()
    give(project, ["b", "a"])
    outcome = project.run()
    assert outcome.code == 0, outcome.err
    assert stored(project, 2) == ["b", "a"]
    assert outcome.err.count("now stands for another item") == 2
