"""One job that runs elsewhere, never two, with ``submit_once``.

The job is a process of its own that counts primes. It is detached: it lives on when the worker that started it is killed.
Its process number can be given to another process later, so the number and the start time together identify it.

The first attempt is killed at the worst moment: the job runs, and its id is not stored yet. The second attempt submits again
with the same token. The job knows tokens, as many services do: the second process with a token ends at once, and both
attempts have the same job.

Run it with ``milepost run examples/external_job.py --run-id r1``. Files go to the folder PRIMES_FOLDER.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from milepost.sdk import DAG, task

FOLDER = Path(os.environ.get("PRIMES_FOLDER", "build/primes"))
PATIENCE = 120.0  # seconds

# What the other system runs. The first process with a token claims it, by a link, which only one can make; its result
# appears all at once, by a rename.
JOB = """
import os, sys
limit, folder, token = int(sys.argv[1]), sys.argv[2], sys.argv[3]
claim = f"{folder}/{token}.{os.getpid()}"
with open(claim, "w") as file:
    file.write(str(os.getpid()))
try:
    os.link(claim, f"{folder}/{token}")
except FileExistsError:
    sys.exit()
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


def submit(token: str, limit: int, folder: Path) -> dict[str, int | str]:
    """Start the job, unless there is one with this token, and return what identifies it."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.Popen([sys.executable, "-c", JOB, str(limit), str(folder), token], start_new_session=True)
    deadline = time.monotonic() + PATIENCE
    while not (folder / token).exists():
        if time.monotonic() > deadline:
            raise TimeoutError("the job does not start")
        time.sleep(0.01)
    pid = int((folder / token).read_text())
    return {"pid": pid, "started": started(pid)}


def status(job: dict[str, int | str], folder: Path) -> str:
    """Return ``active``, ``done`` or ``gone``."""
    running = started(job["pid"]) == job["started"]  # first: the result is there before the process ends
    if (folder / "result").exists():
        return "done"
    return "active" if running else "gone"


with DAG("external_job", params={"limit": 5_000_000}) as dag:

    @task(retries=3, retry_delay=0.1)
    def count_primes(task_store=None, params=None, run_id=None, ti=None):
        """Have the other system count primes: one job, whatever happens to this worker."""
        folder = FOLDER / run_id

        def start(token):
            job = submit(token, params["limit"], folder)
            print(f"attempt {ti.try_number} submitted and got job {job['pid']}")
            if ti.try_number == 1:
                os.kill(os.getpid(), signal.SIGKILL)  # what a full machine does to a worker
            return job

        job = task_store.submit_once("job", start, params=params, status=lambda job: status(job, folder))
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
        print(f"{primes:,} primes below {params['limit']:,}; jobs that ran: {len(jobs)}")

    report(count_primes())
