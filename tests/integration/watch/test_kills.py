"""A watch that is killed at any point loses no event and starts no run twice."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import milepost
from milepost import Asset, TaskScope
from tests.fault.server_helpers import DIALECTS
from tests.integration.runner.helpers import alive, wait_until
from tests.integration.watch.helpers import FILES, Watching
from tests.support.servers import Databases

POINTS = ["before record", "after record", "before run", "before cursor", "after cursor"]
NAMES = ["a.csv", "b.csv"]


def crash_and_go_on(watching: Watching, point: str) -> None:
    """Crash at a point in the life of the second of two events, watch again, and look at what came of both."""
    watching.arrive(*NAMES)
    first = watching.start(crash=point)
    assert watching.wait(first).code == -signal.SIGKILL
    second = watching.start()
    runs = watching.wait_states("success", "success")
    assert watching.terminate(second).code == 0
    # The kill may cut a task off, which is then tried again; its run is the same.
    done = {tuple(line) for line in watching.lines("done.txt")}
    assert sorted(done) == [(name, "asset_triggered", True) for name in NAMES]
    assert len({run.event.id for run in runs if run.event}) == 2
    with milepost.connect(watching.url) as store:
        accessor = store.asset_store(Asset.ref(name="files"))
        assert accessor.keys() == [f"seen/{name}" for name in NAMES]
        entry = accessor.entry("seen/b.csv")
        assert entry is not None
        assert (entry.writer.kind, entry.writer.user) == ("watcher", "arrivals")


@pytest.mark.parametrize("point", POINTS)
def test_no_event_is_lost_and_none_starts_two_runs(watching: Watching, point: str) -> None:
    """Killed between the yield, the record, the start of the run and the cursor: two files, two runs."""
    crash_and_go_on(watching, point)


@pytest.mark.parametrize(("dialect", "point"), list(zip(DIALECTS, ["after record", "before cursor"], strict=True)))
def test_the_same_on_servers(tmp_path: Path, databases: Databases, dialect: str, point: str) -> None:
    """As on SQLite, on PostgreSQL and MySQL."""
    watching = Watching(tmp_path, databases.get(dialect).url)
    watching.write()
    try:
        crash_and_go_on(watching, point)
    finally:
        watching.stop()


WAITING = FILES.replace(
    "        append(",
    """        while not (HERE / "go").exists():
            append("alive.txt", os.getpid())
            time.sleep(0.02)
        append(""",
)


def test_a_run_that_was_cut_off_is_gone_on_with(watching: Watching) -> None:
    """Killed while a run is at work: its processes die too, and the next watch goes on with the same run."""
    watching.write(WAITING)
    watching.arrive("a.csv")
    first = watching.start()
    (pid, *_) = wait_until(lambda: watching.lines("alive.txt"), "the task is at work")
    watching.kill(first)
    wait_until(lambda: not alive(pid), "the attempt dies with the watch")
    (watching.folder / "go").touch()
    second = watching.start()
    (run,) = watching.wait_states("success")
    assert watching.terminate(second).code == 0
    assert [line[0] for line in watching.lines("done.txt")] == ["a.csv"]
    with milepost.connect(watching.url) as store:
        record = store.instances.get(TaskScope("load", run.run_id, "note"))
        assert record is not None
        assert (record.state, record.attempt) == ("success", 2)
