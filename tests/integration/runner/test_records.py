"""What a run leaves on record for people: errors, tasks that were not started, a runner that is gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.integration.runner.helpers import DEADLINE, Outcome, Project

FAILS = """
with DAG("d"):
    @task(retries=1, retry_delay=0)
    def bad(ti=None):
        if ti.try_number == 1:
            raise ValueError("first\\nline")
        os.kill(os.getpid(), signal.SIGKILL)

    @task
    def after(): pass

    @task
    def each(x): pass

    @task
    def number(): return 7

    bad() >> after()
    each.expand(x=number())
"""

WAITS = """
with DAG("d"):
    @task
    def waits(task_store=None):
        task_store.set("k", 1)
        time.sleep(600)
    waits()
"""


def cli(project: Project, *args: str) -> Outcome:
    """Run another command than ``run``."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("milepost")), *args],
        cwd=project.folder,
        env=project.environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def shown(project: Project) -> Any:
    """Return `runs show --json`."""
    return json.loads(cli(project, "runs", "show", "d", "r1", "--json").out)


def test_a_failed_run_keeps_why(project: Project) -> None:
    """`runs show` has the error of every failed attempt, and the tasks that never started with what became of them."""
    project.write(FAILS)
    assert project.run("--params", '{"a": [1]}').code == 1
    data = shown(project)
    assert data["run"]["params"] == {"a": [1]}
    found = [(one["scope"]["task_id"], one["attempt"], one["state"], one["error"]) for one in data["outcomes"]]
    assert found[0] == ("after", 0, "upstream_failed", None)
    assert found[1:3] == [
        ("bad", 1, "up_for_retry", "ValueError: first line"),
        ("bad", 2, "failed", "killed by SIGKILL"),
    ]
    assert found[3][:3] == ("each", 0, "failed")
    assert "cannot be expanded" in found[3][3]
    text = cli(project, "runs", "show", "d", "r1").out
    assert "upstream_failed (not started)" in text
    assert "ValueError: first line" in text


def test_a_cleared_run_is_called_so(project: Project) -> None:
    """A run that was driven and then cleared is not one that no runner has driven."""
    project.write(FAILS)
    project.run()
    cli(project, "runs", "clear", "d", "r1")
    assert "d r1: cleared, and no runner has taken it since" in cli(project, "runs", "show", "d", "r1").out


def test_a_killed_runner(project: Project) -> None:
    """A run whose runner was killed is shown to have none; its state can be restored with --force, as the refusal says."""
    project.write(WAITS)
    process = project.start()
    project.wait_for_key("k", "waits")
    assert cli(project, "task-store", "delete", "d", "r1", "waits", "k").code == 0
    assert "d r1: running, recorded" in cli(project, "runs", "show", "d", "r1").out
    refused = cli(project, "task-store", "restore", "d", "r1", "waits", "--force")
    assert (refused.code, "is running; restore when it has ended" in refused.err) == (5, True)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=DEADLINE)
    assert cli(project, "runs", "list").out.splitlines()[1].split()[2:5] == ["running", "(no", "runner)"]
    assert cli(project, "runs", "show", "d", "r1").out.count("running (no runner)") == 2
    refused = cli(project, "task-store", "restore", "d", "r1", "waits")
    assert (refused.code, "(--force)" in refused.err) == (5, True)
    assert cli(project, "task-store", "restore", "d", "r1", "waits", "--force").out == "1 key restored\n"
    assert project.keys("waits") == {"k": 1}
