"""What does Milepost add to the start of a task of Airflow, imports included, as measured in the process of the task?

Needs an environment with Airflow and Milepost in BENCH_AIRFLOW_PYTHON, such as ``.airflow/2.11.2/bin/python`` after
``make test-airflow``; without it nothing is measured. BENCH_START_URL names the store, by default a SQLite file. On
Airflow 3.3 and later: what does `set` cost in a task beside Airflow's own accessor? That one is flattered: in ``dag.test()``
its API server is in the same process.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import milepost
from benchmarks.harness import Figure, folder, median

__all__ = ["figures"]

SAMPLES = int(os.environ.get("BENCH_SAMPLES", "7"))
MUST = 20
PARTS = ("imports", "listener", "around", "first_set")


def measure(python: str, place: Path, url: str, how: str, which: str) -> list[dict[str, float]]:
    """Return the parts of each sample, in milliseconds."""
    file = place / f"{how}-{which}.jsonl"
    (place / "dags").mkdir(exist_ok=True)
    # With bytecode, as an installed package has it.
    dropped = ("AIRFLOW", "MILEPOST", "PYTHONDONTWRITEBYTECODE")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(dropped)} | {
        "AIRFLOW_HOME": str(place),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(place / "dags"),
        "AIRFLOW__MILEPOST__URL": url,
        "AIRFLOW__MILEPOST__KEEP_TEST_STATE": "True",
    }
    script = Path(__file__).with_name("airflow_start.py")
    # Airflow 3 wants to find the DAG in its folder.
    (place / "dags" / "start.py").write_text(
        f"import sys\nsys.path.insert(0, {str(script.parent)!r})\n"
        "from airflow_start import make_dags\nglobals().update(make_dags())\n"
    )

    def run(*command: str) -> None:
        done = subprocess.run([python, *command], env=environment, capture_output=True, text=True, timeout=1200, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]

    if not (place / "airflow.db").exists():
        run("-m", "airflow", "db", "migrate")
        run(str(script), str(place / "not-counted.jsonl"), "fresh", "uses", "1")  # writes the bytecode
    for _ in range(SAMPLES if how == "fresh" else 1):
        run(str(script), str(file), how, which, str(SAMPLES))
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def total(samples: list[dict[str, float]]) -> float:
    """Return the median of what the parts of a start take together."""
    return median([sum(one.get(part, 0) for part in PARTS) for one in samples])


def figures() -> list[Figure]:
    """Measure."""
    python = os.environ.get("BENCH_AIRFLOW_PYTHON")
    if not python:
        return []
    found: list[Figure] = []
    with folder() as place:
        url = os.environ.get("BENCH_START_URL") or f"sqlite:///{place / 'store.db'}"
        with milepost.connect(url):
            pass
        for how, named in (("forked", "in a worker"), ("fresh", "in a fresh process")):
            plain = measure(python, place, url, how, "plain")
            for which, said in (("idle", "that uses no store"), ("uses", "that sets a key")):
                samples = measure(python, place, url, how, which)
                parts = {part: median([one[part] for one in samples if part in one] or [0]) for part in PARTS}
                cpu = median([one["cpu"] for one in samples]) - median([one["cpu"] for one in plain])
                note = ", ".join(f"{part} {value:.1f} ms" for part, value in parts.items() if value)
                note += f"; of the processor's time {cpu:.1f} ms"
                if which == "uses":
                    note += f" with the second set, which takes {median([one['later_set'] for one in samples]):.1f} ms"
                measure_ = f"added to the start of a task {said}, {named}"
                must = MUST if how == "forked" or which == "idle" else None
                found.append(Figure(measure_, total(samples), "ms", total(plain), "without", must, "more", note))
        if len(list(Path(python).parent.parent.glob("lib/python*/site-packages/airflow/state/metastore.py"))) == 1:
            (both,) = measure(python, place, url, "fresh", "both")[:1]
            name = "set from a task, its store a file"
            found.append(Figure(name, both["ours"], "us", both["native"], "Airflow's own", 1 / 6))
    return found
