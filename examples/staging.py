"""A watermark that moves with the success of its task, not before, and never back.

``publish`` loads the next three days, moves the files to where readers find them, and stages the day that it has reached. In
the first run it is killed after it has staged and before it is done: readers still see the old watermark, the next attempt
does the days again, and the watermark appears with its success.

Run it twice: ``milepost run examples/staging.py --run-id r1``, then with ``r2``. Then look at who moved the watermark:
``milepost asset-store history staged.days day``.
"""

import os
import signal
from datetime import date, timedelta

from milepost.sdk import DAG, Asset, task

DAYS = Asset("staged.days", uri="file:///days")

with DAG("staging") as dag:

    @task(outlets=[DAYS], retries=1)
    def publish(asset_store=None, run_id=None, ti=None):
        """Publish three days behind the watermark."""
        day = date.fromisoformat(asset_store.get("day", default="2026-01-01"))
        for _ in range(3):
            day += timedelta(days=1)
            # What publishes a day must be safe to repeat: until the success it is not done.
            asset_store.stage("day", day.isoformat(), advance=True)
        print(f"attempt {ti.try_number}: up to {day}; readers still see {asset_store.get('day')}")
        if run_id == "r1" and ti.try_number == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    publish()
