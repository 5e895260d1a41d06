"""The examples with event triggers, watched and killed."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import milepost
from milepost import Asset
from tests.examples.conftest import EXAMPLES, Shell


@contextmanager
def watch(shell: Shell, name: str) -> Iterator[subprocess.Popen[str]]:
    """Watch an example; what still runs at the end is killed."""
    process = shell.start("-m", "milepost", "watch", EXAMPLES / name)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait(true: Callable[[], Any], what: str) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.02)


def stop(process: subprocess.Popen[str]) -> None:
    """Tell a watch to stop, and see that it does."""
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_every_file_that_arrives_is_counted_in_one_run(shell: Shell, store: milepost.Store) -> None:
    """Files that arrive before, while and after the watch is killed start one run each; one that is replaced, another."""
    inbox = shell.folder / "build/inbox"
    inbox.mkdir(parents=True)

    def arrive(name: str, lines: int) -> None:
        (inbox / f"{name}.part").write_text("x\n" * lines)
        (inbox / f"{name}.part").rename(inbox / name)

    def done(count: int) -> bool:
        return [run.state for run in store.runs.list("arriving_files")] == ["success"] * count

    arrive("a", 1)
    arrive("b", 2)
    with watch(shell, "arriving_files.py") as process:
        wait(store.runs.list, "the first event is recorded")
    assert process.returncode == -signal.SIGKILL
    arrive("c", 3)
    with watch(shell, "arriving_files.py") as process:
        wait(lambda: done(3), "three runs have succeeded")
        arrive("a", 10)
        wait(lambda: done(4), "a fourth run has succeeded")
        (inbox / "b").unlink()
        seen = store.asset_store(Asset.ref(name="inbox.files"))
        wait(lambda: seen.keys() == ["seen/a", "seen/c"], "the file that is gone is forgotten")
        stop(process)
    assert dict(store.asset_store(Asset.ref(name="inbox.lines")).items()) == {"lines/a": 10, "lines/b": 2, "lines/c": 3}


def test_every_row_is_booked_in_one_run(shell: Shell, store: milepost.Store) -> None:
    """Rows that come before and after the watch is killed start one run each, and the cursor stands at the last one."""
    shell.python(EXAMPLES / "growing_table.py", "2")
    with watch(shell, "growing_table.py") as process:
        wait(store.runs.list, "the first event is recorded")
    assert process.returncode == -signal.SIGKILL
    shell.python(EXAMPLES / "growing_table.py", "1")
    with watch(shell, "growing_table.py") as process:
        wait(lambda: [run.state for run in store.runs.list()] == ["success"] * 3, "three runs have succeeded")
        rows = store.asset_store(Asset.ref(name="shop.rows"))
        wait(lambda: rows.get("last") == 3, "the cursor stands at the last row")
        stop(process)
    assert sorted(run.event.id for run in store.runs.list() if run.event) == ["1", "2", "3"]
    booked = dict(store.asset_store(Asset.ref(name="shop.totals")).items())
    assert booked == {"booked/000001": 100, "booked/000002": 101, "booked/000003": 100}
