"""The command around a run: its arguments, what it shows, what it leaves behind."""

from __future__ import annotations

import json
import os
import pty
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from milepost import TaskScope
from milepost.runner import run_file
from tests.integration.runner.helpers import HEAD, alive, wait_until


@pytest.mark.parametrize(
    ("args", "run_id", "code", "message"),
    [
        (["--clear", "nobody"], "r1", 2, "no task 'nobody'; it has: work"),
        (["--clear", "work"], None, 2, "name the run"),
        (["--clear", "work"], "unknown", 4, "no run d/unknown"),
        (["e"], "r1", 2, "no DAG 'e'; it has: d"),
        (["--workers", "0"], "r1", 2, "workers"),
        (["--url", "memory://"], "r1", 2, "memory://"),
    ],
)
def test_wrong_arguments(project, args, run_id, code, message):
    """Arguments that cannot be fulfilled exit with the documented code and one plain line (SPEC 10)."""
    project.write('with DAG("d"):\n    @task\n    def work(): pass\n    work()\n')
    outcome = project.run(*args, run_id=run_id)
    assert (outcome.code, outcome.out) == (code, "")
    assert message in outcome.err
    assert "Traceback" not in outcome.err


def test_file_that_does_not_load(project):
    """A file that does not load exits 2 with the name and the line, and records nothing (SPEC 11)."""
    path = project.write('\nwith DAG("d", schedul=None):\n    pass\n')
    outcome = project.run()
    assert outcome.code == 2
    assert f"{path}:{HEAD.count(chr(10)) + 2}: DAG has no argument 'schedul'" in outcome.err
    missing = project.run(name="gone.py")
    assert missing.code == 2
    assert "gone.py" in missing.err
    assert not (project.folder / "store.db").exists()


def test_several_dags(project):
    """Several DAGs and no DAG_ID: exit 2 and the list; with one, that one is run (SPEC 11)."""
    project.write(
        """
for name in ("d", "e"):
    with DAG(name):
        @task
        def work(dag_run):
            return dag_run.dag_id
        work()
"""
    )
    outcome = project.run()
    assert outcome.code == 2
    assert "2 DAGs; name one: d, e" in outcome.err
    assert project.run("d").code == 0
    assert project.result("work") == "d"


def test_run_collects_afterwards(project):
    """After a run one small collection removes what has expired (SPEC 8)."""
    project.write(
        """
from datetime import timedelta
with DAG("d"):
    @task
    def work(task_store):
        task_store.set("short", 1, retention=timedelta(microseconds=1))
        task_store.set("kept", 1)
    work()
"""
    )
    assert project.run().code == 0
    with project.store() as store:
        assert store.clean(dry_run=True).expired == 0
    assert project.keys("work") == {"kept": 1}


def test_progress_is_logged(project):
    """The key `progress` of a running task shows up in the log (SPEC 10)."""
    project.write(
        """
with DAG("d"):
    @task
    def work(task_store):
        task_store.set("progress", {"done": 1, "total": 4, "message": "rows"})
        while not os.path.exists("go"):
            time.sleep(0.01)
    work()
"""
    )
    runner = project.start()
    seen = []
    for line in runner.stderr:
        seen.append(line)
        if "progress" in line:
            break
    (project.folder / "go").touch()
    assert project.finish(runner).code == 0
    assert seen[-1].split(" ", 1)[1] == "work: progress 1/4 (25%) rows\n"


def test_reaper_ends_with_the_runner(project):
    """Nothing of the runner is left when it is done."""
    project.write(
        """
with DAG("d"):
    @task
    def work():
        return os.getppid()
    work()
"""
    )
    assert project.run().code == 0
    wait_until(lambda: not alive(project.result("work")), "the runner is gone")


def test_json_summary(project, capfd, monkeypatch):
    """With `as_json`, standard output is the summary as one JSON object and nothing else."""
    path = project.write(
        """
with DAG("d"):
    @task
    def work():
        print("chatter")
    work()
"""
    )
    monkeypatch.chdir(project.folder)
    assert run_file(path, run_id="r1", url=project.url, as_json=True) == 0
    captured = capfd.readouterr()
    found = json.loads(captured.out)
    seconds = found["tasks"][0].pop("seconds")
    assert found == {
        "dag_id": "d",
        "run_id": "r1",
        "state": "success",
        "tasks": [{"task_id": "work", "map_index": -1, "state": "success", "attempts": 1, "error": None}],
    }
    assert 0 < seconds < 60
    assert "chatter" in captured.err


def test_run_of_another_host_is_held_until_its_hold_ends(project):
    """A hold whose process cannot be looked at counts for as long as it lasts."""
    project.write('with DAG("d"):\n    @task\n    def work(): pass\n    work()\n')
    with project.store() as store:
        store.runs.begin("d", "r1", holder="elsewhere.example/1/2-3", ttl=3600)
    assert project.run().code == 5
    with project.store() as store:
        store.runs.release("d", "r1", "elsewhere.example/1/2-3")
        store.instances.open(TaskScope("d", "r1", "work"), 1)
    assert project.run().code == 0
    assert project.state("work") == ("success", 2)


def test_live_view_on_a_terminal(project):
    """On a terminal, running tasks are shown with their progress as a bar, below what happens (SPEC 11)."""
    project.write(
        """
with DAG("d"):
    @task
    def work(task_store):
        print("[bold]a :smile: line[/bold]")
        task_store.set("progress", {"done": 1, "total": 4, "message": "rows"})
        while not os.path.exists("go"):
            time.sleep(0.01)
    work()
"""
    )
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(project.folder)
        command = [sys.executable, "-m", "milepost", "run", "pipeline.py"]
        os.execve(sys.executable, command, {**project.environment, "TERM": "xterm", "COLUMNS": "100"})
    seen = b""
    try:
        while part := os.read(terminal, 65536):
            seen += part
            if b"1/4 (25%) rows" in seen:
                (project.folder / "go").touch()
    except OSError:  # how Linux tells that the other side is gone
        pass
    finally:
        os.close(terminal)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    text = seen.decode()
    assert code == 0, text
    assert "[bold]a :smile: line[/bold]" in text
    assert "━" in text
    assert "work  success  1" in text


def test_run_in_a_thread(project, capfd):
    """`run_file` works outside of the main thread, where Python hands out no signals."""
    path = project.write('with DAG("d"):\n    @task\n    def work(): pass\n    work()\n')
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(run_file, path, run_id="r1", url=project.url).result(60) == 0
    assert project.state("work") == ("success", 1)
    assert "success" in capfd.readouterr().out
