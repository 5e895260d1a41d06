"""Many processes on one SQLite file from its first moment on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import milepost
from tests.fault.helpers import SCOPE, Child, url

NAMES = [f"p{number}" for number in range(8)]


def ready(started: list[Child]) -> list[Child]:
    """Wait until all are up, so that the next line reaches them at the same moment."""
    for child in started:
        child.expect("ready")
    return started


def test_s13_eight_processes_and_a_collector_start_on_an_empty_file(start: Callable[..., Child], path: Path) -> None:
    """S-13: no error reaches a caller, all 400 own keys are there, the shared key holds one value that was written."""
    path.touch()
    writers = [start("starters", "s13", name) for name in NAMES]
    cleaner = start("starters", "cleaner", "c")
    for child in ready([*writers, cleaner]):
        child.say(str(path))
    for child in writers:
        child.expect("done")
    cleaner.say("stop")
    cleaner.expect("done")
    for child in (*writers, cleaner):
        assert child.finish() == []
    with milepost.connect(url(path)) as store:
        store.verify()
        task = store.task_store(SCOPE)
        shared = task.get("shared")
        assert shared["writer"] in NAMES
        assert shared == {"writer": shared["writer"], "number": 49, "filler": [shared["writer"]] * 200}
        expected = {f"{name}-{number}": number for name in NAMES for number in range(50)}
        assert task.get_many(expected) == expected
        assert len(task) == 401


def test_first_start_of_eight_processes_at_once(start: Callable[..., Child], tmp_path: Path) -> None:
    """Whoever comes first makes the schema; all others find it whole, be the file missing, empty, or in new folders."""
    group = ready([start("starters", "first", name) for name in NAMES])
    for round_ in range(30):
        path = tmp_path / f"{round_}.db"
        if round_ % 3 == 1:
            path.touch()
        elif round_ % 3 == 2:
            path = tmp_path / f"new-{round_}" / "deeper" / "store.db"
        for child in group:
            child.say(str(path))
        for child in group:
            child.expect("done")
        with milepost.connect(url(path)) as store:
            store.verify()
            assert store.task_store(SCOPE).items() == [(name, name) for name in NAMES]
    for child in group:
        child.finish()
