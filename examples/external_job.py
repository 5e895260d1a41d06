"""Reattach to a job that runs elsewhere, by hand, with ``get`` and ``set``.

The job is a process of its own that counts primes. It is detached: it lives on when the worker that started it is killed.
Its process number can be given to another process later, so the number and the start time together identify it.

The first attempt submits the job, stores what identifies it, and is killed. The second attempt finds the job in the task
store and waits for it instead of submitting another one.

One gap is left: a worker that is killed after the job was submitted and before ``set`` returned leaves a job that nobody
knows. Done by hand, only a service that can be asked for its jobs closes it.

Run it with ``milepost run examples/external_job.py --run-id r1``. Files go to the folder PRIMES_FOLDER.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from milepost.sdk import DAG, NEVER_EXPIRE, task

FOLDER = Path(os.environ.get("PRIMES_FOLDER", "build/primes"))
PATIENCE = 120.0  # seconds

# What the other system runs. It announces itself in jobs.log, and its result appears all at once, by a rename.
JOB = """
import os, sys
limit, folder = int(sys.argv[1]), sys.argv[2]
with open(f"{folder}/jobs.log", "a") as log:
    log.write(f"{os.getpid()}\\n")
sieve = bytearray([1]) * limit
sieve[:2] = b"\\0\\0"
for n in range(2, int(limit**0.5) + 1):
    if sieve[n]:
        for multiple in range(n * n, limit, n):
            sieve[multiple] = 0
with open(f"{folder}/result.part", "w") as result:
    result.write(str(sum(sieve)))
os.replace(f"{folder}/result.part", f"{folder}/result")
"""


def started(pid: int) -> str:
    """Return when a process started, as its system tells it; empty if it does not run."""
    if Path("/proc/self/stat").exists():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return ""
        return "" if fields[0] == "Z" else fields[19]
    found = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return " ".join(found.stdout.split())


def submit(limit: int, folder: Path) -> dict[str, int | str]:
    """Start the job and return what identifies it."""
    folder.mkdir(parents=True, exist_ok=True)
    job = subprocess.Popen([sys.executable, "-c", JOB, str(limit), str(folder)], start_new_session=True)
    return {"pid": job.pid, "started": started(job.pid)}


def status(job: dict[str, int | str], folder: Path) -> str:
    """Return ``active``, ``done`` or ``gone``."""
    running = started(job["pid"]) == job["started"]  # first: the result is there before the process ends
    if (folder / "result").exists():
        return "done"
    return "active" if running else "gone"


with DAG("external_job", params={"limit": 5_000_000}) as dag:

    @task(retries=3, retry_delay=0.1)
    def count_primes(task_store=None, params=None, run_id=None, ti=None):
        """Have the other system count primes: submit one job, whatever happens to this worker."""
        folder = FOLDER / run_id
        job = task_store.get("job")
        if job is None or status(job, folder) == "gone":
            job = submit(params["limit"], folder)
            task_store.set("job", job, retention=NEVER_EXPIRE)
            print(f"attempt {ti.try_number} submitted job {job['pid']}")
            if ti.try_number == 1:
                os.kill(os.getpid(), signal.SIGKILL)  # what a full machine does to a worker
        else:
            print(f"attempt {ti.try_number} found job {job['pid']}, which is {status(job, folder)}")

        deadline = time.monotonic() + PATIENCE
        while status(job, folder) == "active":
            if time.monotonic() > deadline:
                raise TimeoutError(f"job {job['pid']} is still running")
            time.sleep(0.05)
        if status(job, folder) == "gone":
            raise RuntimeError(f"job {job['pid']} ended without a result")
        return int((folder / "result").read_text())

    @task
    def report(primes, params=None, run_id=None):
        """Print the result and how many jobs it took."""
        jobs = (FOLDER / run_id / "jobs.log").read_text().split()
        print(f"{primes:,} primes below {params['limit']:,}; jobs submitted: {len(jobs)}")

    report(count_primes())
