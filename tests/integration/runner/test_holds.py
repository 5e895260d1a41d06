"""Who holds a run: runners that start at once, that are stopped, and that lose their hold."""

from __future__ import annotations

import os
import signal
from datetime import datetime, timezone

import pytest

from tests.integration.runner.helpers import alive, wait_until

HOLD = 0.6
"""Seconds that a hold lasts in these tests; long enough to be renewed on a busy machine, short enough to wait for."""

WAITS = """
with DAG("d"):
    @task
    def work(task_store, ti):
        task_store.set("pid", os.getpid())
        while not os.path.exists(f"go{ti.try_number}"):
            time.sleep(0.01)
        return ti.try_number
    work()
"""


def test_of_runners_that_start_at_once_one_wins(project):
    """Of several runners that start on one new run at once, exactly one drives it; the others exit with 5 (SPEC 11)."""
    project.write(WAITS)
    runners = [project.start() for _ in range(4)]
    project.wait_for_key("pid", "work")
    wait_until(lambda: sum(runner.poll() is not None for runner in runners) == 3, "three runners give up")
    (project.folder / "go1").touch()
    ended = [project.finish(runner) for runner in runners]
    assert sorted(outcome.code for outcome in ended) == [0, 5, 5, 5]
    assert project.state("work") == ("success", 1)


def test_of_runners_that_take_over_at_once_one_wins(project):
    """Of several runners that find the holder dead at once, exactly one goes on with the run."""
    project.write(WAITS)
    first = project.start()
    project.wait_for_key("pid", "work")
    first.kill()
    runners = [project.start() for _ in range(3)]
    wait_until(lambda: sum(runner.poll() is not None for runner in runners) == 2, "two runners give up")
    (project.folder / "go2").touch()
    assert sorted(project.finish(runner).code for runner in runners) == [0, 5, 5]
    assert project.state("work") == ("success", 2)


def test_a_runner_that_is_refused_has_cleared_nothing(project):
    """Of runners that clear one finished run at once, only the one that goes on with it has cleared (SPEC 4.2)."""
    project.write(WAITS)
    (project.folder / "go1").touch()
    assert project.run().code == 0
    runners = [project.start("--clear", "work") for _ in range(3)]
    wait_until(lambda: sum(runner.poll() is not None for runner in runners) == 2, "two runners give up")
    (project.folder / "go2").touch()
    assert sorted(project.finish(runner).code for runner in runners) == [0, 5, 5]
    assert project.state("work") == ("success", 2)


def everything(project):
    """Return all records of the run."""
    with project.store() as store:
        return store.runs.get("d", "r1"), store.instances.list("d", "r1"), project.keys("work")


@pytest.mark.parametrize("killed", [False, True], ids=["attempt lives", "attempt ended meanwhile"])
def test_a_runner_that_was_stopped_too_long_writes_nothing(project, killed):
    """A runner stopped beyond its hold, whose run another has taken, ends with 5, kills its attempts and writes nothing."""
    project.write(WAITS)
    first = project.start(hold=HOLD)
    pid = project.wait_for_key("pid", "work")
    os.kill(first.pid, signal.SIGSTOP)
    with project.store() as store:
        wait_until(lambda: store.runs.get("d", "r1").held_until < datetime.now(timezone.utc), "the hold ends")
    if killed:
        os.kill(pid, signal.SIGKILL)
    second = project.start()
    wait_until(lambda: project.state("work") == ("running", 2) and project.keys("work")["pid"] != pid, "another takes over")
    before = everything(project)
    os.kill(first.pid, signal.SIGCONT)
    outcome = project.finish(first)
    assert outcome.code == 5, outcome.err
    assert "d/r1 is no longer held by this runner" in outcome.err
    assert everything(project) == before
    assert not alive(pid)
    (project.folder / "go2").touch()
    assert project.finish(second).code == 0
    assert (project.state("work"), project.result("work")) == (("success", 2), 2)


def test_a_runner_that_was_stopped_and_not_replaced_goes_on(project):
    """A runner stopped beyond its hold goes on where nobody has taken its run."""
    project.write(WAITS)
    runner = project.start(hold=HOLD)
    project.wait_for_key("pid", "work")
    os.kill(runner.pid, signal.SIGSTOP)
    with project.store() as store:
        wait_until(lambda: store.runs.get("d", "r1").held_until < datetime.now(timezone.utc), "the hold ends")
    (project.folder / "go1").touch()
    os.kill(runner.pid, signal.SIGCONT)
    outcome = project.finish(runner)
    assert outcome.code == 0, outcome.err
    assert project.state("work") == ("success", 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_between_attempts_stops_the_run(project, number):
    """A signal while the runner waits for the next attempt stops it at once; the run goes on where it was."""
    project.write("""
with DAG("d"):
    @task(retries=1, retry_delay=3600)
    def work(ti):
        if ti.try_number == 1:
            raise RuntimeError
    work()
""")
    runner = project.start()
    wait_until(lambda: project.state("work") == ("up_for_retry", 1), "the first attempt fails")
    os.kill(runner.pid, number)
    stopped = project.finish(runner)
    assert stopped.code == 128 + number, stopped.err
    assert project.run().code == 0
    assert project.state("work") == ("success", 2)
