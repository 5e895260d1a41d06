"""A cron job that keeps a cursor on an asset and can be killed at any time: count the status codes in a growing log.

Each call reads what came in since the last one. The cursor and the counts are one write, all or nothing: a line is counted
once, wherever the process is killed.

Cron starts the next call even if the last one still runs. So every call opens the next attempt of one task instance. That
makes an older call, which may hang, stale: its next write is refused and it ends.

A line for crontab: ``*/5 * * * * python cron_job.py /var/log/app.log``
"""

import argparse
from collections import Counter
from itertools import islice
from pathlib import Path

import milepost

SCOPE = milepost.TaskScope("status_codes", run_id="cron", task_id="count")
BATCH = 1_000  # lines


def main() -> None:
    """Count the new lines; the third word of a line is its status code."""
    parser = argparse.ArgumentParser(description="Count the status codes in the new lines of a log.")
    parser.add_argument("log", type=Path)
    arguments = parser.parse_args()
    log = milepost.Asset(f"log:{arguments.log.resolve()}")

    with milepost.connect() as store:
        opened = store.instances.open(SCOPE, outlets=[log])  # the next attempt
        state, attempt = opened["asset_store"], opened["attempt"]
        cursor, counts = state.get("cursor", default=0), Counter(state.get("counts", default={}))
        start = cursor
        with arguments.log.open("rb") as file:
            file.seek(cursor)
            while lines := list(islice(file, BATCH)):
                whole = [line for line in lines if line.endswith(b"\n")]  # the last one may still be written
                counts.update(line.split()[2].decode() for line in whole)
                cursor += sum(map(len, whole))
                state.set_many({"cursor": cursor, "counts": dict(counts)})
                if len(whole) < len(lines):
                    break
        store.instances.finish(SCOPE, attempt, "success")
        print(f"attempt {attempt}: bytes {start:,} to {cursor:,}, {dict(sorted(counts.items()))}")


if __name__ == "__main__":
    main()
