"""Attempts: killed, retried, timed out, cleared while they run; their processes end with them and with the runner."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from milepost import TaskScope
from tests.integration.runner.helpers import alive, wait_until


def test_killed_attempt_is_retried_with_its_state(project):
    """An attempt killed with SIGKILL has failed, and the next one finds what it had stored (SPEC 11)."""
    project.write(
        """
with DAG("d"):
    @task(retries=1)
    def work(task_store, ti):
        done = task_store.get("done", 0)
        for n in range(done, 5):
            task_store.set("done", n + 1)
            if ti.try_number == 1 and n == 2:
                os.kill(os.getpid(), signal.SIGKILL)
        return {"resumed at": done, "attempt": ti.try_number}
    work()
"""
    )
    outcome = project.run()
    assert outcome.code == 0, outcome.err
    assert project.result("work") == {"resumed at": 3, "attempt": 2}
    assert "work: up for retry" in outcome.err
    assert "killed by SIGKILL" in outcome.err


def test_killed_attempt_without_retries_has_failed(project):
    """A killed attempt that was the last is recorded as failed."""
    project.write(
        """
with DAG("d"):
    @task
    def work():
        os.kill(os.getpid(), signal.SIGKILL)
    work()
"""
    )
    assert project.run().code == 1
    assert project.state("work") == ("failed", 1)


def test_kill_after_the_record_of_success_is_success(project):
    """An attempt that had recorded its success when it was killed has succeeded."""
    project.write(
        """
import atexit
with DAG("d"):
    @task
    def work():
        atexit.register(lambda: os.kill(os.getpid(), signal.SIGKILL))
        return "done"
    work()
"""
    )
    assert project.run().code == 0
    assert (project.state("work"), project.result("work")) == (("success", 1), "done")


def test_state_outlives_failure(project):
    """S-15 (a): what a failed attempt had set, the retry reads."""
    project.write(
        """
with DAG("d"):
    @task(retries=1)
    def work(task_store, ti):
        if ti.try_number == 1:
            task_store.set("job", "j-1")
            raise RuntimeError("after set")
        return task_store.get("job")
    work()
"""
    )
    assert project.run().code == 0
    assert project.result("work") == "j-1"


def test_delete_outlives_failure_too(project):
    """S-15 (d): set in attempt 1, deleted in attempt 2, absent in attempt 3; a failing task rolls nothing back."""
    project.write(
        """
with DAG("d"):
    @task(retries=2)
    def work(task_store, ti):
        if ti.try_number == 1:
            task_store.set("job", "j-1")
            raise RuntimeError
        if ti.try_number == 2:
            task_store.delete("job")
            raise RuntimeError
        return task_store.get("job", "default")
    work()
"""
    )
    assert project.run().code == 0
    assert project.result("work") == "default"


def test_retry_delay_is_kept(project):
    """A retry starts no earlier than its delay after the failure, in seconds or as a timedelta."""
    project.write(
        """
from datetime import timedelta
with DAG("d"):
    @task(retries=1)
    def work(task_store, ti):
        if ti.try_number == 1:
            task_store.set("failed", time.time())
            raise RuntimeError
        return time.time() - task_store.get("failed")
    work.override(task_id="seconds", retry_delay=0.4)()
    work.override(task_id="delta", retry_delay=timedelta(seconds=0.4))()
"""
    )
    assert project.run("--workers", "2").code == 0
    assert min(project.result("seconds"), project.result("delta")) >= 0.4


def test_execution_timeout(project):
    """An attempt that runs over its time is stopped with all its processes, and counts as failed."""
    project.write(
        """
import subprocess
with DAG("d"):
    @task(retries=1, execution_timeout=0.3)
    def work(task_store, ti):
        if ti.try_number == 1:
            child = subprocess.Popen(["sleep", "600"])
            task_store.set("pids", [os.getpid(), child.pid])
            time.sleep(600)
        return "in time"
    work()
"""
    )
    outcome = project.run()
    assert (outcome.code, project.result("work")) == (0, "in time")
    assert "ran longer than its 0.3 s (execution_timeout)" in outcome.err
    for pid in project.keys("work")["pids"]:
        wait_until(lambda pid=pid: not alive(pid), "the processes of the attempt are gone")


def test_on_kill_runs_before_a_time_out_ends_the_attempt(project):
    """An operator may clean up in `on_kill` when its time is over."""
    project.write(
        """
class Op(BaseOperator):
    def execute(self, context):
        self.store = context["task_store"]
        time.sleep(600)
    def on_kill(self):
        self.store.set("cleaned", True)
with DAG("d"):
    Op(task_id="op", execution_timeout=0.2)
"""
    )
    assert project.run().code == 1
    assert (project.keys("op"), project.state("op")) == ({"cleaned": True}, ("failed", 1))


def test_attempts_die_with_the_runner(project):
    """When the runner is killed, running attempts and the processes they started end at once (SPEC 11)."""
    project.write(
        """
import subprocess
with DAG("d"):
    @task
    def work(task_store):
        child = subprocess.Popen(["sleep", "600"])
        task_store.set("pids", [os.getpid(), child.pid])
        sum(range(10**12))  # never lets another thread run
    work()
"""
    )
    runner = project.start()
    pids = project.wait_for_key("pids", "work")
    assert all(alive(pid) for pid in pids)
    runner.kill()
    for pid in pids:
        wait_until(lambda pid=pid: not alive(pid), "the processes of the attempt are gone")


def test_what_an_attempt_leaves_running_ends_with_it(project):
    """A process that a finished attempt left in its group is ended."""
    project.write(
        """
import subprocess
with DAG("d"):
    @task
    def work():
        return subprocess.Popen(["sleep", "600"]).pid
    work()
"""
    )
    assert project.run().code == 0
    wait_until(lambda: not alive(project.result("work")), "the left-over process is gone")


def test_attempt_cleared_while_it_runs_starts_over(project):
    """S-26: an attempt that a clear made stale cannot write, and a new one with an empty store takes its place."""
    project.write(
        """
with DAG("d"):
    @task
    def work(task_store, ti):
        before = task_store.get("n")
        task_store.set("n", ti.try_number)
        while ti.try_number == 1:
            time.sleep(0.01)
            task_store.get("gone")
        return before
    work()
"""
    )
    runner = project.start()
    project.wait_for_key("n", "work")
    with project.store() as store:
        store.instances.clear(TaskScope("d", "r1", "work"))
    outcome = project.finish(runner)
    assert outcome.code == 0, outcome.err
    assert (project.state("work"), project.result("work"), project.keys("work")) == (("success", 2), None, {"n": 2})
    assert "no longer current" in outcome.err


def test_signal_stops_attempts_and_leaves_the_run_resumable(project):
    """A signal to stop ends the attempts and the runner; the same command goes on at once, without a retry being used up."""
    project.write(
        """
with DAG("d"):
    @task
    def first():
        return "first"
    @task
    def work(x, task_store, ti):
        task_store.increment("attempts")
        while ti.try_number == 1:
            time.sleep(0.01)
        return [x, ti.try_number]
    work(first())
"""
    )
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        run_id = number.name
        runner = project.start(run_id=run_id)
        with project.store() as store:
            accessor = store.task_store(project.scope("work", run_id=run_id))
            wait_until(lambda accessor=accessor: accessor.get("attempts"), "work runs")
        os.kill(runner.pid, number)
        stopped = project.finish(runner)
        assert stopped.code == 128 + number, stopped.err
        assert project.state("work", run_id=run_id) == ("up_for_retry", 1)
        assert f"--run-id {run_id}" in stopped.err
        assert project.run(run_id=run_id).code == 0
        assert project.result("work", run_id=run_id) == ["first", 2]
        assert project.state("first", run_id=run_id) == ("success", 1)


def test_parallel_workers(project):
    """With --workers, independent tasks run at the same time: both must be there for either to end."""
    project.write(
        """
with DAG("d"):
    @task(execution_timeout=30)
    def meet(me, other):
        open(f"{me}.here", "w").close()
        while not os.path.exists(f"{other}.here"):
            time.sleep(0.01)
    meet("a", "b")
    meet("b", "a")
"""
    )
    assert project.run("--workers", "2").code == 0


def test_paused_attempt_does_not_hold_up_the_loop(project):
    """The runner does not burn processor time while it waits."""
    project.write(
        """
with DAG("d"):
    @task
    def work(task_store):
        task_store.set("here", 1)
        while not os.path.exists("go"):
            time.sleep(0.01)
    work()
"""
    )
    runner = project.start()
    project.wait_for_key("here", "work")

    def ticks() -> int:
        fields = Path(f"/proc/{runner.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    before, began = ticks(), time.monotonic()
    wait_until(lambda: time.monotonic() - began > 1, "a second has passed")
    used = (ticks() - before) / os.sysconf("SC_CLK_TCK")
    (project.folder / "go").touch()
    assert project.finish(runner).code == 0
    assert used < 0.2


def test_finished_task_cleared_in_mid_run_runs_again(project):
    """A finished task that somebody clears while the run goes on is run again before the run ends."""
    project.write(
        """
with DAG("d"):
    @task
    def first(ti):
        return ti.try_number
    @task
    def second(task_store):
        task_store.set("here", 1)
        while not os.path.exists("go"):
            time.sleep(0.01)
    first() >> second()
"""
    )
    runner = project.start()
    project.wait_for_key("here", "second")
    with project.store() as store:
        store.instances.clear(TaskScope("d", "r1", "first"))
    (project.folder / "go").touch()
    outcome = project.finish(runner)
    assert outcome.code == 0, outcome.err
    assert (project.result("first"), project.state("second")) == (2, ("success", 1))


def test_killed_reaper_is_replaced(project):
    """If the process that watches over attempts is killed, another one takes its place."""
    project.write(
        """
import subprocess
with DAG("d"):
    @task
    def first(task_store):
        found = subprocess.run(["pgrep", "-P", str(os.getppid()), "-f", "reaper.py"], capture_output=True, text=True)
        os.kill(int(found.stdout), signal.SIGKILL)
    @task
    def second(task_store):
        child = subprocess.Popen(["sleep", "600"])
        task_store.set("pids", [os.getpid(), child.pid])
        time.sleep(600)
    first() >> second()
"""
    )
    runner = project.start()
    pids = project.wait_for_key("pids", "second")
    runner.kill()
    for pid in pids:
        wait_until(lambda pid=pid: not alive(pid), "the processes of the attempt are gone")


def test_large_item_and_many_results(project):
    """Mapped arguments larger than a pipe's buffer arrive whole."""
    project.write(
        """
with DAG("d"):
    @task
    def produce():
        return ["x" * 3_000_000, "y"]
    @task
    def work(x):
        return len(x)
    work.expand(x=produce())
"""
    )
    assert project.run().code == 0
    assert [project.result("work", index) for index in (0, 1)] == [3_000_000, 1]


def test_a_process_that_the_task_forked_records_nothing(project):
    """Only the attempt itself records its end: a forked child that comes back from the task just leaves."""
    project.write(
        """
with DAG("d"):
    @task
    def work():
        if os.fork() == 0:
            raise SystemExit(3)
        os.wait()
        return 5
    work()
"""
    )
    outcome = project.run()
    assert outcome.code == 0, outcome.err
    assert (project.state("work"), project.result("work")) == (("success", 1), 5)


def test_what_a_task_leaves_behind_is_not_waited_for(project):
    """Threads, processes and exit functions that do not end are named and left; a pool that is idle ends by itself."""
    project.write(
        """
import atexit, multiprocessing, threading
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(2)
with DAG("d"):
    @task
    def threads():
        for name in ("poller", "flusher"):
            threading.Thread(target=threading.Event().wait, name=name).start()
        print("half a line", end="")
        return "done"
    @task
    def processes():
        multiprocessing.Process(target=signal.pause, name="helper").start()
        raise RuntimeError("no")
    @task
    def functions():
        atexit.register(signal.pause)
    @task
    def idle():
        pool.submit(int).result()
    threads(), processes(), functions(), idle()
"""
    )
    outcome = project.run("--workers", "4")
    assert outcome.code == 1, outcome.err
    assert (project.state("threads"), project.result("threads")) == (("success", 1), "done")
    assert [project.state(name) for name in ("processes", "functions")] == [("failed", 1), ("success", 1)]
    assert "[threads] half a line" in outcome.out
    left = [line for line in outcome.err.splitlines() if "left behind" in line]
    assert sorted(left) == [
        f"[{name}] the task has left behind: {what}; the process ends without waiting for it"
        for name, what in (
            ("functions", "a function registered with atexit"),
            ("processes", "process helper"),
            ("threads", "thread poller, thread flusher"),
        )
    ]


def test_a_file_that_is_half_written_when_an_attempt_starts(project):
    """An attempt whose DAG file does not load has failed, as any other: its retries follow, and its error is on record."""
    project.write(
        """
from pathlib import Path
half = Path("half-written")
if half.exists():
    half.unlink()
    raise OSError("half written")
with DAG("d"):
    @task
    def first():
        half.touch()
        return [1]
    @task(retries=1)
    def work(x, ti=None):
        return ti.try_number
    work.expand(x=first())
"""
    )
    outcome = project.run()
    assert outcome.code == 0, outcome.err
    assert (project.state("work", 0), project.result("work", 0)) == (("success", 2), 2)
    with project.store() as store:
        (failed,) = store.runs.outcomes("d", "r1")
    assert (failed.scope.task_id, failed.attempt, failed.state) == ("work", 1, "up_for_retry")
    assert failed.error == f"{project.folder / 'pipeline.py'}:8: OSError: half written"
