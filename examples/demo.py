"""What ``make demo`` shows: a worker is killed half way, its next attempt resumes, and a second run loads only what is new.

Everything is real: the runner is a process of its own, so is the worker, and it is killed with SIGKILL.
"""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import milepost

HERE = Path(__file__).resolve().parent
FOLDER = Path(os.environ.get("DEMO_FOLDER", HERE.parent / "build" / "demo"))
WAREHOUSE = FOLDER / "warehouse.db"
STORE = f"sqlite:///{FOLDER / 'milepost.db'}"
PATIENCE = 120.0  # seconds


def say(text: str) -> None:
    """Print a line of the story."""
    print(f"\n>>> {text}", flush=True)


def start(run_id: str, until: str) -> subprocess.Popen[bytes]:
    """Start a run of the example as a user would, on the command line."""
    command = ["milepost", "run", "examples/flights.py", "--run-id", run_id, "--params", f'{{"until": "{until}"}}']
    print("$", *[f"'{word}'" if " " in word else word for word in command], flush=True)
    environment = os.environ | {"FLIGHTS_WAREHOUSE": str(WAREHOUSE), "MILEPOST__STATE_STORE__URL": STORE}
    return subprocess.Popen([sys.executable, "-m", *command], cwd=HERE.parent, env=environment)


def kill_half_way(run: subprocess.Popen[bytes], store: milepost.Store, scope: milepost.TaskScope) -> int:
    """Wait until half of the rows are loaded, kill the worker, and return the number of pages it had written."""
    task_store = store.task_store(scope)
    deadline = time.monotonic() + PATIENCE
    while run.poll() is None and time.monotonic() < deadline:
        progress = task_store.get("progress", default={"done": 0, "total": 1})
        if progress["done"] * 2 >= progress["total"]:
            os.kill(task_store.get("worker"), signal.SIGKILL)
            return task_store.get("pages")
        time.sleep(0.005)
    raise SystemExit("the demo failed: the run ended, or took too long, before half of the rows were loaded")


def wait(run: subprocess.Popen[bytes]) -> None:
    """Wait for a run to succeed."""
    if code := run.wait(PATIENCE):
        raise SystemExit(f"the demo failed: milepost run ended with exit code {code}")


def main() -> None:
    """Tell the story and prove it."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    first = milepost.TaskScope("flights", "november", "load")
    second = milepost.TaskScope("flights", "december", "load")
    with milepost.connect(STORE) as store:
        say("Run 1 loads the departures up to 2013-11-30. Its worker will be killed half way, with SIGKILL.")
        run = start("november", "2013-11-30")
        killed_at = kill_half_way(run, store, first)
        wait(run)

        say("December arrives. Run 2 starts from the watermark of the asset and loads only what is new.")
        wait(start("december", "2013-12-31"))

        say("The proof")
        attempts = store.instances.get(first).attempt
        resumed_at = store.task_store(first).get(f"attempt {attempts}")["starts at page"]
        december = store.task_store(second).get("rows")
        watermark = store.asset_store(milepost.Asset("warehouse.flights", uri="file:///warehouse/flights")).get("watermark")
    with closing(sqlite3.connect(WAREHOUSE)) as connection:
        (rows,) = connection.execute("SELECT count(*) FROM flights").fetchone()
        unique = "SELECT DISTINCT day, scheduled, carrier, flight, origin FROM flights"
        (distinct,) = connection.execute(f"SELECT count(*) FROM ({unique})").fetchone()
    print(f"rows in the warehouse            {rows:>10,}")
    print(f"duplicates                       {rows - distinct:>10,}")
    print(f"attempts of run 1                {attempts:>10,}")
    print(f"pages written when it was killed {killed_at:>10,}")
    print(f"pages skipped by the resume      {resumed_at:>10,}")
    print(f"rows loaded by run 2             {december:>10,}")
    print(f"watermark of the asset           {watermark:>10}")
    expected = (rows, distinct, attempts, december, watermark) == (336_776, 336_776, 2, 28_135, "2013-12-31")
    if not expected or not killed_at <= resumed_at <= killed_at + 1:
        raise SystemExit("\nthe demo failed: these are not the numbers that were expected")
    print("\nNothing was loaded twice, nothing is missing.")


if __name__ == "__main__":
    main()
