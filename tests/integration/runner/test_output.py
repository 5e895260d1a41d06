"""Output that nobody takes, and what a failing task shows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Require
from tests.integration.runner.helpers import DEADLINE, Project, wait_until

CHATTY = """
print("the file itself prints, too")

with DAG("d"):
    @task
    def first():
        for n in range(2000):
            print("line", n)

    @task
    def second(): print("x" * 100_000)

    first() >> second()
"""


def closed(project: Project, *args: str, both: bool) -> int:
    """Run the file with a reader that takes one byte and goes; the exit code."""
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "milepost", "run", "pipeline.py", "--run-id", "r1", *args],
        cwd=project.folder,
        env=project.environment,
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=writing if both else subprocess.DEVNULL,
    )
    os.close(writing)
    os.read(reading, 1)
    os.close(reading)
    return process.wait(timeout=DEADLINE)


@pytest.mark.parametrize("both", [False, True], ids=["stdout", "stdout and stderr"])
def test_a_closed_pipe_ends_the_output_and_not_the_run(project: Project, both: bool) -> None:
    """`milepost run … | head`: the run goes on to its end, which is recorded, and its exit code is that of the run."""
    project.write(CHATTY)
    assert closed(project, both=both) == 0
    assert (project.state("first"), project.state("second")) == (("success", 1), ("success", 1))
    assert closed(project, "--json", both=both) == 0


def test_a_full_disk_ends_the_output_and_not_the_run(project: Project, require: Require) -> None:
    """A run whose output cannot be written goes on to its end."""
    require("/dev/full", Path("/dev/full").exists())
    project.write(CHATTY)
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "milepost", "run", "pipeline.py", "--run-id", "r1"]
        done = subprocess.run(
            command, cwd=project.folder, env=project.environment, stdout=full, stderr=subprocess.DEVNULL, timeout=DEADLINE
        )
    assert (done.returncode, project.state("second")) == (0, ("success", 1))


def test_a_terminal_that_goes_away(project: Project) -> None:
    """A run goes on when the terminal that shows it is closed, as long as no signal says otherwise."""
    pty = pytest.importorskip("pty")
    project.write(
        "with DAG('d'):\n"
        "    @task\n"
        "    def waits():\n"
        "        print('here')\n"
        "        while not os.path.exists('gone'): time.sleep(0.01)\n"
        "        print('after', flush=True)\n"
        "    waits()\n"
    )
    outer, inner = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "milepost", "run", "pipeline.py", "--run-id", "r1"],
        cwd=project.folder,
        env={**project.environment, "TERM": "xterm", "PYTHONWARNINGS": ""},
        stdin=subprocess.DEVNULL,
        stdout=inner,
        stderr=inner,
        start_new_session=True,
    )
    os.close(inner)
    drawn = bytearray()

    def here() -> bool:
        drawn.extend(os.read(outer, 4096))
        return b"here" in drawn

    try:
        wait_until(here, "the task prints")
        os.close(outer)
        (project.folder / "gone").touch()
        assert process.wait(timeout=DEADLINE) == 0
    finally:
        process.kill()
    assert project.state("waits") == ("success", 1)


def test_what_a_failing_task_shows(project: Project) -> None:
    """The traceback names the map index and begins in the user's code, for causes too; a wrong call shows none at all."""
    project.write(
        "with DAG('d'):\n"
        "    @task\n"
        "    def each(x):\n"
        "        try:\n"
        "            int('no')\n"
        "        except ValueError as error:\n"
        "            raise RuntimeError('bad item') from error\n"
        "    each.expand(x=[1, 2])\n"
        "    @task\n"
        "    def odd(): return object()\n"
        "    odd()\n"
    )
    said = project.run().err
    assert "task each[1], attempt 1:" in said
    assert "RuntimeError: bad item" in said
    assert "task odd, attempt 1:\n[odd] TypeError: " in said
    package = str(Path(sys.modules["milepost"].__file__ or "").parent)
    assert package not in said
    project.environment = project.environment | {"MILEPOST_DEBUG": "1"}
    assert package in project.run(run_id="r2").err
    (project.folder / "pipeline.py").write_text("1 / 0\n")
    assert "Traceback" in project.run().err


def test_a_file_without_tasks(project: Project) -> None:
    """2: a DAG without tasks is named with its place; nothing is recorded."""
    project.write("DAG('empty')\n")
    done = project.run()
    assert (done.code, "pipeline.py:3: DAG 'empty' has no tasks" in done.err) == (2, True)
    assert not (project.folder / "store.db").exists()


@pytest.mark.parametrize("option", ["--keep-state", "--downstream"])
def test_options_of_a_clear_need_one(project: Project, option: str) -> None:
    """2: what says how to clear is refused where nothing is to be cleared."""
    project.write(CHATTY)
    done = project.run(option)
    assert (done.code, "name a task with --clear" in done.err) == (2, True)


CHAIN = """
with DAG("d"):
    @task
    def a(task_store=None): task_store.increment("n")
    @task
    def b(task_store=None): task_store.increment("n")
    @task
    def c(task_store=None): task_store.increment("n")
    @task
    def other(): pass
    a() >> b() >> c()
    other()
"""


def test_tasks_after_a_cleared_one(project: Project) -> None:
    """A clear names the finished tasks that come after and stay as they are; with --downstream they are cleared, too."""
    project.write(CHAIN)
    project.run()
    said = project.run("--clear", "a").err
    assert "finished tasks after these are not run again: b, c; --downstream" in said
    assert [project.state(name) for name in ("a", "b", "c", "other")] == [("success", n) for n in (2, 1, 1, 1)]
    said = project.run("--clear", "b", "--downstream", "--keep-state").err
    assert "not run again" not in said
    assert [project.state(name) for name in ("a", "b", "c", "other")] == [("success", n) for n in (2, 2, 2, 1)]
    assert project.keys("c") == {"n": 2}
