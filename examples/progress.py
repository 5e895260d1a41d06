"""Progress that people can watch: the key ``progress`` of the task store.

The value ``{"done": n, "total": m, "message": "…"}`` is shown as a bar by ``milepost run`` on a terminal and by
``milepost runs show``, from another terminal and while the task runs. It is an ordinary key: it survives a crash, and the
task can read it.

The work is real, if modest: it counts the lines of Python's standard library.

Run it with ``milepost run examples/progress.py --run-id r1``, then ``milepost runs show progress r1``.
"""

import sysconfig
import time
from pathlib import Path

from milepost.sdk import DAG, task

with DAG("progress") as dag:

    @task(retries=1)
    def count_lines(task_store=None):
        """Count, and say how far it is: twice a second at most, since every write waits for the disk."""
        files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
        lines, due = 0, 0.0
        for done, path in enumerate(files, start=1):
            lines += path.read_bytes().count(b"\n")
            if done == len(files) or time.monotonic() >= due:
                progress = {"done": done, "total": len(files), "message": f"{lines:,} lines"}
                task_store.set("progress", progress)
                due = time.monotonic() + 0.5
        print(f"{lines:,} lines in {len(files)} modules")

    count_lines()
