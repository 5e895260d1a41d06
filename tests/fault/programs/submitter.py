"""Submit a job to the service of examples/job_server.py and kill itself at a named point.

Arguments: URL of the store, URL of the service, attempt, where to die, what the service can do (tokens, search, neither).
"""

import json
import logging
import os
import signal
import sys
import time
import urllib.request

from milepost import NOT_FOUND, TaskScope, connect

logging.basicConfig(stream=sys.stdout)
URL, SERVICE, ATTEMPT, POINT, KIND = sys.argv[1:]


def die(point):
    """Kill this process, if this is the point."""
    if point == POINT:
        os.kill(os.getpid(), signal.SIGKILL)


def ask(path, body=None):
    """Ask the service."""
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{SERVICE}{path}", data), timeout=30) as answer:
        return json.load(answer)


def submit(token):
    """Submit the job; a request that is lost is lost with this process."""
    die("request lost")
    number = ask("/jobs", {"token": token, "rows": 10**9})["id"]
    die("answer lost")
    return number


def find(token):
    """Search by token."""
    found = ask(f"/jobs?token={token}")
    return found[0]["id"] if found else NOT_FOUND


def status(job):
    """Say how the job stands."""
    state = next((one["state"] for one in ask("/jobs") if one["id"] == job), "removed")
    return {"running": "active", "finished": "done"}.get(state, "gone")


with connect(URL) as store:
    real = store.metastore.call

    def call(one):
        """Run a call of the store, and die before or after it."""
        die(f"before {type(one).__name__}")
        answer = real(one)
        die(f"after {type(one).__name__}")
        return answer

    store.metastore.call = call
    opened = store.instances.open(TaskScope("d", "r", "t"), int(ATTEMPT))
    job = opened["task_store"].submit_once("job", submit, find=find if KIND == "search" else None, status=status)
    polls = 0
    while status(job) == "active":
        die("polling")
        polls += 1
        if polls == 3:
            ask(f"/jobs/{job}/finished", {})
        time.sleep(0.001)
    die("success")
    store.instances.finish(TaskScope("d", "r", "t"), int(ATTEMPT), "success")
    print(json.dumps({"job": job, "status": status(job)}))
