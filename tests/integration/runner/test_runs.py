"""Runs: resumed, refused, repeated, cleared; mapped tasks; what the command line answers."""

from __future__ import annotations

import sqlite3

COUNTED = """
def note(what):
    with open("ran.jsonl", "a") as file:
        file.write(json.dumps(what) + "\\n")
"""


def test_killed_runner_resumes(project):
    """After the runner was killed the same command goes on: finished tasks do not run again, results are there (SPEC 11)."""
    project.write(
        COUNTED
        + """
with DAG("d"):
    @task
    def first():
        note("first")
        return {"n": (1, 2)}
    @task
    def work(x, task_store, ti):
        note(["work", ti.try_number])
        task_store.set("step", task_store.get("step", 0) + 1)
        while ti.try_number == 1:
            time.sleep(0.01)
        return [x, task_store.get("step")]
    work(first())
"""
    )
    runner = project.start()
    project.wait_for_key("step", "work")
    runner.kill()
    outcome = project.run()
    assert outcome.code == 0, outcome.err
    assert project.lines("ran.jsonl") == ["first", ["work", 1], ["work", 2]]
    assert project.result("work") == [{"n": (1, 2)}, 2]


def test_failed_run_gets_a_fresh_budget(project):
    """A failed run goes on with new retries, and attempt numbers continue (SPEC 11)."""
    project.write(
        COUNTED
        + """
with DAG("d"):
    @task(retries=1)
    def work(ti):
        note(ti.try_number)
        if ti.try_number < 4:
            raise RuntimeError
    work()
"""
    )
    assert project.run().code == 1
    assert project.state("work") == ("failed", 2)
    assert project.run().code == 0
    assert (project.lines("ran.jsonl"), project.state("work")) == ([1, 2, 3, 4], ("success", 4))


def test_succeeded_run_says_so(project):
    """A run that has succeeded is not run again: it says so and exits 0 (SPEC 11)."""
    project.write(
        COUNTED
        + """
with DAG("d"):
    @task
    def work():
        note("ran")
    work()
"""
    )
    assert project.run().code == 0
    again = project.run()
    assert (again.code, project.lines("ran.jsonl")) == (0, ["ran"])
    assert "has already succeeded" in again.err
    assert "run r1 of DAG d: success" in again.out


def test_second_runner_is_refused(project):
    """While a runner lives, another one on the same run is refused with exit code 5; other runs are free (SPEC 11)."""
    project.write(
        """
with DAG("d"):
    @task
    def work(task_store, run_id):
        task_store.set("here", 1)
        while run_id == "r1" and not os.path.exists("go"):
            time.sleep(0.01)
    work()
"""
    )
    runner = project.start()
    project.wait_for_key("here", "work")
    refused = project.run()
    assert (refused.code, refused.out) == (5, "")
    assert "d/r1 is held by another runner" in refused.err
    assert project.run(run_id="r2").code == 0
    (project.folder / "go").touch()
    assert project.finish(runner).code == 0


def test_run_id_is_made_up(project):
    """Without --run-id a new run is made each time, named after the time."""
    project.write(
        """
with DAG("d"):
    @task
    def work():
        pass
    work()
"""
    )
    assert [project.run(run_id=None).code for _ in range(2)] == [0, 0]
    with project.store() as store:
        names = [run.run_id for run in store.runs.list("d")]
    assert len(set(names)) == 2
    assert all(name.startswith("manual__") and name.endswith("+00:00") for name in names)


def test_params_stay_those_of_the_first_start(project):
    """A resumed run keeps its params and its logical date; other params are refused."""
    project.write(
        """
with DAG("d", params={"p": 1}):
    @task
    def work(params, logical_date, task_store):
        seen = task_store.set_default("seen", [params, logical_date.isoformat()])
        assert seen == [params, logical_date.isoformat()]
        if not os.path.exists("go"):
            raise RuntimeError
        return params
    work()
"""
    )
    assert project.run("--params", '{"p": 2}').code == 1
    (project.folder / "go").touch()
    refused = project.run("--params", '{"p": 3}')
    assert refused.code == 2
    assert 'was started with the params {"p":2}, and --params asks for {"p":3}' in refused.err
    assert project.run().code == 0
    assert project.result("work") == {"p": 2}


def test_one_failing_index(project):
    """One failed index of a mapped task leaves the others' results and keys alone, and only it is run again."""
    project.write(
        COUNTED
        + """
with DAG("d"):
    @task
    def items():
        return [10, 20, 30]
    @task(retries=1)
    def work(x, task_store, map_index, ti):
        note([map_index, ti.try_number])
        task_store.set("item", x)
        if x == 20 and not os.path.exists("go"):
            raise RuntimeError("twenty")
        return x + 1
    @task
    def total(xs):
        return xs
    total(work.expand(x=items()))
"""
    )
    outcome = project.run("--workers", "2")
    assert outcome.code == 1
    assert [project.state("work", index) for index in range(3)] == [("success", 1), ("failed", 2), ("success", 1)]
    assert "total: upstream failed" in outcome.err
    (project.folder / "go").touch()
    assert project.run().code == 0
    assert project.result("total") == [11, 21, 31]
    assert sorted(project.lines("ran.jsonl")) == [[0, 1], [1, 1], [1, 2], [1, 3], [2, 1]]
    assert [project.keys("work", index) for index in range(3)] == [{"item": 10}, {"item": 20}, {"item": 30}]


def test_missing_results_of_failed_indices(project):
    """A task that may run after failures gets the results of the successful indices, in order."""
    project.write(
        """
with DAG("d"):
    @task
    def work(x):
        if x == 2:
            raise RuntimeError
        return x
    @task(trigger_rule="all_done")
    def total(xs):
        return xs
    total(work.expand(x=[3, 2, 1]))
"""
    )
    assert project.run().code == 0
    assert project.result("total") == [3, 1]


def test_mapping_over_what_is_no_list_fails(project):
    """A task that was to be mapped over a number has failed, with the line where it is mapped."""
    project.write(
        """
with DAG("d"):
    @task
    def number():
        return 3
    @task
    def work(x):
        pass
    work.expand(x=number())
"""
    )
    outcome = project.run()
    assert outcome.code == 1
    assert "pipeline.py:11: cannot be expanded" in outcome.err
    assert "is of type int; a task is mapped over a list or a dict" in outcome.err


def test_mapping_over_objects_that_no_codec_holds(project):
    """Literal lists may hold anything: attempts take such items from the file themselves."""
    project.write(
        """
with DAG("d"):
    @task
    def one():
        return 1
    @task
    @options(map_key=lambda item: item["f"].__name__)
    def work(f, x, n):
        return [f(x), n]
    def double(x):
        return 2 * x
    def square(x):
        return x * x
    work.partial(n=one()).expand(f=[double, square], x=[3, one()])
    @task
    def rows(f, x):
        return f(x)
    rows.expand_kwargs([{"f": double, "x": 5}, {"f": square, "x": one()}])
"""
    )
    outcome = project.run()
    assert outcome.code == 0, outcome.err
    assert [project.result("work", index) for index in range(4)] == [[6, 1], [2, 1], [9, 1], [1, 1]]
    assert [project.result("rows", index) for index in range(2)] == [10, 1]
    assert project.record("work", 0).item_name == "double"


def test_changed_list_starts_empty(project):
    """S-22: after a clear with a recomputed list, no position is handed the state of another item."""
    project.write(
        """
with DAG("d"):
    @task
    def items():
        return json.load(open("items.json"))
    @task(retries=1)
    def work(x, task_store, ti):
        before = task_store.get("item")
        task_store.set("item", x)
        if x == "b" and ti.try_number == 1:
            raise RuntimeError("a plain retry")
        return before
    work.expand(x=items())
"""
    )
    items = project.folder / "items.json"
    items.write_text('["a", "b", "c"]')
    assert project.run().code == 0
    # A plain retry keeps its state.
    assert [project.result("work", index) for index in range(3)] == [None, "b", None]

    # Cleared with the state kept: a position that holds another item starts empty all the same.
    items.write_text('["z", "b", "c", "d"]')
    outcome = project.run("--clear", "items", "--clear", "work", "--keep-state")
    assert outcome.code == 0, outcome.err
    assert [project.result("work", index) for index in range(4)] == [None, "b", "c", None]
    assert "now stands for another item" in outcome.err

    # Cleared without: every position starts empty. The list shrinks, and index 2 and 3 are reached by nobody.
    items.write_text('["z", "b"]')
    assert project.run("--clear", "items", "--clear", "work").code == 0
    assert [project.result("work", index) for index in range(4)] == [None, None, None, None]
    assert [project.keys("work", index) for index in range(4)] == [{"item": "z"}, {"item": "b"}, {}, {}]


def test_clear_all_map_indices_reaches_siblings_only_on_demand(project):
    """S-23: a running task changes nothing of its siblings, except through `clear(all_map_indices=True)`."""
    project.write(
        """
with DAG("d"):
    @task
    def work(x, task_store):
        task_store.set("k", x)
        if x == 5:
            task_store.clear()
        if x == 11:
            task_store.clear(all_map_indices=True)
            task_store.set("last", x)
    @task
    def other(task_store):
        task_store.set("k", "other")
    other() >> work.expand(x=list(range(int(os.environ["COUNT"]))))
"""
    )
    project.environment["COUNT"] = "8"
    assert project.run(run_id="r1").code == 0
    assert [project.keys("work", index) for index in range(8)] == [{"k": x} if x != 5 else {} for x in range(8)]
    project.environment["COUNT"] = "12"
    assert project.run(run_id="r2").code == 0
    assert [project.keys("work", index, run_id="r2") for index in range(12)] == [{}] * 11 + [{"last": 11}]
    assert project.keys("other", run_id="r2") == {"k": "other"}
    assert project.keys("work", 0, run_id="r1") == {"k": 0}


def test_clear_runs_a_task_again(project):
    """`--clear` starts the named tasks of a finished run over, with empty stores, and no others."""
    project.write(
        COUNTED
        + """
with DAG("d"):
    @task
    def first():
        note("first")
        return 1
    @task
    def second(x, task_store, ti):
        note("second")
        return [task_store.set_default("attempt", ti.try_number), ti.try_number]
    second(first())
"""
    )
    assert project.run().code == 0
    assert project.run("--clear", "second").code == 0
    assert project.result("second") == [2, 2]
    assert project.run("--clear", "second", "--keep-state").code == 0
    assert project.result("second") == [2, 3]
    assert project.lines("ran.jsonl") == ["first", "second", "second", "second"]


def test_file_that_breaks_while_it_runs(project):
    """An attempt that finds a file that no longer loads is recorded as failed; a later one may succeed."""
    path = project.write(
        """
with DAG("d"):
    @task
    def first():
        broken = open(__file__).read() + "\\nundefined_name\\n"
        os.rename(__file__, "good.py")
        open(__file__, "w").write(broken)
    @task(retries=1, retry_delay=0.1)
    def second(ti):
        return ti.try_number
    first() >> second()
"""
    )
    outcome = project.run()
    assert outcome.code == 1
    assert f"{path}:" in outcome.err
    assert "NameError" in outcome.err
    assert project.state("second") == ("failed", 2)
    (project.folder / "good.py").rename(path)
    path.write_text(
        path.read_text().replace("os.rename", "0 and os.rename").replace("open(__file__,", "0 and open(__file__,")
    )
    assert project.run().code == 0
    assert (project.state("second"), project.result("second")) == (("success", 3), 3)


def test_map_key_that_raises(project):
    """A map_key that raises fails the attempts of its task, and the run goes on to its end."""
    project.write(
        """
with DAG("d"):
    @task
    @options(map_key=lambda item: item["x"].nothing)
    def work(x):
        pass
    @task
    def other():
        return 1
    work.expand(x=[1])
    other()
"""
    )
    outcome = project.run()
    assert outcome.code == 1
    assert "AttributeError: 'int' object has no attribute 'nothing'" in outcome.err
    assert (project.state("work", 0), project.result("other")) == (None, 1)


def test_a_damaged_record_stops_the_run(project):
    """A run with a damaged record is refused with one line that names it (SPEC 3); it can be deleted."""
    project.write("""
with DAG("d"):
    @task
    def work():
        pass
    work()
""")
    for run_id in ("r1", "r2"):
        assert project.run(run_id=run_id).code == 0
    with sqlite3.connect(project.folder / "store.db") as connection:
        connection.execute(
            "UPDATE instances SET state = 'lost' WHERE run = (SELECT id FROM runs WHERE run_id = 'r1')",
        )
    connection.close()
    refused = project.run("--clear", "work")
    assert (refused.code, refused.err.count("\n")) == (6, 1)
    assert "the record of d/r1/work is damaged (state " in refused.err
    assert project.run("--clear", "work", run_id="r2").code == 0
    with project.store() as store:
        assert store.instances.delete_run("d", "r1") == 1
    assert project.run().code == 0
