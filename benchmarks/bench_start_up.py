"""What does a process pay for `import milepost` and a first `get` on a file that is there?"""

from __future__ import annotations

import subprocess
import sys
import time

from benchmarks.harness import Figure, folder, median, open_store, task_store

__all__ = ["figures"]

_PROCESSES = 30
_FIRST_GET = """
import milepost
store = milepost.connect({url!r})
scope = milepost.TaskScope("bench", "run", "task")
assert store.task_store(scope).get("k0") == {{"page": 1, "status": "running", "rows": 12345}}
store.close()
"""


def _seconds(code: str) -> float:
    # Isolated: neither side sees PYTHON… variables or what the user has installed for themselves.
    before = time.perf_counter()
    subprocess.run([sys.executable, "-I", "-c", code], check=True)
    return time.perf_counter() - before


def figures() -> list[Figure]:
    with folder() as path:
        with open_store(path / "milepost.db") as store:
            task_store(store)
        codes = {
            "ours": _FIRST_GET.format(url=f"sqlite:///{path / 'milepost.db'}"),
            "import": "import milepost",
            "bare": "pass",
        }
        times: dict[str, list[float]] = {name: [] for name in codes}
        for turn in range(-2, _PROCESSES):
            for name, code in codes.items():
                seconds = _seconds(code)
                if turn >= 0:
                    times[name].append(seconds * 1000)
        medians = {name: median(samples) for name, samples in times.items()}
        return [
            Figure("import and first get", medians["ours"], "ms", medians["bare"], "bare Python", must=80, judged="more"),
            Figure("import alone", medians["import"], "ms", medians["bare"], "bare Python", judged="more"),
        ]
