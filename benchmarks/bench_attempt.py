"""What does the runner add to a task: how long does an attempt of a task that does nothing take?

The tasks of a DAG run one after the other. From one recorded end to the next there is a little more than one attempt: the
runner also notices that the one before has ended and decides what is next.
"""

from __future__ import annotations

import contextlib
import io
import itertools
from pathlib import Path

from benchmarks.harness import Figure, folder, median, open_store
from milepost.runner import run_file

__all__ = ["figures"]

_TASKS = 30
_DAG = f"""
from milepost.sdk import chain, dag, task

@task
def nothing():
    pass

@dag
def empty():
    chain(*(nothing.override(task_id=f"task_{{number:02d}}")() for number in range({_TASKS})))

empty()
"""


def figures() -> list[Figure]:
    with folder() as path:
        file, store_file = path / "empty.py", path / "milepost.db"
        file.write_text(_DAG, encoding="utf-8")
        _run(file, store_file)
        with open_store(store_file) as store:
            records = store.instances.list("empty", "run")
        times = sorted((record.opened_at, record.finished_at) for record in records)
        assert len(times) == _TASKS
        whole = [(after[1] - before[1]).total_seconds() * 1000 for before, after in itertools.pairwise(times)]
        inside = [(finished - opened).total_seconds() * 1000 for opened, finished in times]
        return [
            Figure("empty attempt, end to end", median(whole), "ms", must=150, judged="alone"),
            Figure("empty attempt, opened to recorded end", median(inside), "ms", judged="alone"),
        ]


def _run(file: Path, store_file: Path) -> None:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = run_file(file, run_id="run", url=f"sqlite:///{store_file}")
    if code != 0:
        raise RuntimeError(f"the run ended with {code}:\n{said.getvalue()}")
