"""An operator that has a service run a job: one job, whatever gets lost on the way.

The service is ``job_server.py`` beside this file. Start it in another terminal, then run this file:

    python examples/job_server.py jobs.db --port 8123
    milepost run examples/job_operator.py --run-id r1

The operator is written as one for Airflow 3.3, whose mixin has the same names, plus three things that close its gaps: it
submits with ``self.submission_token``, it can look a job up by that token, and it names the field that makes another job.
"""

import json
import os
import time
import urllib.error
import urllib.request

from milepost.sdk import DAG, NOT_FOUND, BaseOperator, ResumableJobMixin, task

SERVICE = os.environ.get("JOB_SERVER", "http://127.0.0.1:8123")
PATIENCE = 120.0  # seconds


def ask(path, body=None):
    """Ask the service."""
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{SERVICE}{path}", data), timeout=30) as answer:
        return json.load(answer)


class RowsJob(ResumableJobMixin, BaseOperator):
    """Have the service go through a number of rows.

    Args:
        rows: How many.
        kwargs: Arguments of every operator.
    """

    external_id_key = "job"
    fingerprint_fields = ("rows",)

    def __init__(self, *, rows, **kwargs):
        super().__init__(**kwargs)
        self.rows = rows

    def execute(self, context):
        """Submit the job unless it is there already, wait for it, and return what it did."""
        return self.execute_resumable(context)

    def submit_job(self, context):
        """Submit the job with the token of the submission."""
        return ask("/jobs", {"token": self.submission_token, "rows": self.rows})["id"]

    def find_job(self, token, context):
        """Look up what was submitted with a token."""
        jobs = ask(f"/jobs?token={token}")
        return jobs[0]["id"] if jobs else NOT_FOUND

    def get_job_status(self, external_id, context):
        """Ask how the job stands; if the service does not answer, that is an error and not a status."""
        try:
            return ask(f"/jobs/{external_id}")["state"]
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return "vanished"
            raise

    def is_job_active(self, status):
        """Tell whether the job is still to end."""
        return status == "running"

    def is_job_succeeded(self, status):
        """Tell whether the job has succeeded."""
        return status == "finished"

    def poll_until_complete(self, external_id, context):
        """Wait for the job and show how far it is."""
        deadline = time.monotonic() + PATIENCE
        while True:
            job = ask(f"/jobs/{external_id}")
            context["task_store"].set("progress", {"done": job["done"], "total": job["rows"]})
            if job["state"] != "running":
                break
            if time.monotonic() > deadline:
                raise TimeoutError(f"job {external_id} is still running")
            time.sleep(0.1)
        if job["state"] != "finished":
            raise RuntimeError(f"job {external_id} {job['state']}")

    def get_job_result(self, external_id, context):
        """Return the number of rows that are done."""
        return ask(f"/jobs/{external_id}")["done"]


with DAG("job_operator") as dag:

    @task
    def report(rows):
        """Print the result and how many jobs the service has run, for this run and all before it."""
        print(f"{rows:,} rows; jobs of the service so far: {len(ask('/jobs'))}")

    report(RowsJob(task_id="load", rows=10_000, retries=3, retry_delay=0.1).output)
